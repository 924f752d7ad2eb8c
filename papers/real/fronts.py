"""The front ends that the experiments measure, each as a context: a mount, steering, and the record of a page cache."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import urllib.request

import serving  # noqa: F401 - finds the modules below
from volumes import mounted
from volumes.checks import Failed, run, wait_until
from volumes.server import free_port

PAGE = 4096
MIB = 1 << 20
READAHEAD = "128KiB"
# A steered cache may be by this much larger than it is to be, for moments.
OVER = 0.02


class Mount:
    """`forebay mount` of a directory, and its figures; as a context, unmounted at its end."""

    def __init__(self, forebay, source, point, log, cache, policy, options):
        self.point, self.log = point, log
        self.metrics = f"127.0.0.1:{free_port()}"
        words = [forebay, "mount", source, self.point, "--foreground", "--cache", str(cache), "--policy", policy]
        words += ["--readahead", READAHEAD, "--metrics", self.metrics, "--log", "warn", *options]
        with self.log.open("ab") as log:
            # Of a session of its own: Ctrl-C must not end it before the programs on it.
            self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_until(lambda: self.process.poll() is not None or os.path.ismount(self.point), 30)
            if not os.path.ismount(self.point):
                raise Failed(f"forebay mount does not mount {source}: {self.log.read_text()[-2000:]}")
        except BaseException:
            self.__exit__()
            raise

    def figures(self):
        with urllib.request.urlopen(f"http://{self.metrics}/statistics", timeout=30) as answer:
            return json.load(answer)

    def stop(self):
        """Unmounts in order: the trace is whole then."""
        run("fusermount3", "-u", self.point)
        if self.process.wait(120):
            raise Failed(f"forebay mount failed: {self.log.read_text()[-2000:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if os.path.ismount(self.point):
            mounted.quietly("fusermount3", "-u", "-z", self.point)
        if self.process.poll() is None:
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Steering:
    """`forebay steer` of a directory, and its figures; as a context, stopped at its end. Its own memory is part of the size, unless it `counts` not, and so is what
    it may have too much. As that memory grows, the page cache becomes smaller."""

    def __init__(self, forebay, directory, work, size, policy, options=(), counts=True):
        self.forebay, self.size, self.counts = forebay, size, counts
        self.over = threading.Event()
        self.follower = threading.Thread(target=self.follow)
        self.log, self.control = work / "steer.log", work / "steer.socket"
        self.metrics = f"127.0.0.1:{free_port()}"
        words = [forebay, "steer", directory, "--cache", str(size), "--policy", policy, "--metrics", self.metrics, "--control", self.control, "--log", "warn", *options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            wait_until(lambda: self.process.poll() is not None or self.answers(), 30)
            if self.process.poll() is not None:
                raise Failed(f"forebay steer ends: {self.log.read_text()[-2000:]}")
            self.resize(self.own())
            self.follower.start()
        except BaseException:
            self.__exit__()
            raise

    def answers(self):
        with contextlib.suppress(OSError):
            return bool(self.figures())
        return False

    def figures(self):
        with urllib.request.urlopen(f"http://{self.metrics}/statistics", timeout=30) as answer:
            return json.load(answer)

    def resident(self):
        """The bytes of memory that it takes."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE

    def own(self):
        """What of it counts."""
        with contextlib.suppress(OSError):
            return self.resident() if self.counts else 0
        return 0

    def resize(self, own):
        left = int((self.size - own) / (1 + OVER))
        run(self.forebay, "control", "--socket", self.control, "resize", "shared", str(left // PAGE * PAGE))

    def follow(self):
        counted = self.own()
        while not self.over.wait(0.1):
            own = self.own()
            if abs(own - counted) >= MIB and self.process.poll() is None:
                with contextlib.suppress(Failed):
                    self.resize(own)
                    counted = own

    def stop(self):
        self.over.set()
        self.follower.join()
        self.process.terminate()
        if self.process.wait(120):
            raise Failed(f"forebay steer failed: {self.log.read_text()[-2000:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class MemorySteering:
    """`forebay steer --memory` of a control group of version 1, whose limit it follows, and its figures; as a context, stopped at its end."""

    def __init__(self, forebay, group, work, policy, turns=False):
        self.log, self.told = work / "steer.log", work / "steer.json"
        words = [forebay, "steer", "--memory", "auto", "--cgroup", group, "--policy", policy, "--figures", self.told, "--log", "info", *(["--turns"] if turns else [])]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_until(lambda: self.process.poll() is not None or "steering the memory" in self.log.read_text(), 30)
        if self.process.poll() is not None:
            raise Failed(f"forebay steer ends: {self.log.read_text()[-2000:]}")

    def resident(self):
        """The bytes of memory that it takes: none once it has ended."""
        with contextlib.suppress(OSError):
            return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE
        return 0

    def stop(self):
        """Ends it: its figures, with what the policy says, its memory and the seconds of processor time that it took."""
        took = sum(map(int, pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")")[-1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        resident = self.resident()
        self.process.terminate()
        if self.process.wait(60):
            raise Failed(f"forebay steer failed: {self.log.read_text()[-2000:]}")
        told = json.loads(self.told.read_text())
        return told["memory"] | {"policy_state": told["caches"][0]["policy_state"], "resident": resident, "processor_seconds": took}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Beside:
    """A program of ours that runs beside what is measured; as a context, killed at its end if it has not stopped."""

    def __init__(self, log, words, ready=""):
        """It is ready once it has said this."""
        self.log = log
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_until(lambda: self.process.poll() is not None or self.log.stat().st_size and ready in self.log.read_text(), 30)
        if self.process.poll() is not None:
            raise Failed(f"{words[0]} {words[1]} ends: {self.log.read_text()[-2000:]}")

    def stop(self):
        """Stops it, and returns its log."""
        self.process.send_signal(signal.SIGTERM)
        failed = self.process.wait(120)
        said = self.log.read_text()
        if failed:
            raise Failed(f"{self.log.stem} failed: {said[-2000:]}")
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Recording(Beside):
    """`forebay record --page-cache` of a directory, beside whatever uses its files. The trace is whole once it has stopped; then it says of uses that were left out, too."""

    def __init__(self, forebay, directory, work, trace):
        super().__init__(work / "record.log", [forebay, "record", "--page-cache", directory, "--output", trace, "--force", "--verbose"])


class Observing(Beside):
    """`forebay steer --observe` of a directory: records its uses, and counts which of them the kernel had."""

    def __init__(self, forebay, directory, work, trace):
        self.told = work / "observe.json"
        super().__init__(work / "observe.log", [forebay, "steer", directory, "--observe", "--record", trace, "--figures", self.told, "--log", "info"], "observing ")

    def figures(self):
        """What it has counted, once it has stopped."""
        return json.loads(self.told.read_text())["page_cache"]
