"""Where the experiments on running systems take place: storage as slow as a disk, memory of one size, programs that are timed.

Storage is a file in memory behind `forebay serve --delay`, nbdfuse, a loop device and ext4. The server's own cache has 1 MiB, so that every request
waits as the disk's model says. Memory is either the kernel's page cache, bounded by a control group, or a `forebay mount` on that ext4.
"""

import collections
import contextlib
import csv
import ctypes
import json
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import serving  # noqa: E402 - found by the line above
from fronts import PAGE, READAHEAD, Mount, Recording, Steering  # noqa: E402
from measure import processor_seconds  # noqa: E402
from volumes import mounted  # noqa: E402 - serving finds it
from volumes.checks import Failed, run, wait_until  # noqa: E402
from volumes.server import Server, Volume, make_volume  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
KERNEL = "kernel"
# The kernel's page cache, in which a policy decides what leaves: `steered clock-pro`.
STEERED = "steered "
# The same in caches of a few MiB, which are smaller than the program that steers: its memory does not count.
STEERED_BESIDE = "steered beside "
# MiB of the smallest cache in which the memory of the program that steers, some 16 MiB, counts.
LEAST_COUNTED = 24
# What fio reads, to see that requests are as slow as the model says.
CHECKED = "checked"
MOST_SECONDS = 300
NEEDS = (*mounted.NEEDS, "fio", "cp", "sync")


@contextlib.contextmanager
def folder():
    """A temporary folder in memory, so that the disk's model alone decides how slow storage is."""
    with tempfile.TemporaryDirectory(prefix="forebay-real-", dir="/dev/shm") as path:
        path = pathlib.Path(path)
        path.chmod(0o755)
        yield path


class Programs:
    """Programs in a control group of version 1, which knows what memory they use."""

    def __init__(self):
        root = pathlib.Path("/sys/fs/cgroup/memory")
        if not (root / "memory.limit_in_bytes").exists():
            sys.exit("no memory control group of version 1 here: nothing bounds the kernel's page cache exactly")
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="forebay-real-", dir=root))

    def command(self, words):
        """The command that runs `words` within the group."""
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', self.path / "cgroup.procs", *words]

    def processes(self):
        return [int(process) for process in (self.path / "cgroup.procs").read_text().split()]

    def set(self, name, value):
        (self.path / f"memory.{name}").write_text(str(value))

    def get(self, name):
        return int((self.path / f"memory.{name}").read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The group goes when its last process has.
        def removed():
            try:
                self.path.rmdir()
                return True
            except OSError:
                return False

        wait_until(removed, 5)


class Group(Programs):
    """A group that bounds the page cache of the programs in it, and nothing else of theirs.

    The kernel's limit is one for page cache, programs' own memory and the kernel's structures together. So the limit follows: 200 times a second it
    is set to the size of the cache, less what somebody has `taken` of it, and what else the group uses. A program that asks for more in between waits, and is not killed."""

    def __init__(self, size, taken=lambda: 0):
        super().__init__()
        self.size, self.taken = size, taken
        self.set("oom_control", 1)
        self.held = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.follow)

    def follow(self):
        usage, statistics, limit = (self.path / f"memory.{name}" for name in ("usage_in_bytes", "stat", "limit_in_bytes"))
        while not self.over.wait(0.005):
            told = dict(line.split() for line in statistics.read_text().splitlines())
            # What the kernel counts as cache has memory that programs share, which is their own.
            cached = int(told["cache"]) - int(told["shmem"])
            self.held.append(cached)
            # The kernel refuses a limit for which it finds too little to reclaim; the next one comes soon.
            with contextlib.suppress(OSError):
                limit.write_text(str(self.size - self.taken() + max(int(usage.read_text()) - cached, 0)))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        super().__exit__()


class Stage:
    """A file system filled once, and shown anew, cold and slow, for each measurement. What is filled is `kept` in a folder, if one is given: then it is filled
    only where it is not there."""

    def __init__(self, forebay, work, size, delay, fill, rehearse=lambda _: {}, kept=None):
        self.forebay, self.work, self.delay = forebay, work, delay
        # Where programs see the files, whatever the cache: some keep the paths of their files.
        self.seen = work / "seen"
        self.seen.mkdir()
        self.kept = work / "kept.img"
        if kept and kept.exists():
            run("cp", "--sparse=always", kept, self.kept)
            with self.cold() as (directory, _), self.bound(directory):
                rehearse_and_lock(rehearse(self.seen), self.seen)
            return
        volume = make_volume(work, "volume", size)
        with (
            Server(serving.Forebay(forebay), work, volume, cache="256MiB") as server,
            mounted.LoopDevice(server.uri("volume"), work) as loop,
        ):
            run("mkfs.ext4", "-q", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop.device)
            with self.bound(loop.mount()):
                fill(self.seen)
                rehearse_and_lock(rehearse(self.seen), self.seen)
                (self.seen / CHECKED).write_bytes(bytes(16 * MIB))
            loop.umount()
            server.stop()
        volume.path.rename(self.kept)
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            new = kept.with_suffix(".new")
            run("cp", "--sparse=always", self.kept, new)
            new.rename(kept)

    @contextlib.contextmanager
    def cold(self, *options):
        """The directory, with nothing of its files in memory, and the server behind it. Directories and inodes are read before: they are in nobody's
        cache."""
        path = self.work / "volume.img"
        run("cp", "--sparse=always", self.kept, path)
        program = serving.Forebay(self.forebay, "--policy", "fifo", "--delay", self.delay, *options)
        volume = Volume(path, mode="write-through", readahead="0")
        with Server(program, self.work, volume, cache="1MiB") as server, mounted.LoopDevice(server.uri("volume"), self.work) as loop:
            (pathlib.Path("/sys/block") / pathlib.Path(loop.device).name / "queue/read_ahead_kb").write_text("128")
            directory = loop.mount()
            for folder, _, files in os.walk(directory):
                for file in files:
                    os.lstat(os.path.join(folder, file))
            yield directory, program
            if os.path.ismount(directory):
                loop.umount()
            if server.stop():
                raise Failed(f"the server failed: {server.told()}")

    @contextlib.contextmanager
    def bound(self, directory):
        run("mount", "--bind", directory, self.seen)
        try:
            yield
        finally:
            mounted.quietly("umount", self.seen)

    def check_delay(self):
        """Random reads of 4 KiB through ext4, one at a time: milliseconds by fio, and by the model for the server's own requests."""
        with self.cold() as (directory, program):
            before = device(program)
            command = [
                "fio",
                "--name=delay",
                f"--filename={directory / CHECKED}",
                "--rw=randread",
                "--bs=4k",
                "--direct=1",
                "--number_ios=300",
                "--readonly",
            ]
            told = json.loads(run(*command, "--output-format=json"))["jobs"][0]["read"]
            after = device(program)
            return {"milliseconds": told["clat_ns"]["mean"] / 1e6, "requests": told["total_ios"], "device": since(before, after)}


def device(program):
    """What the server has asked its disk for."""
    (volume,) = program.figures()["volumes"]
    return volume["device"]


def since(before, after):
    """What has been asked for in between. `seconds` is the time that requests took, each from when it was made: they wait for each other."""
    took = sum(after[name]["sum"] - before[name]["sum"] for name in ("read_time", "write_time"))
    return {name: value - before[name] for name, value in after.items() if isinstance(value, (int, float))} | {"seconds": took / 1e9}


def by_size(cache, mib):
    """The cache as it is measured in this many MiB: one that is hardly larger than the program that steers is steered beside."""
    policy = cache.removeprefix(STEERED)
    return STEERED_BESIDE + policy if mib < LEAST_COUNTED and policy != cache and not cache.startswith(STEERED_BESIDE) else cache


def modelled_seconds(stage, requests):
    """How long the stage's device is at work for the requests of a server's record, by its model. Waits for each other and for a busy machine do not count, nor do
    writes to what was asked for within the last 256 pages."""
    (told,) = serving.compare(stage.forebay, requests, ["fifo"], 256, "--page-size", PAGE, "--device", stage.delay)
    return told["device"]["device_ms"] / 1000


def sequences(requests):
    """Of a server's record: how many sequences of each length in blocks were read. Requests that go on where the last one ended are one."""
    lengths, end, length = collections.Counter(), None, 0
    with requests.open() as rows:
        for row in csv.DictReader(rows):
            if row["operation"] != "read":
                continue
            offset, more = int(row["offset"]), int(row["length"])
            if offset != end and length:
                lengths[-(-length // PAGE)] += 1
                length = 0
            length += more
            end = offset + more
    if length:
        lengths[-(-length // PAGE)] += 1
    return dict(sorted(lengths.items()))


def rehearse_and_lock(programs, directory):
    """Runs programs, and locks what they are made of into memory, until this script ends: no group of a measurement pays for it."""
    files, over = set(), threading.Event()

    def watch(group):
        while not over.wait(0.02):
            for process in group.processes():
                # It may have ended.
                with contextlib.suppress(OSError):
                    maps = pathlib.Path(f"/proc/{process}/maps").read_text().splitlines()
                    files.update(line.split(None, 5)[5] for line in maps if " r-xp " in line and "/" in line)

    with Group(1 << 40) as group:
        watcher = threading.Thread(target=watch, args=(group,))
        watcher.start()
        try:
            run_all(programs, directory, group)
        finally:
            over.set()
            watcher.join()
    for file in files:
        if os.path.isfile(file):
            lock(file)


def lock(file):
    """Maps a file and locks its pages. `mlock` takes no map of Python's own unless it is writable, and such a one copies them."""
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    with open(file, "rb") as opened:
        size = ctypes.c_size_t(os.fstat(opened.fileno()).st_size)
        address = system.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, opened.fileno(), ctypes.c_long(0))
    if system.mlock(ctypes.c_void_p(address), size):
        raise Failed(f"{file} cannot be locked into memory: {os.strerror(ctypes.get_errno())}")


def run_all(programs, directory, group, most=MOST_SECONDS):
    """Runs programs at once in a directory, and in a group, for some seconds at most: of each the seconds, and the processor seconds and major faults
    of it and its children. `programs` are command lines by name."""
    figures, failures, children = {}, [], {}

    def wait(name, child, begin):
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        figures[name] = {"seconds": time.perf_counter() - begin, "cpu": usage.ru_utime + usage.ru_stime, "major": usage.ru_majflt}
        if child.returncode:
            failures.append(f"{name} failed with exit code {child.returncode}")

    with tempfile.TemporaryDirectory(prefix="forebay-real-", dir="/var/tmp") as scratch:
        os.chmod(scratch, 0o777)
        environment = os.environ | {"TMPDIR": scratch, "LC_ALL": "C"}
        threads = []
        try:
            for name, words in programs.items():
                with open(os.path.join(scratch, f"{name}.said"), "wb") as said:
                    begin = time.perf_counter()
                    children[name] = child = subprocess.Popen(
                        list(map(str, group.command(words))),
                        cwd=directory,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=said,
                        start_new_session=True,
                    )
                threads.append(threading.Thread(target=wait, args=(name, child, begin)))
                threads[-1].start()
            end = time.monotonic() + most
            for thread in threads:
                thread.join(max(end - time.monotonic(), 0.1))
            late = [name for name in programs if name not in figures]
            if late:
                failures.append(f"{', '.join(late)} did not end within {most} s")
            if failures:
                said = "".join(file.read_text(errors="replace")[-500:] for file in pathlib.Path(scratch).glob("*.said"))
                raise Failed("; ".join(failures) + f": {said}")
        finally:
            for name, child in children.items():
                if name not in figures:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)
            if len(figures) < len(children):
                # Those of a session of their own, too.
                for process in group.processes():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                wait_until(lambda: not group.processes(), 20)
            for thread in threads:
                thread.join()
    return figures


def measure(stage, cache, mib, programs, *, managers=None, said=None, server_options=(), spoken=None, recorded=None, foreseen=None):
    """One run: `cache` is KERNEL, STEERED with a policy, or a policy of the mount, which gets the file of `managers`. `programs` makes command lines by name for a directory;
    `recorded` is a file for the uses of the kernel's page cache, steered or not; what is steered is forecast from it, or from `foreseen`, one that was made before. `spoken` reads what the programs have written into it. The mount's references are recorded, and forecast. A trace has hints on readahead, and not
    `noreuse`: `said` is the file of managers in force once programs have said that."""
    words = ["--managers", managers] if managers else []
    trace = stage.work / "run.parquet"
    trace.unlink(missing_ok=True)
    size = int(mib * MIB) // PAGE * PAGE
    with stage.cold(*server_options) as (directory, server), contextlib.ExitStack() as stack:
        beside = cache.startswith(STEERED_BESIDE)
        steered = cache.removeprefix(STEERED_BESIDE).removeprefix(STEERED) if cache.startswith(STEERED) else None
        mounts = cache != KERNEL and steered is None
        if not mounts:
            stack.enter_context(stage.bound(directory))
        if steered:
            steering = stack.enter_context(Steering(stage.forebay, directory, stage.work, size, steered, words, not beside))
        elif mounts:
            log = stage.work / "mount.log"
            mount = stack.enter_context(Mount(stage.forebay, directory, stage.seen, log, size, cache, ["--record", trace, *words]))
        recording = recorded and stack.enter_context(Recording(stage.forebay, directory, stage.work, recorded))
        before = device(server)
        # Behind a mount there is page cache for mapped files alone, of which the mount takes care.
        # Whoever steers has its own memory less for page cache.
        with Group(size + 64 * MIB if mounts else size, steering.own if steered else lambda: 0) as group:
            begin = time.perf_counter()
            figures = run_all(programs(stage.seen), stage.seen, group)
            elapsed = time.perf_counter() - begin
        result = {"cache": cache, "mib": mib, "elapsed": elapsed, "programs": figures}
        if spoken:
            result["said"] = spoken(stage.seen)
        if recording:
            result["recording"] = recording.stop()
        if not mounts:
            held = sorted(group.held) or [0]
            result["page_cache_mib"] = {"median": held[len(held) // 2] / MIB, "most": held[-1] / MIB}
        if steered:
            result |= of_steering(steering.figures()) | {"steering_cpu": processor_seconds(steering.process), "steering_memory": steering.resident()}
            steering.stop()
        elif mounts:
            result |= of_mount(mount.figures()) | {"mount_cpu": processor_seconds(mount.process)}
            mount.stop()
        run("sync", "--file-system", directory)
        result["device"] = since(before, device(server))
        stack.close()
    if managers:
        result["managers"] = pathlib.Path(managers).read_text()
    trace_of_uses = recorded or foreseen
    if steered and trace_of_uses:
        pages = result["steering"]["page_cache"]["asked"]
        result["forecast_hit_ratio"] = forecast_of_pages(stage.forebay, trace_of_uses, steered, pages, words)
        result["forecast_found_ratio"] = forecast_of_pages(stage.forebay, trace_of_uses, steered, pages, words, readahead="none")
    if result.get("references"):
        result["forecast_hit_ratio"] = forecast(stage.forebay, trace, cache, size, ["--managers", said] if said else words)
    return result


def suggested(stage, size):
    """A file of the managers that suit the run before, which was recorded, in a cache of this many MiB: by the disk's time, with readahead."""
    file = stage.work / "suggested.toml"
    device = ["--device", stage.delay] if stage.delay else []
    words = ["--sizes", f"{size:g}MiB", "--readahead", f"linux:max={READAHEAD}", *device, "--output", file, "--force"]
    run(stage.forebay, "managers", stage.work / "run.parquet", "--page-size", PAGE, *words)
    return file


def advised(stage, trace, mib, readahead=f"linux:max={READAHEAD}"):
    """The policy that `forebay compare` advises for recorded uses in a cache of this many MiB: by the disk's time. And all that it says."""
    words = ["--sizes", f"{int(mib * MIB) // PAGE}", "--page-size", PAGE, "--readahead", readahead, "--device", stage.delay, "--format", "json"]
    done = subprocess.run(list(map(str, [stage.forebay, "compare", trace, *words])), capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"forebay compare {' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr}")
    (compared,) = json.loads(done.stdout)
    return compared["take"]["policy"], compared["advice"]


def of_mount(figures):
    """What is kept of a mount's figures."""
    (cache,), (volume,) = figures["caches"], figures["volumes"]
    references = cache["hits"] + cache["misses"]
    return {
        "references": references,
        "hit_ratio": cache["hits"] / max(references, 1),
        "record_lost": figures["record_lost"],
        "mount": {name: cache[name] for name in ("hits", "misses", "evictions", "metadata", "policy_state", "readahead_wasted")}
        | {name: volume[name] for name in ("pages_read_ahead", "readahead_used", "pages_written_back", "device")},
    }


def of_steering(figures):
    """The same of steering. Pages read ahead in time are hits; found again are only those that had been used before."""
    seen = figures["page_cache"]
    uses = max(seen["kernel_hits"] + seen["kernel_misses"], 1)
    found = seen["kernel_hits"] - seen["readahead_used"]
    return {"steering": figures, "hit_ratio": seen["kernel_hits"] / uses, "found_ratio": found / uses}


def forecast(forebay, trace, policy, size, words):
    """The hit ratio that the simulator gives for a trace that the mount has recorded. A 32nd of the cache is for evicted pages."""
    frames = size // PAGE
    return forecast_of_pages(forebay, trace, policy, frames - max(frames // 32, 1), words)


def forecast_of_pages(forebay, trace, policy, pages, words=(), readahead=f"linux:max={READAHEAD}"):
    """The hit ratio that the simulator gives for a trace in a cache of so many pages."""
    (told,) = serving.compare(forebay, trace, [policy], pages, "--page-size", PAGE, "--readahead", readahead, *words)
    return told["total"]["hit_ratio"]
