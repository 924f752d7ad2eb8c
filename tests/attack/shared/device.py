"""A file that is a disk with moods: slow reads, writes and flushes, a hang, errors. Its program is device.c."""

import os
import pathlib
import socket
import subprocess

MOST_SECONDS = 10
SOURCE = pathlib.Path(__file__).with_suffix(".c")


def mount(mountpoint):
    """A descriptor of the mounted file system, by the program that mounts for everybody."""
    ours, theirs = socket.socketpair()
    environment = dict(os.environ, _FUSE_COMMFD=str(theirs.fileno()))
    command = ["fusermount3", "-o", "rw,fsname=attack", "--", mountpoint]
    with ours, theirs:
        subprocess.run(command, env=environment, pass_fds=[theirs.fileno()], check=True)
        (fuse,) = socket.recv_fds(ours, 1, 1)[1]
        return fuse


class Device:
    """The program at work; as a context, gone at its end, and whoever waits for it gets an error."""

    def __init__(self, folder, name, size, **moods):
        self.path, self.backing = folder / f"{name}.device", folder / f"{name}.backing"
        self.path.touch()
        with self.backing.open("wb") as file:
            file.truncate(size)
        program = folder / f"{name}.program"
        subprocess.run(["cc", "-O2", "-pthread", "-o", program, SOURCE], check=True)
        fuse, backing = mount(self.path), os.open(self.backing, os.O_RDWR)
        try:
            command = list(map(str, [program, fuse, backing]))
            self.process = subprocess.Popen(command, pass_fds=[fuse, backing], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        finally:
            os.close(fuse)
            os.close(backing)
        for mood, value in moods.items():
            self.tell(f"{mood} {value}")

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline().strip() != "done":
            raise RuntimeError(f"the FUSE file system at {self.path} does not work")

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
