"""Writes acknowledged to a client that stays on a removed volume, a slow device, SIGTERM: all is written, or it is said what is not."""

import signal
import time

from shared.bystander import content
from shared.device import Device
from shared.servers import configure, wait_until
from shared.wire import KIB, MIB

QUICK, FULL = 120, 300

WRITTEN = 32 * MIB
# Bytes a second of the slow device: more time than a stopping server leaves to its clients.
RATE = 2 * MIB
PART = 256 * KIB
MOST_STOP = 60


def part(number):
    """Different bytes in each page."""
    pages = PART // (4 * KIB)
    return b"".join(content(page, 1) for page in range(number * pages, (number + 1) * pages))


def lost(device):
    """How many bytes of what was acknowledged the device does not have."""
    found = device.content()
    return sum(found[at : at + 4 * KIB] != content(at // (4 * KIB), 1) for at in range(0, WRITTEN, 4 * KIB)) * 4 * KIB


def removed_and_stopped(lab, what, own=True, mood=None, back=None):
    """A volume is removed, its client stays and writes; the device gets into the mood, and SIGTERM comes."""
    what += ", a cache of its own" if own else ", the shared cache"
    kept = {"name": "kept", "path": lab.volume("kept")}
    with Device(lab.folder, "slow", 2 * WRITTEN, rate=RATE) as device:
        removed = {"name": "removed", "path": device.path, **({"size": "128MiB"} if own else {})}
        file = configure(lab.folder / "serve.toml", [kept, removed], cache="128MiB")
        options = lab.options(stop_timeout="20s")
        with lab.forebay("--config", file, *options) as server, server.client("removed") as client:
            configure(file, [kept], cache="128MiB")
            server.send(signal.SIGHUP)
            if wait_until(lambda: "was read again" in server.said(), 10) is None:
                lab.note("SIGHUP was not answered in 10 s")
            for number in range(WRITTEN // PART):
                client.write(number * PART, part(number))
            if mood:
                device.tell(mood)
            server.send(signal.SIGTERM)
            if back:
                time.sleep(back)
                device.tell("go")
            seconds = server.ends(MOST_STOP)
            missing = lost(device)
            device.tell("go")
            code = server.code() if seconds is not None else None
            beside = {"exit code": "none" if code is None else code, "seconds to stop": seconds}
            lab.row(f"{what}: acknowledged, not on the device", missing / MIB, "MiB", beside)
            named = any("removed" in line for line in server.said().splitlines()[-3:])
            honest = code == 0 and not missing or code == 1 and named
            lab.holds(f"{what}: written, or code 1 and said so", honest, server.last_said())


def attack(lab):
    if not lab.has_fuse():
        return
    removed_and_stopped(lab, "slow device")
    removed_and_stopped(lab, "failing device", mood="fail")
    if lab.full:
        removed_and_stopped(lab, "slow device", own=False)
        removed_and_stopped(lab, "failing device", own=False, mood="fail")
        removed_and_stopped(lab, "device that hangs for 5 s", mood="hang", back=5)
        removed_and_stopped(lab, "hung device", mood="hang")
        removed_and_stopped(lab, "hung device", own=False, mood="hang")
