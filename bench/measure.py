"""What the scripts here share: running a program and taking its time and memory, and keeping raw figures with the machine they are
from."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "bench" / "runs"
TRACES = pathlib.Path(os.environ.get("FOREBAY_TRACES", ROOT.parent / "shared" / "traces"))


def program(path):
    """Forebay's program, given on a command line."""
    file = pathlib.Path(path).resolve()
    if not os.access(file, os.X_OK) or file.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is no program: build one with cargo build --release, and name target/release/forebay")
    return file


def of_served_file(parser):
    """Adds the options of a measurement that fio makes on a warm file."""
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement of a file")
    parser.add_argument("--size", type=int, default=256, help="MiB of the file")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it works")
    parser.add_argument("--out", help="the file for the raw figures")


def parsed(parser):
    """What is given of these options."""
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.seconds, given.size = 1, 1.0, 64
    return given


def processor_seconds(process):
    """What a process has spent so far, with its threads that have ended."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(command):
    """Runs a program to its end: its output, and the seconds, processor seconds and most bytes of memory that it took.

    The memory is what the kernel counts as the child's maximum resident set. Linux carries over there what the parent had when it
    started the child, so this script itself stays small: it imports nothing large."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        child = subprocess.Popen([str(word) for word in command], stdout=output)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"`{' '.join(map(str, command))}` failed with exit code {child.returncode}: see above")
        output.seek(0)
        return output.read(), {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024}


def zipf(forebay, pages, references):
    """The file of a Zipf trace, made where it is missing."""
    file = ROOT / "target" / "bench-traces" / f"zipf-{pages}-{references}.oracleGeneral"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        run([forebay, "convert", f"zipf:pages={pages},references={references},alpha=1.0", file])
    return file


def machine():
    """Where and when the figures are from, and of which commit."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()  # noqa: E731
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": git("rev-parse", "HEAD"),
        "changed_since_commit": bool(git("status", "--porcelain", "--untracked-files=no")),
        "load_at_start": os.getloadavg(),
    }


def keep(name, given, figures):
    """Writes raw figures and the options that they were made with, by default into `runs/` under today's date. Options that name files say
    nothing to others."""
    file = given.out
    options = {key: value for key, value in vars(given).items() if key not in ("forebay", "plain", "passthrough_ll", "grid", "umap", "out", "keep_traces")}
    file = pathlib.Path(file) if file else RUNS / f"{datetime.date.today()}-{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"options": options} | figures, indent=1) + "\n")
    print(f"\nRaw figures: {file}")


def spread(values, form="{:.2f}"):
    """The median, and the smallest and largest if there are several."""
    median = form.format(statistics.median(values))
    return median if len(values) == 1 else f"{median} ({form.format(min(values))}–{form.format(max(values))})"


def table(header, rows):
    """Prints rows as Markdown."""
    widths = [max(len(str(row[column])) for row in [header, *rows]) for column in range(len(header))]
    line = lambda cells: print("| " + " | ".join(str(cell).ljust(width) for cell, width in zip(cells, widths)) + " |")  # noqa: E731
    line(header)
    line(["-" * width for width in widths])
    for row in rows:
        line(row)
