"""A device that hangs behind one volume: the others are written, flushed and served, and the server can be steered and stopped."""

import contextlib
import signal
import threading
import time

from shared import wire
from shared.bystander import Bystander, content
from shared.device import Device
from shared.servers import configure, wait_until
from shared.wire import KIB, MIB

QUICK, FULL = 200, 600

DIRTY = 4 * MIB
AGE = 2
# After its age a page is to be on disk within.
GRACE = 8
STOP_TIMEOUT = 5
DEVICE_TIMEOUT = 3
MOST_STOP = 20


class Scene:
    """A healthy file `well` with pages just written, beside the device `sick`, which has hung while its pages are written back."""

    def __init__(self, lab, stack):
        self.well = lab.volume("well")
        self.device = stack.enter_context(Device(lab.folder, "sick", 64 * MIB))
        self.file = lab.folder / "serve.toml"
        self.configure("sick", "well")
        options = ["--config", self.file, "--dirty-age", f"{AGE}s"]
        options += lab.options(stop_timeout=f"{STOP_TIMEOUT}s", device_timeout=f"{DEVICE_TIMEOUT}s")
        self.server = stack.enter_context(lab.forebay(*options))
        # Before the server is killed the device lets go of it.
        stack.callback(self.device.process.kill)
        with self.server.client("sick") as client:
            client.write(0, bytes(8 * MIB))
        self.device.tell("hang")
        time.sleep(AGE + 1)
        self.write_well(version=1)

    def write_well(self, version):
        self.version = version
        with self.server.client("well") as client:
            for page in range(DIRTY // (4 * KIB)):
                client.write(page * 4 * KIB, content(page, version))

    def configure(self, *names):
        paths = {"well": self.well, "sick": self.device.path}
        configure(self.file, [{"name": name, "path": paths[name]} for name in names], cache="64MiB")

    def missing(self):
        """The MiB of the healthy volume that were acknowledged and are not in its file."""
        with self.well.open("rb") as file:
            pages = [file.read(4 * KIB) for _ in range(DIRTY // (4 * KIB))]
        return sum(found != content(page, self.version) for page, found in enumerate(pages)) * 4 * KIB / MIB

    def read_sick(self):
        """The seconds until a read that needs the device is answered by an error; None if it is not."""
        begin = time.monotonic()
        try:
            with self.server.client("sick", timeout=DEVICE_TIMEOUT + 7) as client:
                client.read(32 * MIB, 4 * KIB)
        except (wire.Refused, ConnectionError):
            return time.monotonic() - begin
        except TimeoutError:
            return None

    def stop(self, lab, what):
        """SIGTERM, and a second one if the first is of no use."""
        self.server.send(signal.SIGTERM)
        stopped = self.server.ends(MOST_STOP)
        accepts = False
        with contextlib.suppress(OSError, wire.Refused):
            self.server.client("well", timeout=2).close()
            accepts = stopped is None
        lab.row(f"{what}: SIGTERM stops it in", stopped, "s", at_most=MOST_STOP)
        lab.holds(f"{what}: no new client is accepted after SIGTERM", not accepts)
        if stopped is None:
            self.server.send(signal.SIGTERM)
            lab.row(f"{what}: a second SIGTERM stops it in", self.server.ends(5), "s")
        lab.row(f"{what}: healthy data lost", self.missing(), "MiB", at_most=0)
        self.device.process.kill()
        code = self.server.code()
        named = any("sick" in line for line in self.server.said().splitlines()[-5:])
        lab.holds(f"{what}: exit code 1, and what hangs is named", code == 1 and named, f"code {code}; {self.server.last_said()}")


def hung(lab):
    what = "hung"
    with contextlib.ExitStack() as stack:
        scene = Scene(lab, stack)
        reader = stack.enter_context(Bystander(scene.server.socket, "well", length=DIRTY, version=1))
        writer = stack.enter_context(Bystander(scene.server.socket, "well", offset=32 * MIB, length=MIB, writes=0.5))

        def read_sick():
            lab.row("a read of the hung device fails after", scene.read_sick(), "s", at_most=DEVICE_TIMEOUT + 5)

        failing = threading.Thread(target=read_sick)
        failing.start()
        written = wait_until(lambda: not scene.missing(), AGE + GRACE, every=0.5)
        lab.row("healthy dirty pages are on disk after", written, "s", {"not by then, MiB": scene.missing()}, at_most=AGE + GRACE)
        failing.join()
        begin = time.monotonic()
        with contextlib.suppress(TimeoutError), scene.server.client("well", timeout=5) as client:
            client.flush()
        lab.row("a flush of the healthy volume takes", time.monotonic() - begin, "s", at_most=4.9)
        lab.bystander("a bystander who reads the healthy volume", reader.figures())
        reader.__exit__()
        lab.bystander("a bystander who writes it", writer.figures())
        scene.write_well(version=2)
        scene.stop(lab, what)


def removed(lab):
    what = "hung and removed"
    with contextlib.ExitStack() as stack:
        scene = Scene(lab, stack)
        scene.configure("well")
        scene.server.send(signal.SIGHUP)
        time.sleep(1)
        lab.holds(f"{what}: the figures are told", scene.server.figures_answer(3))
        with scene.server.client("well", timeout=5) as client:
            lab.holds(f"{what}: the healthy volume is served", client.read(0, 4 * KIB) == content(0, 1))
        scene.stop(lab, what)


def written_on(lab):
    """The hung device's client writes until it must wait: then the dirty pages of one volume fill the cache's limit."""
    with contextlib.ExitStack() as stack:
        scene = Scene(lab, stack)
        client = stack.enter_context(scene.server.client("sick", timeout=3))
        with contextlib.suppress(TimeoutError, wire.Refused):
            for offset in range(0, 64 * MIB, MIB):
                client.write(offset, bytes(MIB))
        writer = stack.enter_context(Bystander(scene.server.socket, "well", offset=32 * MIB, length=8 * MIB, writes=0.9))
        time.sleep(16)
        lab.bystander("a bystander who writes beside a writer of the hung device", writer.figures())


def attack(lab):
    if not lab.has_fuse():
        return
    hung(lab)
    removed(lab)
    if lab.full:
        written_on(lab)
