"""`kill -9` of `forebay steer --memory` in the midst of programs that check all of their memory: no byte is wrong, none hangs, and the kernel kills no more of them than it does alone."""

import contextlib
import os
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import killed_steering  # noqa: E402 - found by the line above
from shared.wire import MIB  # noqa: E402
from volumes.checks import Failed, wait_until  # noqa: E402

QUICK, FULL = 240, 4500
KILLS, KILLS_QUICK = 200, 12
# How long each is let live at the most: 200 take an hour.
LIVES, LIVES_QUICK = 35, 1
# The seconds of the run without Forebay, in which the kernel's kills are counted.
ALONE, ALONE_QUICK = 120, 25
GROUPS = pathlib.Path("/sys/fs/cgroup/memory")
# What the programs have together, and what each of the two uses: four times as much.
MEMORY = 64 * MIB
LIMIT = MEMORY + 4 * MIB
USED = MEMORY * 2
SWAP = 1024 * MIB
POLICIES = ["clock-pro", "lru", "mru", "s3-fifo", "ubm"]
# The policy's choice alone; in turns with the kernel, as a limit is followed; and with files in one size.
SIZES = [["--memory", MEMORY], ["--memory", "auto", "--turns"], ["--memory", MEMORY, "--cache", 16 * MIB]]
LOOP = pathlib.Path(__file__).resolve().parents[2] / "crates/cli/tests/steer/pages.c"
EXERCISER = pathlib.Path(__file__).parent / "shared/fsx.py"


def run(*words):
    subprocess.run(list(map(str, words)), check=True, capture_output=True)


@contextlib.contextmanager
def swap(folder):
    file = folder / "swap"
    file.touch(0o600)
    run("fallocate", "--length", SWAP, file)
    run("mkswap", file)
    run("swapon", file)
    try:
        yield
    finally:
        run("swapoff", file)


@contextlib.contextmanager
def group():
    path = GROUPS / f"forebay-attack-{os.getpid()}"
    path.mkdir()
    try:
        (path / "memory.limit_in_bytes").write_text(str(LIMIT))
        yield path
    finally:
        wait_until(lambda: not (path / "cgroup.procs").read_text(), 60)
        path.rmdir()


def within(path, *words):
    """Starts a program in a group."""
    script = f'echo $$ > {path / "cgroup.procs"}; exec "$@"'
    command = ["sh", "-c", script, "sh", *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class Steering:
    def __init__(self, lab, path, policy, *options):
        command = [lab.program, "steer", "--cgroup", path, "--policy", policy, "--log", "info", *options]
        self.log = lab.folder / "steer.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: self.process.poll() is not None or b"steering" in self.log.read_bytes(), 30)
        if self.process.poll() is not None:
            raise Failed(f"forebay steer ends: {self.log.read_text()}")

    def kill(self):
        self.process.kill()
        self.process.wait()


def guards(path):
    said = subprocess.run(["pgrep", "--full", f"steer-guard.*{path.name}"], capture_output=True, text=True, check=False)
    return len(said.stdout.split())


def attack(lab):
    if os.geteuid() != 0:
        lab.skip("only root may steer")
    elif not (GROUPS / "memory.limit_in_bytes").exists():
        lab.skip("version 1 of control groups does not limit memory here")
    elif lab.has("stress-ng", "cc", "mkswap"):
        kill_beside_programs(lab)


def killed(path):
    return int((path / "memory.oom_control").read_text().split("oom_kill ")[-1].split()[0])


@contextlib.contextmanager
def programs(lab, path, loop, seconds):
    """A loop that checks each page in each round and ends by itself, stress-ng, which does so with all its ways of writing, and an exerciser of files."""
    with contextlib.ExitStack() as children:
        looping = within(path, loop, USED // MIB, int(seconds))
        children.callback(killed_steering.end, looping)
        stress = within(path, "stress-ng", "--vm", 1, "--vm-bytes", USED, "--vm-keep", "--verify", "--timeout", 0)
        children.callback(killed_steering.end, stress)
        exerciser = within(path, sys.executable, EXERCISER, lab.folder / "fsx", "1")
        children.callback(killed_steering.end, exerciser)
        yield looping, stress, exerciser


def kill_beside_programs(lab):
    kills, lives, chosen = KILLS if lab.full else KILLS_QUICK, LIVES if lab.full else LIVES_QUICK, random.Random(1)
    loop = lab.folder / "loop"
    run("cc", "-O2", "-o", loop, LOOP)
    seconds, alone = kills * (lives / 2 + 1.5), ALONE if lab.full else ALONE_QUICK
    with swap(lab.folder):
        with group() as path, programs(lab, path, loop, alone) as (looping, _, _):
            looping.communicate(timeout=alone + 300)
            killed_alone = killed(path)
        beside(lab, loop, (kills, lives, chosen), seconds, killed_alone * seconds / alone)


def beside(lab, loop, how, seconds, killed_alone):
    kills, lives, chosen = how
    with group() as path, programs(lab, path, loop, seconds) as (looping, stress, exerciser):
        begin, most_guards = time.monotonic(), 0
        for number in range(kills):
            steering = Steering(lab, path, POLICIES[number % len(POLICIES)], *SIZES[number % len(SIZES)])
            time.sleep(chosen.uniform(0.05, lives))
            steering.kill()
            most_guards = max(most_guards, guards(path))
        last = Steering(lab, path, POLICIES[0], *SIZES[0])
        lived = looping.poll() is None or looping.returncode == 0
        said, wrong = looping.communicate(timeout=seconds + 300)
        exerciser.stdin.close()
        operations, differs = exerciser.stdout.read(), exerciser.stderr.read()
        checked = exerciser.wait(60)
        met = killed_steering.end_stress(stress)
        last.process.terminate()
        ended = last.process.wait(30)
        killed_beside = killed(path)
        took = time.monotonic() - begin
    rounds = said.split()[0] if said.split() else "no"
    lab.note(f"{kills} kills in {took:.0f} s, beside {rounds} rounds of a loop, {operations.strip()} operations of an exerciser, and stress-ng")
    lab.holds("each page of the loop has what was written", lived and looping.returncode == 0, f"exit code {looping.returncode}: {wrong[-300:]}")
    lab.holds("stress-ng finds its memory as it was", not met, "; ".join(met))
    lab.holds("every byte of the files is read as it was written", checked == 0, differs[-300:])
    # Where it kills a few in an hour, one more or less says nothing.
    lab.row("programs that the kernel killed", killed_beside, at_most=killed_alone + 1, peers={"kernel alone": killed_alone})
    lab.row("guards at one time", most_guards, at_most=2)
    lab.holds("the last one ends in order", ended == 0, last.log.read_text()[-500:])
