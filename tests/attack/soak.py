"""All attacks at once on one server, beside bystanders who check their data: memory stays flat, they are served well, and it ends in order.

The server gets a reload every few seconds. Attackers run in processes of their own, at a lower priority, so that the bystanders' times
are the server's: this file is their program, too. The attackers keep the disk busy: what a plain read of the disk takes meanwhile is shown.
"""

import contextlib
import itertools
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

import cache_floods
import flush_crowds
import header_writers
import reload_storms
import slow_readers
import torn_sectors
from shared import wire
from shared.bystander import BLOCK, Bystander, content
from shared.device import Device
from shared.lab import most_memory
from shared.servers import configure
from shared.wire import GIB, LONGEST, MIB, TRIM, request

CACHE = 256 * MIB
CALM = 128 * MIB
# The device `sick` hangs for so many seconds of each minute: less than --device-timeout, so that nothing may be lost.
HANGS, DEVICE_TIMEOUT = 8, "30s"
ROUND = 20
MOST_STOP = 60
# With more the machine is in danger.
MOST_MEMORY = 8 * 1024


def limit(minutes):
    return int(minutes * 60) + 300


class Remote:
    """The server, seen from an attacker's process."""

    def __init__(self, name, path, port, metrics):
        self.name, self.socket, self.port, self.metrics = name, path, int(port), int(metrics)

    def client(self, name=None, timeout=30):
        return wire.Client(self.socket, name or self.name, timeout)


def slow_reader(server):
    with server.client() as client:
        slow_readers.ask_for_much(client)
        time.sleep(ROUND)


def header_writer(server):
    with contextlib.ExitStack() as stack:
        header_writers.announce(stack, server, 40)
        time.sleep(ROUND)


def long_reader(server):
    over, taken = threading.Event(), []
    readers = [threading.Thread(target=slow_readers.read_long, args=[server, number * GIB, over, taken]) for number in range(2)]
    for reader in readers:
        reader.start()
    time.sleep(ROUND / 4)
    over.set()
    for reader in readers:
        reader.join()
    time.sleep(ROUND)


def flooder(server):
    cache_floods.flood(server)
    time.sleep(ROUND)


def idler(server):
    address = ("127.0.0.1", server.port)
    with contextlib.ExitStack() as stack:
        for number in range(256):
            with contextlib.suppress(OSError, wire.Refused):
                if number % 4:
                    stack.enter_context(wire.Client(address, server.name, 2, source="127.0.0.2"))
                else:
                    stack.enter_context(wire.connect(address, 2, source="127.0.0.2"))
        for _ in range(50):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.metrics), 2))
        time.sleep(ROUND)
    time.sleep(ROUND)


def durable_writer(server):
    over = threading.Event()
    threading.Timer(ROUND, over.set).start()
    writers = [
        threading.Thread(target=flush_crowds.write_durably, args=[server, number, number % 2 == 0, over, []]) for number in range(16)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def trimmer(server):
    with server.client(timeout=60) as client:
        client.call(TRIM, 0, LONGEST)
        client.call(wire.WRITE_ZEROES, LONGEST, MIB - 512)
    time.sleep(ROUND / 4)


def talker(server):
    """Says what makes no sense."""
    chosen = random.Random()
    with wire.connect(server.socket) as connection:
        connection.sendall(chosen.randbytes(chosen.randrange(10_000)))
    with server.client() as client:
        kind, offset, length = chosen.randrange(2, 20), chosen.randrange(1 << 64), chosen.randrange(1 << 32)
        client.connection.sendall(request(kind, offset, length, flags=chosen.randrange(64)) + chosen.randbytes(100))
    time.sleep(0.5)


def patient_of_sick(server):
    """Writes a little all the while, and waits while the device hangs."""
    with server.client(timeout=60) as client:
        for number in range(1000):
            client.write(number % 4096 * BLOCK, content(number % 4096, 1))
            time.sleep(0.02)
        client.flush()


def tearer(server):
    """Its figure: torn sectors."""
    _, _, torn = torn_sectors.raced(server, 2)
    time.sleep(ROUND / 2)
    return torn


def comer(server):
    """Its figure: wrong blocks."""
    over, wrong = threading.Event(), []
    threading.Timer(ROUND, over.set).start()
    reload_storms.come_and_go(server, os.getpid() % 10, over, wrong)
    return len(wrong)


# And the volume that each attacks.
ATTACKERS = {
    "slow_reader": (slow_reader, "large"),
    "header_writer": (header_writer, "large"),
    "long_reader": (long_reader, "large"),
    "flooder": (flooder, "large"),
    "idler": (idler, "large"),
    "durable_writer": (durable_writer, "slow"),
    "trimmer": (trimmer, "large"),
    "talker": (talker, "large"),
    "patient_of_sick": (patient_of_sick, "sick"),
    "tearer": (tearer, "small"),
    "comer": (comer, "stays"),
}


def work(kind, *address):
    """An attacker's process: round after round, each with a line of JSON: its figure, or what went wrong."""
    os.nice(10)
    act, volume = ATTACKERS[kind]
    server = Remote(volume, *address)
    while True:
        try:
            result = {"found": act(server) or 0}
        except (OSError, wire.Refused) as error:
            result = {"error": f"{type(error).__name__}: {error}"}
            time.sleep(1)
        print(json.dumps(result), flush=True)


class Attacker:
    def __init__(self, kind, server, folder):
        command = [sys.executable, __file__, kind, server.socket, str(server.port), str(server.metrics[1])]
        self.kind, self.output = kind, folder / f"{kind}.out"
        with self.output.open("w") as output, (folder / f"{kind}.errors").open("w") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)

    def results(self):
        return [json.loads(line) for line in self.output.read_text().splitlines()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Watch:
    """The course of the soak: reloads, moods of the sick device, memory."""

    def __init__(self, lab, server, sick, configure_with):
        self.lab, self.server, self.sick, self.configure_with = lab, server, sick, configure_with
        self.memory = []
        self.random = random.Random(4)

    def run(self, seconds):
        begin = time.monotonic()
        for tick in itertools.count():
            passed = time.monotonic() - begin
            if passed >= seconds:
                break
            if not self.server.runs():
                raise RuntimeError(f"the server ended: {self.server.last_said()}")
            self.memory.append(self.server.memory() / MIB)
            if self.memory[-1] > MOST_MEMORY:
                raise RuntimeError(f"the server has {self.memory[-1]:,.0f} MiB after {passed:.0f} s: it is ended")
            if tick % 60 == 30:
                self.sick.tell("hang")
            if tick % 60 == 30 + HANGS:
                self.sick.tell("go")
            if tick % 3 == 0:
                coming = reload_storms.COMING
                self.configure_with(self.random.sample(coming, self.random.randrange(len(coming) + 1)))
                self.server.send(signal.SIGHUP)
            if tick % 300 == 299:
                self.lab.note(f"minute {passed / 60:.0f}: {self.memory[-1]:,.0f} MiB, {self.server.threads()} threads")
            time.sleep(max(0.0, tick + 1 - (time.monotonic() - begin)))
        self.sick.tell("go")


def wrong_on_disk(path, versions):
    """Blocks of the file that are not as the bystander left them; those in doubt may be either."""
    wrong = 0
    with path.open("rb") as file:
        for block, version in versions:
            file.seek(block * BLOCK)
            wrong += version is not None and file.read(BLOCK) != content(block, version)
    return wrong


def report_memory(lab, memory):
    quarter = len(memory) // 4
    second, last = statistics.median(memory[quarter : 2 * quarter]), statistics.median(memory[3 * quarter :])
    lab.row("RSS: peak", max(memory), "MiB", at_most=most_memory(CACHE))
    lab.row("RSS: median of the last quarter", last, "MiB", {"of the second": second}, at_most=second * 1.05 + 16)


def attack(lab):
    if not lab.has_fuse():
        return
    calm, cold = lab.volume("calm", CALM, filled=CALM), lab.volume("cold", GIB, filled=GIB)
    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(Device(lab.folder, "slow", 64 * MIB, flush=0.01))
        sick = stack.enter_context(Device(lab.folder, "sick", 64 * MIB))
        paths = {"calm": calm, "cold": cold, "slow": slow.path, "sick": sick.path}
        paths |= {"large": lab.volume("large", 8 * GIB), "small": lab.volume("small", torn_sectors.SIZE)}
        paths |= {name: lab.volume(name) for name in ["stays", *reload_storms.COMING]}
        always = ["calm", "cold", "slow", "sick", "large", "small", "stays"]
        file = lab.folder / "serve.toml"

        def configure_with(names):
            configure(file, [{"name": name, "path": paths[name]} for name in [*always, *names]], cache=CACHE)

        configure_with([])
        options = lab.options(device_timeout=DEVICE_TIMEOUT, stop_timeout=f"{MOST_STOP // 2}s")
        server = stack.enter_context(lab.forebay("--config", file, "--dirty-age", "2s", *options, tcp=True))
        stack.callback(sick.process.kill)
        half = CALM // 2
        paced = {"think": 0.005, "timeout": 60, "version": 1}
        bystanders = {
            "reads pages that are hot": Bystander(server.socket, "calm", length=half, **paced),
            "reads them over TCP": Bystander(("127.0.0.1", server.port), "calm", length=half, **paced),
            "reads pages that are cold": Bystander(server.socket, "cold", length=GIB, **paced),
            "writes": Bystander(server.socket, "calm", offset=half, length=half, writes=0.4, **paced),
        }
        plain = Bystander(str(lab.volume("plain", CALM, filled=CALM)), None, length=CALM, **paced)
        for bystander in [plain, *bystanders.values()]:
            stack.enter_context(bystander)
        time.sleep(2)
        watch = Watch(lab, server, sick, configure_with)
        with contextlib.ExitStack() as attacking:
            attackers = [attacking.enter_context(Attacker(kind, server, lab.folder)) for kind in ATTACKERS]
            watch.run(lab.minutes * 60)
            figures = {who: bystander.figures() for who, bystander in bystanders.items()}
            disk = plain.figures()
        versions = bystanders["writes"].versions()
        for bystander in bystanders.values():
            bystander.__exit__()

        report_memory(lab, watch.memory)
        lab.bystander("a plain read of the same disk", disk, at_most=None)
        for who, met in figures.items():
            lab.bystander(f"a bystander who {who}", met)
        for attacker in attackers:
            results = attacker.results()
            rounds = {"rounds": len(results), "broken off": sum("error" in result for result in results)}
            what = {"tearer": "torn sectors", "comer": "wrong blocks"}.get(attacker.kind)
            found = sum(result.get("found", 0) for result in results)
            lab.row(f"{attacker.kind}: {what or 'rounds'}", found if what else len(results), "", rounds, at_most=0 if what else None)
        lab.row("SIGTERM stops it in", server.stop(MOST_STOP), "s", at_most=MOST_STOP)
        lab.holds("with exit code 0", server.code() == 0, server.last_said())
        lab.row("wrong blocks of the bystander who writes in the file", wrong_on_disk(calm, versions), at_most=0)


if __name__ == "__main__":
    work(*sys.argv[1:])
