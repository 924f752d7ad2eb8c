"""A file that is a disk with moods: slow reads, writes and flushes, a hang, errors. A file system of one file, by FUSE.

As a program it serves MOUNTPOINT, a file, from the file BACKING. It takes commands, one a line: `read SECONDS`, `write SECONDS` and
`flush SECONDS` say what each takes, `rate BYTES` what it reads and writes in a second, `hang`, `fail` and `go` how it is from now on.
The kernel keeps nothing of the file, so that all servers see the same device, and has one write or flush under way at a time, as a
disk without a queue.

FUSE is spoken by hand (linux/fuse.h): the delay filter of nbdkit delays no flush, and nothing that is installed hangs on demand.
"""

import contextlib
import enum
import errno
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time

THREADS = 48
# Bytes of one transfer.
MOST = 1 << 20
MOST_SECONDS = 10


class Op(enum.IntEnum):
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    OPEN = 14
    READ = 15
    WRITE = 16
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42


UNANSWERED = (Op.FORGET, Op.INTERRUPT, Op.BATCH_FORGET)
IN_HEADER = struct.Struct("<IIQQIIIHH")
OUT_HEADER = struct.Struct("<IiQ")
TRANSFER = struct.Struct("<QQI")
WRITE_DATA = 40
ASYNC_READ, BIG_WRITES, ASYNC_DIO, MAX_PAGES = 1 << 0, 1 << 5, 1 << 15, 1 << 22
DIRECT_IO = 1


class Moods:
    def __init__(self):
        self.seconds = {Op.READ: 0.0, Op.WRITE: 0.0, Op.FSYNC: 0.0}
        self.rate = 0.0
        self.failing = False
        self.going = threading.Event()
        self.going.set()
        self.arm = threading.Lock()

    def obey(self, line):
        match line.split():
            case ["read" | "write" | "flush" as kind, seconds]:
                self.seconds[{"read": Op.READ, "write": Op.WRITE, "flush": Op.FSYNC}[kind]] = float(seconds)
            case ["rate", rate]:
                self.rate = float(rate)
            case ["hang"]:
                self.going.clear()
            case ["fail"]:
                self.failing = True
            case ["go"]:
                self.failing = False
                self.going.set()
            case _:
                sys.exit(f"unknown command: {line}")

    def endure(self, op, length=0):
        self.going.wait()
        if self.rate and length:
            with self.arm:
                time.sleep(length / self.rate)
        if self.seconds[op]:
            time.sleep(self.seconds[op])
        if self.failing:
            raise OSError(errno.EIO, "it is to fail")


class FileSystem:
    def __init__(self, fuse, backing):
        self.fuse, self.backing = fuse, backing
        self.moods = Moods()

    def attributes(self):
        file = os.fstat(self.backing)
        owner = (os.getuid(), os.getgid())
        return struct.pack("<QII 6Q 10I", 0, 0, 0, 1, file.st_size, file.st_blocks, *[0] * 6, 0o100600, 1, *owner, 0, 4096, 0)

    def answer(self, op, body, room):
        match op:
            case Op.INIT:
                _, minor, ahead, offered = struct.unpack_from("<4I", body)
                flags = offered & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES)
                queue, congested = 512, 384
                return struct.pack("<4I 2H 2I 2H 32x", 7, min(minor, 31), ahead, flags, queue, congested, MOST, 1, MOST // 4096, 0)
            case Op.GETATTR | Op.SETATTR:
                return self.attributes()
            case Op.OPEN:
                return struct.pack("<QIi", 0, DIRECT_IO, 0)
            case Op.READ:
                _, offset, length = TRANSFER.unpack_from(body)
                self.moods.endure(op, length)
                return room[: os.preadv(self.backing, [room[:length]], offset)]
            case Op.WRITE:
                _, offset, length = TRANSFER.unpack_from(body)
                self.moods.endure(op, length)
                return struct.pack("<II", os.pwrite(self.backing, body[WRITE_DATA : WRITE_DATA + length], offset), 0)
            case Op.FSYNC:
                self.moods.endure(op)
                return b""
            case Op.FLUSH | Op.RELEASE | Op.DESTROY:
                return b""
        raise OSError(errno.ENOSYS, "this file system has no such operation")

    def serve(self):
        """Answers the kernel, a request at a time; many threads do."""
        buffer, room = (memoryview(bytearray(MOST + 8192)) for _ in range(2))
        while True:
            try:
                length = os.readv(self.fuse, [buffer])
            except OSError as failed:
                if failed.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                    continue
                return  # unmounted
            _, op, unique, *_ = IN_HEADER.unpack_from(buffer)
            if op in UNANSWERED:
                continue
            try:
                error, data = 0, self.answer(op, buffer[IN_HEADER.size : length], room)
            except OSError as failed:
                error, data = -failed.errno, b""
            with contextlib.suppress(OSError):  # the process that asked may be gone
                os.writev(self.fuse, [OUT_HEADER.pack(OUT_HEADER.size + len(data), error, unique), data])


def mount(mountpoint):
    """A descriptor of the mounted file system, by the program that mounts for everybody."""
    ours, theirs = socket.socketpair()
    environment = dict(os.environ, _FUSE_COMMFD=str(theirs.fileno()))
    command = ["fusermount3", "-o", "rw,fsname=attack", "--", mountpoint]
    with ours, theirs:
        subprocess.run(command, env=environment, pass_fds=[theirs.fileno()], check=True)
        (fuse,) = socket.recv_fds(ours, 1, 1)[1]
        return fuse


def main():
    mountpoint, backing = sys.argv[1:]
    system = FileSystem(mount(mountpoint), os.open(backing, os.O_RDWR))
    for _ in range(THREADS):
        threading.Thread(target=system.serve, daemon=True).start()
    print("mounted", flush=True)
    for line in sys.stdin:
        system.moods.obey(line)
        print("done", flush=True)


class Device:
    """The program above at work; as a context, gone at its end, and whoever waits for it gets an error."""

    def __init__(self, folder, name, size, **moods):
        self.path, self.backing = folder / f"{name}.device", folder / f"{name}.backing"
        self.path.touch()
        with self.backing.open("wb") as file:
            file.truncate(size)
        command = [sys.executable, __file__, self.path, self.backing]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answered("mounted")
        for mood, value in moods.items():
            self.tell(f"{mood} {value}")

    def answered(self, word):
        if self.process.stdout.readline().strip() != word:
            raise RuntimeError(f"the FUSE file system at {self.path} does not work")

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        self.answered("done")

    def content(self):
        """What the device holds, past its moods."""
        return self.backing.read_bytes()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(MOST_SECONDS)
        unmount(self.path)


def unmount(path):
    subprocess.run(["fusermount3", "-u", "-z", path], capture_output=True, timeout=MOST_SECONDS)


def unmount_all(folder):
    """What a killed attack left mounted."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        mountpoint = line.split()[1]
        if mountpoint.startswith(f"{folder}/"):
            unmount(mountpoint)


if __name__ == "__main__":
    main()
