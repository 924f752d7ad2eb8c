"""Many clients who make each write durable, on a device whose flush takes 10 ms: how many they get, and what a reader gets beside them."""

import threading
import time

from shared.bystander import Bystander
from shared.device import Device
from shared.wire import FUA, GIB, KIB, MIB

QUICK, FULL = 120, 600

CROWD = 32
FLUSH = 0.01
SIZE = 4 * GIB


def write_durably(server, number, fua, over, written):
    """Writes of 4 KiB in a region of its own, each made durable before the next."""
    with server.client() as client:
        offset = number * MIB
        for count in range(1 << 30):
            client.write(offset + count % 256 * 4 * KIB, count.to_bytes(8, "little") * 512, FUA if fua else 0)
            if not fua:
                client.flush()
            if over.is_set():
                return
            written.append(time.monotonic())


def crowd(server, fua, seconds):
    """Durable writes in a second, and what a reader of the same volume met with who finds nothing in a cache."""
    over, written = threading.Event(), []
    threads = [threading.Thread(target=write_durably, args=[server, number, fua, over, written]) for number in range(CROWD)]
    with Bystander(server.socket, offset=GIB, length=SIZE - GIB, think=0.002) as reader:
        reader.figures()
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        figures = reader.figures()
        over.set()
        for thread in threads:
            thread.join()
    # From where all are at work.
    late = written[len(written) // 4 :]
    return (len(late) - 1) / (late[-1] - late[0]) if len(late) > 1 else 0.0, figures


def servers(lab, device):
    yield "ours", lambda: lab.forebay("--cache", "16MiB", volumes=[f"volume={device.path},readahead=0"])
    if lab.has("nbdkit"):
        yield "nbdkit", lambda: lab.nbdkit("file", device.path)
    if lab.has("qemu-nbd"):
        yield "qemu-nbd", lambda: lab.direct_qemu_nbd(device.path)


def attack(lab):
    if not lab.has_fuse():
        return
    for how, fua in [("write and FLUSH", False), ("write with FUA", True)]:
        durable, reader = {}, {}
        with Device(lab.folder, "slow", SIZE, flush=FLUSH) as device:
            for name, start in servers(lab, device):
                with start() as server:
                    durable[name], reader[name] = crowd(server, fua, 20 if lab.full else 3)
                if reader[name]["error"] or reader[name]["wrong"]:
                    lab.holds(f"{how}: {name} serves the reader well", False, f"{reader[name]}")
        ours = durable.pop("ours")
        lab.row(f"{how}, {CROWD} clients: durable writes a second", ours, "/s", durable, at_least=durable.get("qemu-nbd"))
        for figure in ["p50 over time", "p90 over time", "p99 over time"]:
            times = {name: figures[figure] for name, figures in reader.items()}
            ours = times.pop("ours")
            # The last percent of a short run is the machine's.
            bar = 2 * times["nbdkit"] if "nbdkit" in times and not figure.startswith("p99") else None
            lab.row(f"{how}: a reader's miss beside them: {figure}", ours, "ms", times, at_most=bar)
