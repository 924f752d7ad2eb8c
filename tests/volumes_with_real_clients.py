"""Clients that others wrote must find in `forebay serve` a right and durable NBD server.

Each test of tests/volumes/ starts servers of its own, and drives them with nbdinfo, nbdcopy, libnbd, qemu-img, qemu-io, fio, and with ext4
and PostgreSQL on nbdfuse and a loop device. One has its volume on an S3 server. What a test needs and does not find is a skip with its reason, in CI (CI=true) a
failure. In place of forebay "nbdkit" may stand, whose file plugin is then the server, to test the tests.

Usage: /usr/bin/python3 volumes_with_real_clients.py PATH-OF-FOREBAY [--only NAME,...]
(libnbd's Python module is Debian's python3-libnbd, which no virtual environment sees.)
"""

import argparse
import importlib.util
import pathlib
import signal
import sys
import tempfile
import time

from volumes import checks

# In this order; each is a module of tests/volumes/ with NEEDS, the programs that it runs, and `test(start, folder)`.
TESTS = [
    "info_and_copy",
    "commands",
    "connections",
    "hostile_clients",
    "qemu",
    "durability",
    "fio",
    "percentiles",
    "stopping",
    "full_disk",
    "tls",
    "activation",
    "objects",
    "ext4",
    "postgresql",
]


def run_test(name, server):
    if importlib.util.find_spec("nbd") is None:
        raise checks.Skipped("libnbd's Python module is not there (Debian: python3-libnbd, with /usr/bin/python3)")
    # Imported here, since they import it.
    from volumes.server import Server, server_program

    test = importlib.import_module(f"volumes.{name}")
    checks.need(*test.NEEDS)
    program = server_program(server)
    with tempfile.TemporaryDirectory(prefix="forebay-") as folder:
        folder = pathlib.Path(folder)
        # PostgreSQL's user passes through.
        folder.chmod(0o755)

        def start(*volumes, folder=folder, **options):
            return Server(program, folder, *volumes, **options)

        start.program = program
        test.test(start, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("forebay", help="the program, or nbdkit with options")
    parser.add_argument("--only", metavar="NAME,...", default=",".join(TESTS), help=f"of {', '.join(TESTS)}")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(TESTS):
        parser.error(f"--only: no test is called {', '.join(sorted(unknown))}; there are {', '.join(TESTS)}")
    # So that contexts clean up: mounts, loop devices and processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    failed = skipped = 0
    for name in chosen:
        began = time.monotonic()
        print(f"{name}:", flush=True)
        try:
            run_test(name, arguments.forebay)
        except checks.Skipped as reason:
            skipped += not checks.IN_CI
            failed += checks.IN_CI
            print(f"  {'FAILED (nothing may be missing in CI)' if checks.IN_CI else 'skipped'}: {reason}", flush=True)
        except Exception as error:  # a failure of one test leaves the others to be run
            failed += 1
            print(f"  FAILED {type(error).__name__}: {error}", flush=True)
        print(f"  {time.monotonic() - began:.1f} s", flush=True)
    print(f"volumes with real clients: {checks.passed} checks passed, {failed} tests failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
