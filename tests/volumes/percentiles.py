"""What `top` says that 99 % of the requests took at most is what fio has measured: of a volume, and of a mount."""

import csv
import io
import json
import os
import subprocess

from volumes.checks import Skipped, check, run, wait_until
from volumes.server import MIB, MOST_SECONDS, Forebay, free_port, make_volume

NEEDS = ("fio", "fusermount3")
SIZE = 64 * MIB
# A disk whose reads take some milliseconds: the way to the server and back is a small part of that.
SLOW = ("--delay", "nearline")
OPTIONS = f"--name=timed --rw=randread --bs=4k --iodepth=1 --size={SIZE} --time_based --runtime=4 --randseed=9 --output-format=json"


def by_fio(output, *options):
    run("fio", *OPTIONS.split(), f"--output={output}", *options, cwd=output.parent)
    said = output.read_text()
    # Notes may come before the JSON.
    times = json.loads(said[said.index("{\n") :])["jobs"][0]["read"]["clat_ns"]
    return times["percentile"]["99.000000"] / 1e6


def by_top(words, port):
    said = subprocess.run(
        [*words, "top", "--once", "--format", "csv", f"127.0.0.1:{port}"], capture_output=True, text=True, timeout=MOST_SECONDS, check=True
    )
    shown = next(csv.DictReader(io.StringIO(said.stdout)))
    return float(shown["client_p99_seconds"]) * 1e3


def check_near(what, of_top, of_fio):
    check(f"99 % of the reads of {what}: {of_top:.2f} ms by top, {of_fio:.2f} by fio", abs(of_top - of_fio) <= of_fio / 5)


def test(start, folder):
    program = start.program
    if not isinstance(program, Forebay):
        raise Skipped("only forebay says what its requests took")
    output = folder / "fio.json"
    port = free_port()
    beside = [*SLOW, "--metrics", f"127.0.0.1:{port}"]
    volume = make_volume(folder, "volume", SIZE)
    with start(volume, cache="4MiB", options=beside) as server:
        of_fio = by_fio(output, "--ioengine=nbd", f"--uri={server.uri('volume')}")
        check_near("a volume", by_top(program.words, port), of_fio)
    below, mounted = folder / "below", folder / "mounted"
    below.mkdir()
    mounted.mkdir()
    make_volume(below, "file", SIZE)
    mount = subprocess.Popen([*program.words, "mount", below, mounted, "--foreground", "--cache", "4MiB", *beside], stdin=subprocess.DEVNULL)
    try:
        check("the mount is there", wait_until(lambda: os.path.ismount(mounted), MOST_SECONDS))
        of_fio = by_fio(output, "--ioengine=psync", f"--filename={mounted / 'file.img'}", "--invalidate=0")
        check_near("a mount", by_top(program.words, port), of_fio)
    finally:
        mount.terminate()
        mount.wait(MOST_SECONDS)
