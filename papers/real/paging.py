"""Programs whose memory is paged, for the experiments on virtual memory: by `forebay run` under a policy, or by the kernel in a control group.

Steered: the kernel pages by the same swap file, and `forebay steer --memory` has chosen what leaves. The memory of the program that steers, some
15 to 20 MiB, is within the limit from 64 MiB on. Below that it is beside: most of these programs have less themselves. `steered beside POLICY` has it
beside at any size: that shows what the policy's choices are worth, apart from the memory that they take. `steered POLICY in turns`: in turns with the kernel.

Ours: `forebay run --delay DISK`, with swap space in a file in memory. The kernel's: a swap file on this machine's own disk, so that its page faults can
be compared, and its times cannot. Swap space behind `serve --delay`, nbdfuse and a loop device works for a while, and then hangs: the kernel may page
out what those programs need to answer it.

What a size means is the same, too: the bytes of large memory that are resident. The kernel bounds all memory of a group, so its limit is the size and
what the program has besides: that is measured before, with room for all. `forebay run` counts in its limit what it takes to manage pages, 2 MiB
and more; its limit is such that pages have the size. With `whole` the limit is the size.
"""

import contextlib
import json
import os
import pathlib
import threading
import time

import serving
import sessions
import stage
from fronts import MemorySteering
from stage import KIB, MIB
from volumes.checks import Failed, run

NEEDS = ("fallocate", "mkswap", "swapon", "swapoff")
# Mappings from this length on are large memory. `forebay run` pages blocks of 128 KiB and more; the C library's heap has smaller ones, too.
LARGE = MIB
SWAP = 2048 * MIB
MOST_SECONDS = 120
RECORDED_SECONDS = 900
# The least limit that the memory of the program that steers is part of.
LEAST_COUNTED = 64 * MIB
# After the name of a policy: it and the kernel choose in turns.
IN_TURNS = " in turns"
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128)


class Anywhere:
    """Programs in no group of their own."""

    def command(self, words):
        return words

    def processes(self):
        return []


class Paged(stage.Programs):
    """A group whose memory has one limit, and is paged to swap space beyond it.

    Where the kernel finds nothing to reclaim at once, because all is being written, it would kill a program. Here that waits, and the limit gives way
    for a moment; `gave` says how often."""

    def __init__(self, limit):
        super().__init__()
        self.limit, self.gave = limit // stage.PAGE * stage.PAGE, 0
        # Bytes of it that somebody else has taken.
        self.taken = lambda: 0
        self.set("swappiness", 100)
        self.set("oom_control", 1)
        self.set("limit_in_bytes", self.limit)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.give)

    def give(self):
        while not self.over.wait(0.01):
            limit = self.limit - self.taken() // stage.PAGE * stage.PAGE
            if "under_oom 1" in (self.path / "memory.oom_control").read_text():
                self.gave += 1
                self.set("limit_in_bytes", limit + MIB)
            # The kernel refuses a limit for which it finds too little to reclaim; it is asked again.
            with contextlib.suppress(OSError):
                self.set("limit_in_bytes", limit)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        super().__exit__()

    def statistics(self):
        return {name: int(value) for name, value in (line.split() for line in (self.path / "memory.stat").read_text().splitlines())}


class Swap:
    """A swap file on this machine's own disk, there during one run. No program may be between it and the disk: its memory could be paged out to it."""

    def __init__(self, folder="/var/tmp"):
        self.file = pathlib.Path(folder) / f"forebay-real-swap-{os.getpid()}"

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self.file.unlink, missing_ok=True)
            self.file.touch(0o600)
            run("fallocate", "--length", SWAP, self.file)
            run("mkswap", self.file)
            run("swapon", "--priority", "0", self.file)
            stack.callback(run, "swapoff", self.file)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()


def swapped():
    """Pages that the machine has read from swap space and written to it."""
    told = dict(line.split() for line in pathlib.Path("/proc/vmstat").read_text().splitlines())
    return int(told["pswpin"]), int(told["pswpout"])


def need_swap():
    """Says why the kernel cannot page here, if so."""
    if pathlib.Path("/proc/swaps").read_text().count("\n") > 1:
        raise Failed("the kernel's paging is not measured: there is swap space here already, with pages of others; swapoff it")
    available = next(line for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    if int(available.split()[1]) * KIB < 2 * SWAP:
        raise Failed("the kernel's paging is not measured: less than 4 GiB of memory are available, and others would be paged out, too")


def large_memory(process):
    """The bytes of a process' large memory that are resident. It may end meanwhile."""
    total, length = 0, 0
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{process}/smaps").read_text().splitlines():
            name, _, rest = line.partition(":")
            if "-" in name.split(" ")[0]:
                start, end = (int(address, 16) for address in name.split(" ")[0].split("-"))
                length = end - start
            elif name == "Anonymous" and length >= LARGE:
                total += int(rest.split()[0]) * KIB
    return total


def rehearse(program, directory):
    """Runs a program with room for all: the most large memory that it has resident, and what it has besides, in bytes."""
    stage.rehearse_and_lock(program.commands(directory), directory)
    over, large = threading.Event(), [0]

    def watch(group):
        # Some programs need a twentieth of a second where there is room.
        while not over.wait(0.001):
            large.append(sum(large_memory(process) for process in group.processes()))

    with Paged(1 << 40) as group:
        watcher = threading.Thread(target=watch, args=(group,))
        watcher.start()
        try:
            figures = stage.run_all(program.commands(directory, group.command([])), directory, Anywhere())
        finally:
            over.set()
            watcher.join()
        most = group.get("max_usage_in_bytes")
    if max(large) < LARGE:
        raise Failed(f"{program.name} has no large memory: nothing of it would be paged")
    return {"large": max(large), "besides": max(most - max(large), MIB), "seconds": max(one["seconds"] for one in figures.values())}


def by_kernel(program, directory, size, besides, steering=None, counts=True):
    """One run whose memory the kernel pages, steered by what a group is given to, if that is said. Whether the memory of that `counts`."""
    limit = int(size + besides) // stage.PAGE * stage.PAGE
    with Swap(), Paged(limit) as group, steering(group.path) if steering else contextlib.nullcontext() as steered:
        if steered and counts and limit >= LEAST_COUNTED:
            group.taken = steered.resident
        before = swapped()
        begin = time.perf_counter()
        figures = stage.run_all(program.commands(directory, group.command([])), directory, Anywhere(), MOST_SECONDS)
        elapsed, (read, written), told = time.perf_counter() - begin, swapped(), group.statistics()
        said = {"steering": steered.stop()} if steered else {}
    return said | {
        "elapsed": elapsed,
        "programs": figures,
        "limit": limit,
        "limit_gave_way": group.gave,
        "major": told["pgmajfault"],
        "minor": told["pgfault"] - told["pgmajfault"],
        "pages_read": read - before[0],
        "pages_written": written - before[1],
    }


# The limit by policy, size and length of the memory.
LIMITS = {}
# The pages that policies bring for a program, as forecast.
FORECASTS = {}


def limit(forebay, work, policy, size, allocated):
    """The limit with which `forebay run` leaves `size` bytes to the pages of a program that allocates so much."""
    key = policy, size, allocated
    if key not in LIMITS:
        told, asked = work / "limit.json", size
        for _ in range(5):
            words = ["--memory", str(int(asked)), "--policy", policy, "--swap", work, "--figures", told]
            run(forebay, "run", *words, "--", "/usr/bin/python3", "-S", "-E", "-c", f"bytearray({allocated})")
            capacity = json.loads(told.read_text())[0]["capacity"]
            if abs(capacity - size) <= size / 200:
                break
            asked += size - capacity
        LIMITS[key] = int(asked)
    return LIMITS[key]


def by_us(given, work, program, directory, memory, policy):
    """One run whose memory `forebay run` pages, with a limit of so many bytes; and what the simulator forecasts."""
    told = work / "figures.json"
    told.unlink(missing_ok=True)
    words = ["--memory", str(int(memory)), "--policy", policy, "--readahead", given.readahead, "--swap", work, "--figures", told]
    words += ["--delay", given.delay] if given.delay else []
    begin = time.perf_counter()
    figures = stage.run_all(program.commands(directory, [given.forebay, "run", *words, "--"]), directory, Anywhere(), MOST_SECONDS)
    elapsed = time.perf_counter() - begin
    processes = json.loads(told.read_text())
    if not processes:
        raise Failed(f"{program.name} has no large memory: nothing of it was paged")
    result = {"elapsed": elapsed, "programs": figures, "limit": int(memory)} | of_processes(processes)
    return result | {"forecast_pages": forecast(given, work, program, directory, (policy, int(memory), result["policy_capacity"]))}


def forecast(given, work, program, directory, key):
    """The pages that the simulator brings for what the program uses, new ones among them. That is recorded in another run, once: while it is, each use costs a fault."""
    if (program.name, key) not in FORECASTS:
        policy, memory, size = key
        trace = work / "run.parquet"
        trace.unlink(missing_ok=True)
        words = ["--memory", str(memory), "--policy", policy, "--readahead", "0", "--swap", work, "--record", trace]
        stage.run_all(program.commands(directory, [given.forebay, "run", *words, "--"]), directory, Anywhere(), MOST_SECONDS)
        FORECASTS[program.name, key] = replayed(given, trace, policy, size)
    return FORECASTS[program.name, key]


def replayed(given, trace, policy, size):
    """The pages that a policy brings for a recording."""
    readahead = [] if given.readahead == "0" else ["--readahead", f"linux:max={given.readahead}"]
    (told,) = serving.compare(given.forebay, trace, [policy], size // stage.PAGE, "--page-size", stage.PAGE, *readahead)
    return told["total"]["misses"] + (told.get("readahead") or {}).get("fetched", 0)


def of_processes(processes):
    """The figures of `forebay run` that are kept: the sums over its processes."""
    total = lambda name: sum(process[name] for process in processes)  # noqa: E731
    names = [f"sequences_up_to_{length}" for length in LENGTHS] + ["sequences_longer"]
    # What is brought, by a fault or ahead of it, is what the policy calls a fault.
    brought = [process["compulsory"] + process["read"] for process in processes]
    steps = sum(process["hand_millisteps"] / 1000 * pages for process, pages in zip(processes, brought))
    return {
        "processes": len(processes),
        "major": total("major"),
        "minor": total("minor"),
        "new_pages": total("compulsory"),
        "pages_read": total("read"),
        "pages_written": total("written"),
        "reads": total("reads"),
        "writes": total("writes"),
        "hand_steps": steps,
        "hand_steps_a_page": steps / max(sum(brought), 1),
        "hand_steps_a_fault": steps / max(total("major"), 1),
        "sequences": [total(name) for name in names],
        "capacity": max(process["capacity"] for process in processes),
        "policy_capacity": max(process["policy_capacity"] for process in processes),
        "allocated": max(process["most"] for process in processes),
        "failed_faults": total("failed"),
    }


def record(given, work, program, directory):
    """A trace of each use of memory, by valgrind: some sixty times as slow as the program."""
    trace = work / "memory.parquet"
    stage.run_all(program.commands(directory, [given.forebay, "record", "-o", trace, "--memory", "--page-size", stage.PAGE, "--"]), directory, Anywhere(), RECORDED_SECONDS)
    return trace


def forecast_steered(given, trace, policy, told):
    """The faults that the simulator forecasts, which has the same epochs, for the pages that the policy and programs themselves had in the end."""
    (run,) = serving.compare(given.forebay, trace, [policy], told["size"], "--page-size", stage.PAGE, "--epochs")
    return run["total"]["misses"]


def measure(given, work, program, directory, which, size, found, whole=False):
    """One run under `which`, stage.KERNEL or a policy, in `size` bytes; `found` is what the rehearsal has found."""
    result = {"cache": which, "mib": size / MIB, "readahead": given.readahead}
    if which == stage.KERNEL:
        return result | by_kernel(program, directory, size, found["besides"])
    if which.startswith(stage.STEERED):
        policy = which.removeprefix(stage.STEERED_BESIDE).removeprefix(stage.STEERED).removesuffix(IN_TURNS)
        steering = lambda group: MemorySteering(given.forebay, group, work, policy, which.endswith(IN_TURNS))  # noqa: E731
        result |= by_kernel(program, directory, size, found["besides"], steering, not which.startswith(stage.STEERED_BESIDE))
        return result | ({"forecast_faults": forecast_steered(given, found["trace"], policy, result["steering"])} if given.forecast else {})
    memory = size if whole else limit(given.forebay, work, which, size, found["large"])
    return result | by_us(given, work, program, directory, memory, which)


def options(doc, *, delay, policies, sizes=""):
    """As other experiments' options; sizes are percent of the large memory that a program has resident."""
    parser = sessions.parser(doc, delay=delay, policies=policies, sizes=sizes)
    parser.set_defaults(rounds=3)
    parser.add_argument("--times", type=int, default=1, help="times the memory of programs: 16 is as much as gnuplot and the matrix had in the papers")
    parser.add_argument("--forecast", action="store_true", help="record each use of memory by valgrind, and forecast the faults under steered policies")
    parser.add_argument("--readahead", default="128KiB", help="the most bytes that `forebay run` reads ahead")
    for action in parser._actions:
        if action.dest == "caches":
            action.help = f"policies of `forebay run`, and `{stage.KERNEL}` for the kernel's own paging"
        if action.dest == "sizes":
            action.help = "percent of the large memory that the program has resident where there is room; by default those of each program"
    return parser


def percents(given, program):
    """The sizes to measure."""
    sizes = given.sizes or program.sizes
    return [float(size) for size in sizes.split(",")][: 1 if given.quick else None]


def measure_program(session, given, program, percents, labels, whole=False):
    """All runs of a program in turns: rounds, sizes in percent of its large memory, caches."""
    sessions.need(*NEEDS, *program.needs)
    if given.times > 1:
        program.enlarge(given.times)
    caches = given.caches.split(",")
    by_swap = [which for which in caches if which == stage.KERNEL or which.startswith(stage.STEERED)]
    if by_swap:
        try:
            need_swap()
        except Failed as why:
            print(why, flush=True)
            caches = [which for which in caches if which not in by_swap]
    with stage.folder() as work:
        directory = work / "data"
        directory.mkdir()
        program.fill(directory)
        found = rehearse(program, directory)
        session.note(**{f"memory_{program.name}": found})
        if given.forecast:
            sessions.need("valgrind")
            found = found | {"trace": record(given, work, program, directory)}
        for turn in range(given.rounds):
            for percent in percents:
                for which in caches:
                    size = int(found["large"] * percent / 100) // stage.PAGE * stage.PAGE
                    session.run(
                        labels | {"program": program.name, "percent": percent, "which": which, "round": turn},
                        *(measure, given, work, program, directory, which, size, found, whole),
                    )


def shares(counts):
    """Percent of the sequences that have no more blocks than each of LENGTHS."""
    return [100 * sum(counts[: place + 1]) / max(sum(counts), 1) for place in range(len(LENGTHS))]
