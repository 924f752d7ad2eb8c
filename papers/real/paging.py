"""Programs whose memory is paged, for the experiments on virtual memory: by `forebay run` under a policy, or by the kernel in a control group.

Ours: `forebay run --delay DISK`, with swap space in a file in memory. The kernel's: a swap device on `forebay serve --delay DISK`, nbdfuse and a loop
device. The model of the disk is the same; the kernel's requests have the way there in addition.

What a size means is the same, too. `forebay run` bounds a program's large memory. The kernel bounds all memory of a group, so its limit is the size and
what the program has besides: that is measured before, with room for all.
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
from stage import KIB, MIB
from volumes import mounted
from volumes.checks import Failed, run
from volumes.server import Server, make_volume

NEEDS = (*mounted.NEEDS, "mkswap", "swapon", "swapoff", "setpriv")
# Mappings from this length on are large memory. `forebay run` pages blocks of 128 KiB and more; the C library's heap has smaller ones, too.
LARGE = MIB
SWAP = 512 * MIB
MOST_SECONDS = 120
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128)


class Anywhere:
    """Programs in no group of their own."""

    def command(self, words):
        return words


class Paged(stage.Programs):
    """A group whose memory has one limit, and is paged to swap space beyond it."""

    def __init__(self, limit):
        super().__init__()
        self.set("swappiness", 100)
        self.set("limit_in_bytes", limit)

    def statistics(self):
        return {name: int(value) for name, value in (line.split() for line in (self.path / "memory.stat").read_text().splitlines())}


class Swap:
    """A swap device as slow as a disk, and the server behind it. It is there while nothing but the group has reason to use it: the machine has
    memory."""

    def __init__(self, forebay, work, delay, requests):
        requests.unlink(missing_ok=True)
        self.program = serving.Forebay(forebay, "--policy", "fifo", "--delay", delay, "--record", requests)
        self.work, self.requests = work, requests

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            volume = make_volume(self.work, "swap", SWAP, mode="write-through", readahead="0")
            self.server = stack.enter_context(Server(self.program, self.work, volume, cache="1MiB"))
            loop = stack.enter_context(mounted.LoopDevice(self.server.uri("swap"), self.work))
            run("mkswap", loop.device)
            # Nobody else's pages: this device comes after any that is there.
            run("swapon", "--priority", "0", loop.device)
            stack.callback(run, "swapoff", loop.device)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()
        self.requests.unlink(missing_ok=True)

    def device(self):
        return stage.device(self.program)


def need_swap():
    """Says why the kernel cannot page here, if so."""
    if pathlib.Path("/proc/swaps").read_text().count("\n") > 1:
        raise Failed("the kernel's paging is not measured: there is swap space here already, which is not as slow as the disk; swapoff it")
    available = next(line for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    if int(available.split()[1]) * KIB < 4 * SWAP:
        raise Failed("the kernel's paging is not measured: less than 2 GiB of memory are available, and others would use the slow swap space")


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
        while not over.wait(0.01):
            large.append(sum(large_memory(process) for process in group.processes()))

    with Paged(1 << 40) as group:
        watcher = threading.Thread(target=watch, args=(group,))
        watcher.start()
        try:
            figures = stage.run_all(program.commands(directory), directory, group)
        finally:
            over.set()
            watcher.join()
        most = group.get("max_usage_in_bytes")
    if max(large) < LARGE:
        raise Failed(f"{program.name} has no large memory: nothing of it would be paged")
    return {"large": max(large), "besides": max(most - max(large), MIB), "seconds": max(one["seconds"] for one in figures.values())}


def by_kernel(forebay, work, program, directory, size, besides, delay):
    """One run whose memory the kernel pages."""
    with Swap(forebay, work, delay, work / "requests.csv") as swap, Paged(int(size + besides) // stage.PAGE * stage.PAGE) as group:
        before = swap.device()
        begin = time.perf_counter()
        figures = stage.run_all(program.commands(directory), directory, group, MOST_SECONDS)
        elapsed = time.perf_counter() - begin
        device, told = stage.since(before, swap.device()), group.statistics()
        if swap.server.stop():
            raise Failed(f"the server failed: {swap.server.told()}")
        lengths = stage.sequences(swap.requests)
    return {
        "elapsed": elapsed,
        "programs": figures,
        "major": sum(one["major"] for one in figures.values()),
        "pages_read": device["read_bytes"] // stage.PAGE,
        "pages_written": device["written_bytes"] // stage.PAGE,
        "reads": device["reads"],
        "writes": device["writes"],
        "sequences": up_to(lengths),
        "group": {name: told[name] for name in ("pgfault", "pgmajfault") if name in told},
        "limit": int(size + besides),
    }


def up_to(lengths):
    """Counts of sequences by exact length, as those of at most each of LENGTHS and more than the one before, and longer ones."""
    counts = [0] * (len(LENGTHS) + 1)
    for length, count in lengths.items():
        counts[next((place for place, most in enumerate(LENGTHS) if length <= most), len(LENGTHS))] += count
    return counts


def by_us(forebay, work, program, directory, size, policy, delay, record=None):
    """One run whose memory `forebay run` pages."""
    told = work / "figures.json"
    told.unlink(missing_ok=True)
    words = [forebay, "run", "--memory", str(int(size)), "--policy", policy, "--swap", work, "--figures", told]
    words += ["--delay", delay] if delay else []
    words += ["--record", record] if record else []
    commands = {name: [*words, "--", *command] for name, command in program.commands(directory).items()}
    begin = time.perf_counter()
    figures = stage.run_all(commands, directory, Anywhere(), MOST_SECONDS)
    elapsed = time.perf_counter() - begin
    processes = json.loads(told.read_text())
    if not processes:
        raise Failed(f"{program.name} has no large memory: nothing of it was paged")
    return {"elapsed": elapsed, "programs": figures} | of_processes(processes)


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
        "allocated": max(process["most"] for process in processes),
        "failed_faults": total("failed"),
    }


def measure(forebay, work, program, directory, which, size, besides, delay, record=None):
    """One run under `which`: stage.KERNEL, or a policy; `size` and `besides` in bytes."""
    result = {"cache": which, "mib": size / MIB}
    if which == stage.KERNEL:
        return result | by_kernel(forebay, work, program, directory, size, besides, delay)
    return result | by_us(forebay, work, program, directory, size, which, delay, record)


def options(doc, *, delay, policies, sizes):
    """As other experiments' options; sizes are percent of the large memory that a program has resident."""
    parser = sessions.parser(doc, delay=delay, policies=policies, sizes=sizes)
    for action in parser._actions:
        if action.dest == "caches":
            action.help = f"policies of `forebay run`, and `{stage.KERNEL}` for the kernel's own paging"
        if action.dest == "sizes":
            action.help = "percent of the large memory that the program has resident where there is room"
    return parser


def measure_program(session, given, program, labels, rounds=None):
    """All runs of a program in turns: rounds, sizes, caches."""
    sessions.need(*NEEDS, *program.needs)
    caches = given.caches.split(",")
    if stage.KERNEL in caches:
        try:
            need_swap()
        except Failed as why:
            print(why, flush=True)
            caches.remove(stage.KERNEL)
    with stage.folder() as work:
        directory = work / "data"
        directory.mkdir()
        program.fill(directory)
        found = rehearse(program, directory)
        session.note(**{f"memory_{program.name}": found})
        for turn in range(rounds or given.rounds):
            for percent in map(float, given.sizes.split(",")):
                for which in caches:
                    size = found["large"] * percent / 100 // stage.PAGE * stage.PAGE
                    session.run(
                        labels | {"program": program.name, "percent": percent, "which": which, "round": turn},
                        *(measure, given.forebay, work, program, directory, which, size, found["besides"], given.delay),
                    )


def shares(counts):
    """Percent of the sequences that have no more blocks than each of LENGTHS."""
    return [100 * sum(counts[: place + 1]) / max(sum(counts), 1) for place in range(len(LENGTHS))]


__all__ = ["LENGTHS", "NEEDS", "Swap", "measure", "measure_program", "need_swap", "options", "os", "rehearse", "shares"]
