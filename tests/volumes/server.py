"""A server of volumes, started, stopped and killed: `forebay serve`, or nbdkit's file plugin standing in for it."""

import dataclasses
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

import nbd

from volumes.checks import Failed

KIB, MIB = 1 << 10, 1 << 20
MOST_SECONDS = 30

# Hands a listening socket on as systemd does: as descriptor 3, to a process whose id is in LISTEN_PID.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclasses.dataclass
class Volume:
    """A file, or a URL of objects, under a name, which is the file's. What is None is left to the server."""

    path: pathlib.Path | str
    page: str = None
    policy: str = None
    mode: str = None
    readahead: str = None
    create: str = None
    retry: str = None
    read_only: bool = False

    @property
    def name(self):
        return pathlib.PurePath(self.path).stem


def make_volume(folder, name, size, **options):
    """A volume in a new sparse file."""
    path = folder / f"{name}.img"
    with path.open("wb") as file:
        file.truncate(size)
    return Volume(path, **options)


class Forebay:
    def __init__(self, words):
        self.words = words

    def command(self, volumes, cache, socket_path, port, certificates, _folder):
        words = [*self.words, "serve"]
        for volume in volumes:
            parts = [f"{volume.name}={volume.path}"]
            parts += [f"{key}={getattr(volume, key)}" for key in ("policy", "page", "mode", "readahead", "create", "retry") if getattr(volume, key)]
            parts += ["read-only"] if volume.read_only else []
            words += ["--volume", ",".join(parts)]
        words += ["--listen", f"unix:{socket_path}"] if socket_path else []
        words += ["--listen", f"tcp:127.0.0.1:{port}"] if port else []
        words += ["--tls-certificates", certificates] if certificates else []
        return [*words, "--cache", cache]


class Nbdkit:
    """Its words are options and, with `=` in them, parameters, as in "nbdkit --filter=cache cache-max-size=8M"."""

    def __init__(self, words):
        self.words = [word for word in words if word.startswith("-") or "=" not in word]
        self.parameters = [word for word in words if word not in self.words]

    def command(self, volumes, _cache, socket_path, port, certificates, folder):
        # Each file of a folder is an export.
        exports = folder / "exports"
        shutil.rmtree(exports, ignore_errors=True)
        exports.mkdir()
        for volume in volumes:
            (exports / volume.name).symlink_to(volume.path)
        words = [*self.words, "--foreground"]
        words += ["--readonly"] if any(volume.read_only for volume in volumes) else []
        words += ["--unix", socket_path] if socket_path else []
        words += ["--ipaddr", "127.0.0.1", "--port", str(port)] if port else []
        words += ["--tls=require", f"--tls-certificates={certificates}"] if certificates else []
        return [*words, "file", f"dir={exports}", *self.parameters]


def server_program(line):
    words = shlex.split(line)
    return (Nbdkit if pathlib.Path(words[0]).name == "nbdkit" else Forebay)(words)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A running server; as a context, killed at its end if it still runs."""

    def __init__(self, program, folder, *volumes, cache="64MiB", tcp=False, certificates=None, activated=False, options=()):
        self.socket = folder / "socket"
        self.socket.unlink(missing_ok=True)
        self.port = free_port() if tcp else None
        self.log = folder / "server.log"
        listens = None if activated or tcp else self.socket
        command = program.command(volumes, cache, listens, self.port, certificates, folder) + list(options)
        inherits = ()
        if activated:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(self.socket))
            listener.listen(16)
            inherits = (listener.fileno(),)
            command = [sys.executable, "-c", ACTIVATE, str(listener.fileno()), *command]
        with self.log.open("ab") as log:
            # Of a session of its own, so that Ctrl-C reaches the test alone, which then cleans up in order.
            self.process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=inherits, start_new_session=True
            )
        if activated:
            listener.close()
        try:
            self.wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def told(self):
        return self.log.read_text(errors="replace")[-2000:]

    def connect(self):
        """A bare connection, for what libnbd would not send."""
        kind, address = (socket.AF_INET, ("127.0.0.1", self.port)) if self.port else (socket.AF_UNIX, str(self.socket))
        connection = socket.socket(kind)
        connection.settimeout(MOST_SECONDS)
        connection.connect(address)
        return connection

    def wait_until_it_answers(self):
        end = time.monotonic() + MOST_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Failed(f"the server ended with exit code {self.process.returncode}: {self.told()}")
            try:
                with self.connect() as connection:
                    if connection.recv(8) == b"NBDMAGIC":
                        return
            except OSError:
                pass
            time.sleep(0.01)
        raise Failed(f"the server does not answer after {MOST_SECONDS} s: {self.told()}")

    def uri(self, name):
        return f"nbd://127.0.0.1:{self.port}/{name}" if self.port else f"nbd+unix:///{name}?socket={self.socket}"

    def client(self, name, before=lambda handle: None):
        """A libnbd handle, connected; `before` sets it up before that."""
        handle = nbd.NBD()
        handle.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
        before(handle)
        # Everything is sent as asked: it is for the server to refuse.
        handle.set_strict_mode(0)
        handle.connect_uri(self.uri(name))
        return handle

    def stop(self):
        """SIGTERM: the exit code."""
        self.process.terminate()
        return self.wait()

    def wait(self):
        try:
            return self.process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"the server does not end {MOST_SECONDS} s after SIGTERM: {self.told()}") from error

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
