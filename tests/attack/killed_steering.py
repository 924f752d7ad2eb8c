"""`kill -9` of `forebay steer` in the midst of programs that write: no byte is wrong, no program gets an error, and none is slower afterwards."""

import contextlib
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from shared.wire import MIB  # noqa: E402
from volumes.checks import Failed, Skipped, wait_until  # noqa: E402 - found by the line above

QUICK, FULL = 120, 2400
KILLS, KILLS_QUICK = 500, 15
# Less than what the programs use, so that pages leave all the time.
CACHE = 8 * MIB
DISK = 1536 * MIB
POLICIES = ["clock-pro", "lru", "mru", "s3-fifo", "ubm"]
EXERCISER = pathlib.Path(__file__).parent / "shared/fsx.py"
STRESS = "--hdd 1 --hdd-bytes 16m --copy-file 1 --copy-file-bytes 128m --fallocate 1 --fallocate-bytes 16m --seek 1 --seek-size 16m --mmap 1 --mmap-file --mmap-bytes 8m"
READS = 100_000


def run(*words):
    subprocess.run(list(map(str, words)), check=True, capture_output=True)


@contextlib.contextmanager
def disk(folder):
    """ext4 of its own, checked at the end: the directory, and what e2fsck has said once it is unmounted."""
    image, directory, said = folder / "disk.img", folder / "disk", []
    directory.mkdir()
    run("truncate", "-s", DISK, image)
    run("mkfs.ext4", "-q", image)
    run("mount", "-o", "loop", image, directory)
    try:
        yield directory, said
    finally:
        run("umount", directory)
        checked = subprocess.run(["e2fsck", "-fn", str(image)], capture_output=True, text=True, check=False)
        said.append("" if checked.returncode == 0 else checked.stdout + checked.stderr)


def nanoseconds_of_a_hit(file):
    """Of a read of 4 KiB that is in the page cache: the median of nine."""
    with open(file, "rb", buffering=0) as opened:
        times = []
        for _ in range(9):
            begin = time.perf_counter_ns()
            for _ in range(READS // 9):
                os.pread(opened.fileno(), 4096, 0)
            times.append((time.perf_counter_ns() - begin) / (READS // 9))
    return statistics.median(times)


class Steering:
    def __init__(self, program, directory, policy, *options):
        command = [program, "steer", directory, "--cache", CACHE, "--policy", policy, "--log", "info", *options]
        self.log = directory.parent / "steer.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: self.process.poll() is not None or b"steering" in self.log.read_bytes(), 20)
        if self.process.poll() is not None:
            raise Failed(f"forebay steer ends: {self.log.read_text()}")

    def kill(self):
        self.process.kill()
        self.process.wait()


def exercisers(directory):
    command = lambda seed: [sys.executable, EXERCISER, directory / f"fsx-{seed}", str(seed)]  # noqa: E731
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [subprocess.Popen(command(seed), **pipes) for seed in range(2)]


def end(child):
    """Whatever has failed: what it uses is to be unmounted."""
    if child.poll() is None:
        child.terminate()
        child.wait(60)


def end_stress(stress):
    ended = stress.poll()
    stress.send_signal(signal.SIGINT)
    _, said = stress.communicate(timeout=60)
    if ended is not None:
        return [f"it has ended by itself: {said}"]
    # It tells of what it has verified, and of each error.
    return [line for line in said.splitlines() if "fail" in line.lower() and "failed: 0" not in line]


@contextlib.contextmanager
def database(lab, directory, kills):
    """PostgreSQL beside it, where there is time for it, and looked through at the end."""
    if not lab.full:
        yield
        return
    # It needs Debian's Python module `nbd`, which not every Python finds.
    from volumes import postgresql

    data = directory / "data"
    run("install", "-d", "-o", postgresql.USER, "-m", "700", data)
    # What is checked there is printed a line each; here lines are figures.
    with contextlib.redirect_stdout(sys.stderr), postgresql.Postgres(data, lab.folder / "sockets") as postgres:
        postgres.run("initdb", "--pgdata", data, "--auth=trust", "--data-checksums", "--locale=C", "--encoding=UTF8")
        postgres.start()
        postgres.on_bench("createdb")
        postgres.on_bench("pgbench", "--initialize", "--quiet", f"--scale={postgresql.SCALE}")
        postgres.ask("create table recorded (number integer primary key)")
        recorder = postgresql.Recorder(postgres)
        with open(lab.folder / "pgbench.log", "wb") as log:
            said = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": log}
            bench = postgres.popen("pgbench", "--host", postgres.sockets, "-c2", "-j1", "-T36000", "--no-vacuum", "bench", **said)
        yield
        held = bench.poll() is None
        bench.kill()
        bench.wait()
        acknowledged = recorder.acknowledged
        recorder.over()
        why = "" if held else f"pgbench has ended by itself: {(lab.folder / 'pgbench.log').read_text()[-300:]}"
        try:
            # With the caches of the database empty: it reads what the kernel has.
            postgres.stop(signal.SIGINT)
            postgres.start()
            postgresql.check_consistent(postgres, acknowledged)
            postgres.stop(signal.SIGINT)
        except Failed as failed:
            why = str(failed)
    lab.holds(f"PostgreSQL beside {kills} kills: {acknowledged:,} acknowledged rows are there, its tables and indexes are sound", not why, why)


def attack(lab):
    if os.geteuid() != 0:
        lab.skip("only root may steer")
        return
    if not lab.has("mkfs.ext4", "e2fsck", "stress-ng"):
        return
    with contextlib.suppress(Skipped):
        kill_beside_writers(lab)
        return
    lab.skip("not installed: PostgreSQL's server (tests/install-tools.sh)")


def kill_beside_writers(lab):
    kills, chosen = KILLS if lab.full else KILLS_QUICK, random.Random(1)
    # PostgreSQL runs as a user of its own, who comes to the disk through the folder.
    lab.folder.chmod(0o711)
    with disk(lab.folder) as (directory, said), contextlib.ExitStack() as children:
        hit = directory / "hit"
        hit.write_bytes(bytes(4096))
        before = nanoseconds_of_a_hit(hit)
        files = exercisers(directory)
        for file in files:
            children.callback(end, file)
        (directory / "stress").mkdir()
        command = ["stress-ng", *STRESS.split(), "--verify", "--temp-path", directory / "stress", "--timeout", "0"]
        stress = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        children.callback(end, stress)
        begin = time.monotonic()
        with database(lab, directory, kills):
            for number in range(kills):
                steering = Steering(lab.program, directory, POLICIES[number % len(POLICIES)])
                time.sleep(chosen.uniform(0.01, 0.4))
                steering.kill()
            # One that may end: it says what it has done.
            figures = lab.folder / "figures.json"
            steering = Steering(lab.program, directory, POLICIES[0], "--figures", figures)
            time.sleep(2)
            steering.process.terminate()
            ended = steering.process.wait(30)
        for file in files:
            file.stdin.close()
        told = [(file.wait(30), file.stdout.read(), file.stderr.read()) for file in files]
        wrong = end_stress(stress)
        after = nanoseconds_of_a_hit(hit)
    operations = sum(int(out) for code, out, _ in told if code == 0)
    lab.note(f"{kills} kills in {time.monotonic() - begin:.0f} s, beside {operations:,} operations of two exercisers and stress-ng")
    lab.holds("every byte that was written is read", all(code == 0 for code, _, _ in told), " ".join(err for _, _, err in told))
    lab.holds("stress-ng has met no error", not wrong, "; ".join(wrong))
    dropped = json.loads(figures.read_text())["page_cache"]["dropped"] if figures.exists() else None
    lab.holds("the last one ends in order", ended == 0, steering.log.read_text()[-500:])
    lab.row("pages that it let go have left in two seconds", dropped, at_least=1)
    lab.row("a read of 4 KiB that hits afterwards, for one before", after / before, "×", at_most=1.25)
    lab.holds("e2fsck finds the file system sound", said == [""], "".join(said)[-500:])
