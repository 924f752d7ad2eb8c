"""Checks, counted and printed one a line; skips; and running programs."""

import os
import shutil
import subprocess
import time

# Where programs for root are, whoever asks.
os.environ["PATH"] += ":/usr/sbin:/sbin"
IN_CI = os.environ.get("CI") == "true"

passed = 0


class Failed(Exception):
    """A check does not hold, or a program failed that must not."""


class Skipped(Exception):
    """Something is missing here that the test needs."""


def check(what, holds, told=""):
    global passed
    if not holds:
        raise Failed(f"{what}: {told or 'it does not hold'}")
    passed += 1
    print(f"  ok {what}", flush=True)


def check_refused(what, attempt, *errors, by=Exception):
    """`attempt` must fail, with one of the `errors` (names such as EINVAL) if any are named."""
    try:
        attempt()
    except by as error:
        name = getattr(error, "errno", None)
        with_error = f" with {' or '.join(errors)}" if errors else ""
        check(f"{what} is refused{with_error}", not errors or name in errors, f"refused, but with {name}: {error}")
    else:
        raise Failed(f"{what}: it was not refused")


def wait_until(holds, seconds):
    """Whether it came to hold."""
    end = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.01)
    return held


def check_runs(what, *arguments, **options):
    """A program whose exit code is the check."""
    try:
        run(*arguments, **options)
    except Failed as error:
        raise Failed(f"{what}: {error}") from error
    check(what, True)


def need(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        raise Skipped(f"not installed: {', '.join(missing)} (tests/install-tools.sh)")


def run(*arguments, fails=False, **options):
    """What a program printed. It must succeed, or fail where `fails`; then with what it said on stderr."""
    arguments = [str(argument) for argument in arguments]
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, **options)
    if (done.returncode != 0) != fails:
        raise Failed(f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr if fails else done.stdout
