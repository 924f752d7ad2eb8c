#!/usr/bin/env python3
"""Attacks on the program, black box: each prints its figures, beside those of nbdkit and qemu-nbd where they matter, and the bars.

Usage: run.py [--quick | --full | --soak MINUTES] [NAME…] [--program PATH] [--json FILE]

Without names: all attacks, with --quick those that show their fault in under a minute. Each is a module beside this file, with
`attack(lab)`, and QUICK and FULL, the seconds after which it is killed; QUICK is None where --quick leaves it out. Exits with 1 if a bar
is not met, an attack fails or hangs, or, in CI (CI=true), one must be skipped. Other work of the machine makes times longer: with --quick an
attack that misses nothing but bars on times is tried again, three times at most.
"""

import argparse
import contextlib
import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from shared.device import unmount_all
from shared.lab import Lab

ATTACKS = [
    "random_keys",
    "metadata",
    "slow_readers",
    "header_writers",
    "cache_floods",
    "idle_crowds",
    "acknowledged_on_sigterm",
    "hung_device",
    "flush_crowds",
    "big_trim",
    "torn_sectors",
    "reload_storms",
    "two_writers",
    "killed_steering",
    "killed_paging",
]
ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMES = ("ms", "s", "/s", "×")
QUICK_TRIES = 3
IN_CI = os.environ.get("CI") == "true"
COLUMNS = "{:<66} {:>10} {:<5} {:<50} {:>8}  {}"


def shown(number):
    match number:
        case None:
            return "never"
        case str():
            return number
        case _ if number == int(number) or abs(number) >= 100:
            return f"{number:,.0f}"
        case _:
            return f"{number:.3g}"


def bar(line):
    least, most = line.get("at_least"), line.get("at_most")
    if isinstance(least, str):
        return least
    return f"≥ {shown(least)}" if least is not None else f"≤ {shown(most)}" if most is not None else ""


def show(line):
    if "note" in line:
        return f"  note: {line['note']}"
    if "skipped" in line:
        return f"  skipped: {line['skipped']}"
    peers = ", ".join(f"{name} {shown(value)}" for name, value in line["peers"].items())
    verdict = {None: "", True: "ok", False: "NOT MET"}[line["met"]]
    text = ("  " + COLUMNS.format(line["figure"], shown(line["ours"]), line["unit"], peers, bar(line), verdict)).rstrip()
    return f"{text}\n    {line['why']}" if "why" in line else text


def inside(name, arguments, folder):
    """The attack itself, in a process of its own, which prints its lines as JSON."""
    lab = Lab(arguments.program, folder, arguments.full or arguments.soak)
    lab.minutes = arguments.soak
    try:
        importlib.import_module(name).attack(lab)
    except Exception as error:  # printed as a line of the table
        traceback.print_exc()
        lab.holds("the attack comes to its end", False, f"{type(error).__name__}: {error}")


def limit(name, arguments):
    module = importlib.import_module(name)
    return module.limit(arguments.soak) if arguments.soak else module.FULL if arguments.full else module.QUICK


def run(name, arguments):
    """Its lines, printed as they come; ended with all that it started when its time is over."""
    seconds = limit(name, arguments)
    with tempfile.TemporaryDirectory(prefix="attack-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, __file__, *sys.argv[1:], "--program", arguments.program, "--inside", name, "--folder", folder]
        lines = []
        begin = time.monotonic()
        hung = threading.Event()
        with open(f"{folder}/stderr", "w+") as stderr:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True)

            def end():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)

            def bite():
                hung.set()
                end()

            watchdog = threading.Timer(seconds, bite)
            watchdog.start()
            try:
                for text in child.stdout:
                    lines.append(json.loads(text))
                    print(show(lines[-1]), flush=True)
                child.wait()
            finally:
                watchdog.cancel()
                end()
                child.wait()
                unmount_all(folder)
            if hung.is_set() or child.returncode:
                why = f"hung after {seconds} s" if hung.is_set() else f"the attack failed with exit code {child.returncode}"
                lines.append({"figure": why, "ours": "killed", "unit": "", "peers": {}, "met": False})
                print(show(lines[-1]), flush=True)
            if any(line.get("met") is False for line in lines):
                stderr.seek(0)
                sys.stderr.write(stderr.read()[-4000:])
    return {"attack": name, "seconds": round(time.monotonic() - begin, 1), "lines": lines}


def only_times(lines):
    """Whether bars were missed, and none but those on times that came to an end."""
    missed = [line for line in lines if line.get("met") is False]
    return bool(missed) and all(line["unit"] in TIMES and isinstance(line["ours"], int | float) for line in missed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="what shows its fault in under a minute (the default)")
    how.add_argument("--full", action="store_true", help="everything, at full length")
    how.add_argument("--soak", type=float, metavar="MINUTES", help="all at once for so long, with bystanders who check their data")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ATTACKS)}")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "target/release/forebay")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="where the figures go as well")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.program = arguments.program.resolve()
    if arguments.inside:
        return inside(arguments.inside, arguments, arguments.folder)
    if unknown := set(arguments.names) - set(ATTACKS):
        parser.error(f"no attack is called {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    names = ["soak"] if arguments.soak else arguments.names or [name for name in ATTACKS if limit(name, arguments)]
    results = []
    for name in names:
        print(f"{name}: {importlib.import_module(name).__doc__.splitlines()[0]}", flush=True)
        results.append(run(name, arguments))
        for _ in range(0 if arguments.full or arguments.soak else QUICK_TRIES - 1):
            if only_times(results[-1]["lines"]):
                print("  tried again, as nothing but times missed its bar", flush=True)
                results[-1] = run(name, arguments)
        print(f"  {results[-1]['seconds']} s\n", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))
    lines = [line for result in results for line in result["lines"]]
    met, missed = (sum(line.get("met") is wanted for line in lines) for wanted in (True, False))
    skipped = sum("skipped" in line for line in lines)
    print(f"attacks: {met} bars met, {missed} not met, {skipped} skipped; {sum(result['seconds'] for result in results):.0f} s")
    return 1 if missed or (skipped and IN_CI) else 0


if __name__ == "__main__":
    sys.exit(main())
