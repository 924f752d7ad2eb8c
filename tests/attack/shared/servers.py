"""Servers under attack: `forebay serve`, and beside it nbdkit and qemu-nbd. Their memory and processor time are the kernel's figures."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request

from shared import wire
from shared.wire import GIB, MIB

MOST_SECONDS = 30
# A server that takes as much is killed, so that it does not harm the machine.
MOST_MEMORY = 4 * GIB


class Failed(Exception):
    """A server does not do what an attack starts from."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(holds, seconds, every=0.01):
    """The seconds until it came to hold; None if it did not."""
    begin = time.monotonic()
    while not holds():
        if time.monotonic() - begin >= seconds:
            return None
        time.sleep(every)
    return time.monotonic() - begin


def sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)
    return path


class Process:
    """A program that runs; killed at the end of the context if it still does."""

    def __init__(self, command, log, descriptors=None):
        # Those before it may have written there, too.
        self.log, self.log_start = log, log.stat().st_size if log.exists() else 0
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))) if descriptors else None
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=limit
            )
        self.proc = pathlib.Path(f"/proc/{self.process.pid}")

    def status(self, key):
        """A figure of /proc/PID/status; 0 when the process has ended."""
        with contextlib.suppress(OSError):
            for line in (self.proc / "status").read_text().splitlines():
                if line.startswith(key + ":"):
                    return int(line.split()[1])
        return 0

    def memory(self):
        """Resident bytes."""
        return self.status("VmRSS") * 1024

    def peak(self):
        return self.status("VmHWM") * 1024

    def threads(self):
        return self.status("Threads")

    def descriptors(self):
        with contextlib.suppress(OSError):
            return len(os.listdir(self.proc / "fd"))
        return 0

    def processor_seconds(self):
        fields = (self.proc / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def said(self):
        """What it has written to its log."""
        return self.log.read_bytes()[self.log_start :].decode(errors="replace")

    def last_said(self):
        return (self.said().splitlines() or ["it said nothing"])[-1]

    def runs(self):
        return self.process.poll() is None

    def send(self, what):
        if self.runs():
            self.process.send_signal(what)

    def has_ended(self):
        """Also when the kernel still keeps threads of it that wait for a hung device; then its exit code is not known yet."""
        with contextlib.suppress(OSError):
            return not self.runs() or (self.proc / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        return True

    def ends(self, seconds):
        """The seconds until it ended; None if it did not."""
        return wait_until(self.has_ended, seconds)

    def code(self, seconds=5):
        """The exit code, once it has ended; None if that is not known by then."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)

    def stop(self, seconds=MOST_SECONDS):
        """SIGTERM: the seconds until it ended, None if it did not."""
        self.send(signal.SIGTERM)
        return self.ends(seconds)

    def kill(self):
        self.send(signal.SIGKILL)
        # Until the last thread has ended it keeps its files; one that waits for a hung device does until that is gone.
        self.code(MOST_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Server(Process):
    """An NBD server on a unix socket, and on a TCP port if it has one."""

    # Of the export that it is known by where there is but one.
    name = "volume"

    def __init__(self, command, folder, socket_path, descriptors=None):
        self.socket = str(socket_path)
        super().__init__(command, folder / f"{pathlib.Path(self.socket).stem}.log", descriptors)
        try:
            self.wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def wait_until_it_answers(self):
        def answers():
            if not self.runs():
                raise Failed(f"the server ended with exit code {self.process.returncode}: {self.last_said()}")
            with contextlib.suppress(OSError), wire.connect(self.socket, 1) as connection:
                return connection.recv(8) == b"NBDMAGIC"

        if wait_until(answers, MOST_SECONDS) is None:
            raise Failed(f"the server does not answer after {MOST_SECONDS} s: {self.last_said()}")

    def client(self, name=None, timeout=MOST_SECONDS):
        return wire.Client(self.socket, name or self.name, timeout)


class Forebay(Server):
    """`forebay serve`, with figures. Volumes are NAME=PATH,OPTION…, or stand in a file that `configure` writes anew."""

    def __init__(self, program, folder, *options, volumes=(), name="ours", tcp=False, descriptors=None):
        socket_path = folder / f"{name}.socket"
        self.metrics = ("127.0.0.1", free_port())
        self.port = free_port() if tcp else None
        command = [program, "serve", "--listen", f"unix:{socket_path}", "--metrics", f"127.0.0.1:{self.metrics[1]}"]
        command += ["--listen", f"tcp:127.0.0.1:{self.port}"] if tcp else []
        for volume in volumes:
            command += ["--volume", volume]
        super().__init__([*command, *options], folder, socket_path, descriptors)

    def statistics(self, seconds=5):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics[1]}/statistics", timeout=seconds) as answer:
            return json.load(answer)

    def figures_answer(self, seconds=5):
        """Whether it tells its figures."""
        with contextlib.suppress(OSError, ValueError):
            return bool(self.statistics(seconds))
        return False

    def volume(self, name="volume"):
        """The figures of a volume."""
        return next(volume for volume in self.statistics()["volumes"] if volume["name"] == name)


def configure(path, volumes, **options):
    """Writes the file of --config: `volumes` are tables of keys and values."""
    lines = [f'{key} = "{value}"' for key, value in options.items()]
    for volume in volumes:
        lines += ["[[volume]]", *(f'{key} = "{value}"' for key, value in volume.items())]
    fresh = pathlib.Path(f"{path}.new")
    fresh.write_text("\n".join(lines) + "\n")
    fresh.rename(path)
    return path


class Nbdkit(Server):
    def __init__(self, folder, *words, name="nbdkit"):
        socket_path = folder / f"{name}.socket"
        # A killed one leaves it.
        socket_path.unlink(missing_ok=True)
        super().__init__(["nbdkit", "--foreground", "--unix", socket_path, *words], folder, socket_path)


class QemuNbd(Server):
    def __init__(self, folder, path, *options, name="qemu-nbd"):
        socket_path = folder / f"{name}.socket"
        socket_path.unlink(missing_ok=True)
        command = ["qemu-nbd", "--socket", socket_path, "--persistent", "--shared", 0, "--export-name", self.name]
        super().__init__([*command, "--format", "raw", *options, path], folder, socket_path)


def missing(*programs):
    return [program for program in programs if not shutil.which(program)]


class Memory(threading.Thread):
    """Samples a process's resident bytes, and kills it when they are too many; a context."""

    def __init__(self, server, most=MOST_MEMORY):
        super().__init__(daemon=True)
        self.server, self.most = server, most
        self.samples = []
        self.killed = False
        self.over = threading.Event()

    def run(self):
        begin = time.monotonic()
        while not self.over.wait(0.05) and self.server.runs():
            self.samples.append((time.monotonic() - begin, self.server.memory()))
            if self.samples[-1][1] > self.most:
                self.killed = True
                self.server.kill()

    def peak(self):
        """In MiB."""
        return max((resident for _, resident in self.samples), default=0) / MIB

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
