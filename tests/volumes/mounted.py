"""ext4 on a loop device on nbdfuse on a volume: a file system without the kernel's NBD client, which not every machine has.

Each link passes fsync on: ext4's barriers are flushes of the loop device, those are fsync of nbdfuse's file, and that is a flush of the
volume. `check_flushes_arrive` sees to it, since without it what is said of durability here would mean nothing.
"""

import contextlib
import os
import pathlib
import subprocess

from volumes.checks import Failed, Skipped, check, check_runs, need, run, wait_until

NEEDS = ("nbdfuse", "fusermount3", "losetup", "mount", "umount", "mkfs.ext4", "e2fsck")
MOST_SECONDS = 30


def need_devices():
    if os.geteuid() != 0:
        raise Skipped("only root may mount")
    for device in ["/dev/fuse", "/dev/loop-control"]:
        if not os.path.exists(device):
            raise Skipped(f"there is no {device}")


def quietly(*arguments):
    """Cleaning up goes on whatever fails."""
    with contextlib.suppress(subprocess.SubprocessError, OSError):
        subprocess.run(list(map(str, arguments)), stdin=subprocess.DEVNULL, capture_output=True, timeout=MOST_SECONDS)


class LoopDevice:
    """A volume as a block device, and on demand mounted; as a context, all of it is gone at its end, also when the server is dead."""

    def __init__(self, uri, folder):
        self.uri = uri
        self.fuse, self.mountpoint, self.log = folder / "fuse", folder / "mounted", folder / "nbdfuse.log"
        self.device = self.nbdfuse = None

    def __enter__(self):
        self.fuse.mkdir(exist_ok=True)
        self.mountpoint.mkdir(exist_ok=True)
        try:
            file = self.fuse / "volume"
            # Of a session of its own: Ctrl-C must not end it before what stands on it.
            with self.log.open("ab") as log:
                command = ["nbdfuse", str(file), self.uri]
                self.nbdfuse = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            wait_until(lambda: self.nbdfuse.poll() is not None or file.exists(), MOST_SECONDS)
            if not file.exists():
                raise Failed(f"nbdfuse does not show {file}: {self.log.read_text()}")
            self.device = run("losetup", "--direct-io=on", "--find", "--show", file).strip()
            # The loop driver goes back to buffered writes where it must, and only says so here.
            direct = pathlib.Path("/sys/block", pathlib.Path(self.device).name, "loop/dio").read_text().strip()
            if direct != "1":
                raise Failed(f"{self.device} does not write directly to nbdfuse's file")
        except BaseException:
            self.__exit__()
            raise
        return self

    def mount(self):
        run("mount", "-t", "ext4", self.device, self.mountpoint)
        return self.mountpoint

    def umount(self):
        run("umount", self.mountpoint)

    def __exit__(self, *_):
        if os.path.ismount(self.mountpoint):
            quietly("umount", self.mountpoint)
        if os.path.ismount(self.mountpoint):
            quietly("umount", "--lazy", "--force", self.mountpoint)
        if self.device:
            quietly("losetup", "--detach", self.device)
            # The kernel detaches it once its last user has gone.
            backing = pathlib.Path("/sys/block", pathlib.Path(self.device).name, "loop/backing_file")
            wait_until(lambda: not backing.exists(), 5)
        quietly("fusermount3", "-u", self.fuse)
        if os.path.ismount(self.fuse):
            quietly("fusermount3", "-u", "-z", self.fuse)
        if self.nbdfuse:
            try:
                self.nbdfuse.wait(5)
            except subprocess.TimeoutExpired:
                self.nbdfuse.kill()
                self.nbdfuse.wait()


def check_file_system(after, device):
    check_runs(f"fsck after {after} finds no error", "e2fsck", "-f", "-n", device)


def check_flushes_arrive(folder):
    """A server that logs what it is asked: nbdkit's."""
    need("nbdkit")
    log, socket = folder / "requests.log", folder / "logged"
    command = ["nbdkit", "--foreground", "--exit-with-parent", "--unix", socket, "--filter=log", "memory", "32M", f"logfile={log}"]
    nbdkit = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_until(socket.exists, MOST_SECONDS)
        with LoopDevice(f"nbd+unix:///?socket={socket}", folder) as loop:
            run("mkfs.ext4", "-q", loop.device)
            mounted = loop.mount()
            with (mounted / "file").open("wb") as file:
                file.write(b"durable")
                file.flush()
                before = log.read_text().count(" Flush ")
                os.fsync(file.fileno())
                after = log.read_text().count(" Flush ")
            check("fsync on ext4, loop and nbdfuse is a flush of the volume", after > before, f"{before} before, {after} after")
            loop.umount()
    finally:
        nbdkit.kill()
        nbdkit.wait()
