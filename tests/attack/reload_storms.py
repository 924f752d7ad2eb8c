"""SIGHUP again and again while volumes come and go and clients work; reloads that fail half-way, and a server beside its successor."""

import contextlib
import random
import signal
import threading
import time

from shared import wire
from shared.bystander import BLOCK, Bystander, content
from shared.device import Device
from shared.servers import Failed, configure, sparse, wait_until
from shared.wire import MIB

QUICK, FULL = 150, 900

COMING = [f"coming-{number}" for number in range(4)]
SIZE = 64 * MIB


class Configured:
    """A server with a configuration file, and paths of volumes by name."""

    def __init__(self, lab, stack, names, paths=None, *options, name="ours"):
        self.folder, self.paths = lab.folder, paths or {}
        self.file = lab.folder / f"{name}.toml"
        self.write(names)
        self.server = stack.enter_context(lab.forebay("--config", self.file, *options, name=name))
        self.reloads = 0

    def path(self, name):
        if name not in self.paths:
            self.paths[name] = sparse(self.folder / f"volume-{len(self.paths)}.img", SIZE)
        return self.paths[name]

    def write(self, names, cache="64MiB"):
        configure(self.file, [{"name": name, "path": self.path(name)} for name in names], cache=cache)

    def reload(self, names, seconds=10, **options):
        """The configuration read again: the seconds that took, or None."""
        self.write(names, **options)
        before = self.server.said().count("was read again")
        self.server.send(signal.SIGHUP)
        return wait_until(lambda: self.server.said().count("was read again") > before, seconds)

    def in_force(self, names, seconds):
        """Reloads until these are the volumes: the seconds that took, or None."""

        def tried():
            self.reload(names)
            return sorted(wire.exports(self.server.socket)) == sorted(names)

        return wait_until(tried, seconds, every=0.5)

    def served(self, name):
        with contextlib.suppress(OSError, wire.Refused), self.server.client(name, timeout=3) as client:
            client.read(0, BLOCK)
            return True
        return False


def come_and_go(server, number, over, wrong):
    """A client of whatever of the coming volumes is there: it writes blocks of its own and reads them again, and at times stays long."""
    chosen = random.Random(number)
    versions = {}
    while not over.is_set():
        name = chosen.choice(COMING)
        with contextlib.suppress(OSError, wire.Refused), server.client(name, timeout=20) as client:
            for count in range(chosen.choice([3, 300])):
                block = number * 1000 + chosen.randrange(1000)
                known = versions.get((name, block))
                if known is not None and bytes(client.read(block * BLOCK, BLOCK)) != content(block, known):
                    wrong.append((name, block))
                versions[name, block] = None
                client.write(block * BLOCK, content(block, count + 1))
                versions[name, block] = count + 1
        time.sleep(0.01)


def storm(lab):
    count = 1000 if lab.full else 100
    chosen = random.Random(12)
    over, wrong, longest = threading.Event(), [], 0
    with contextlib.ExitStack() as stack:
        configured = Configured(lab, stack, ["stays", *COMING])
        server = configured.server
        bystander = stack.enter_context(Bystander(server.socket, "stays", length=16 * MIB, writes=0.3))
        clients = [threading.Thread(target=come_and_go, args=[server, number, over, wrong]) for number in range(6)]
        for client in clients:
            client.start()
        time.sleep(0.5)
        before = {"MiB": server.memory() / MIB, "threads": server.threads(), "descriptors": server.descriptors()}
        for _ in range(count):
            seconds = configured.reload(["stays", *chosen.sample(COMING, chosen.randrange(len(COMING) + 1))])
            if seconds is None:
                lab.holds("a reload ends within 10 s", False)
                break
            longest = max(longest, seconds)
            time.sleep(0.02)
        # Rightly so where a client of a removed volume has stayed.
        lab.row(f"of {count} reloads not in force as a whole", server.said().count("not all of it is in force"))
        lab.row("the longest reload", longest * 1000, "ms")
        over.set()
        for client in clients:
            client.join()
        found = configured.in_force(["stays", *COMING], 20)
        lab.row("once the clients have left all volumes are served in", found, "s", at_most=1)
        lab.row("wrong blocks read from volumes that come and go", len(wrong), at_most=0)
        lab.bystander("a bystander on a volume that stays", bystander.figures())
        lab.row("memory then", server.memory() / MIB, "MiB", {"before": before["MiB"]})
        lab.row("threads then", server.threads(), "", {"before": before["threads"]})
        lab.row("descriptors then", server.descriptors(), "", {"before": before["descriptors"]})
        lab.row("the server stops in", server.stop(), "s", at_most=30)
        lab.holds("with exit code 0", server.code() == 0, server.last_said())


def removed_and_added(lab):
    with contextlib.ExitStack() as stack:
        configured = Configured(lab, stack, ["a", "b"])
        with configured.server.client("b") as client:
            # Work for the threads of the volume, which then idle.
            for offset in range(0, 16 * MIB, MIB):
                client.send(wire.READ, offset, MIB)
            for _ in range(16):
                client.reply(MIB)
        time.sleep(0.2)
        configured.reload(["a"])
        lab.row("a volume removed and added again is served in", configured.in_force(["a", "b"], 20), "s", at_most=1)
        lab.holds("and read", configured.served("b"))


def failed_half_way(lab):
    with contextlib.ExitStack() as stack:
        configured = Configured(lab, stack, ["a", "b"])
        with configured.server.client("a") as client:
            client.write(0, content(1, 1))
        long = "x" * 5000
        configured.reload(["b", "c", long])
        seconds = configured.in_force(["a", "b", "c"], 10)
        lab.row("after a reload that failed half-way the next one is in force in", seconds, "s", at_most=1)
        if seconds is None:
            lab.note(configured.server.last_said())
        else:
            with configured.server.client("a") as client:
                lab.holds("and what was written before is there", bytes(client.read(0, BLOCK)) == content(1, 1))


def grown(lab):
    with contextlib.ExitStack() as stack:
        configured = Configured(lab, stack, ["a"])
        with open(configured.path("a"), "r+b") as file:
            file.truncate(2 * SIZE)
        configured.reload(["a"])
        with configured.server.client("a") as client:
            lab.holds("a file that has grown is noticed at a reload", client.size == 2 * SIZE, f"its size is {client.size}")


def shrunk_onto_a_hung_device(lab):
    if not lab.has_fuse():
        return
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(Device(lab.folder, "sick", SIZE))
        configured = Configured(lab, stack, ["well", "sick"], {"sick": device.path}, "--dirty-age", "1s")
        stack.callback(device.process.kill)
        with configured.server.client("sick") as client:
            client.write(0, bytes(16 * MIB))
        device.tell("hang")
        time.sleep(1.5)
        seconds = configured.reload(["well", "sick"], cache="4MiB")
        lab.row("a reload that shrinks the cache onto a hung device takes", seconds, "s", at_most=9.9)
        lab.holds("after it the figures are told", configured.server.figures_answer(3))
        lab.holds("and a healthy volume is served", configured.served("well"))


def successor(lab):
    """A server that takes long to stop, and one that is started on the same socket meanwhile."""
    if not lab.has_fuse():
        return
    with contextlib.ExitStack() as stack:
        device = stack.enter_context(Device(lab.folder, "slow", SIZE, rate=4 * MIB))
        old = stack.enter_context(lab.forebay(volumes=[f"old={device.path}"]))
        with old.client("old") as client:
            client.write(0, bytes(16 * MIB))
        old.send(signal.SIGTERM)
        begin = time.monotonic()
        new = None
        while new is None and time.monotonic() - begin < 20:
            with contextlib.suppress(Failed, OSError):
                new = stack.enter_context(lab.forebay(volumes=[f"new={lab.volume('new')}"]))
        beside = {"the old one runs": str(old.runs())}
        lab.row("a successor on the socket of a server that stops starts in", time.monotonic() - begin, "s", beside)
        old.ends(20)
        try:
            new.client("new", timeout=3).close()
            lab.holds("its socket is there when the old one has ended", True)
        except (OSError, AttributeError) as error:
            lab.holds("its socket is there when the old one has ended", False, str(error))


def attack(lab):
    removed_and_added(lab)
    failed_half_way(lab)
    grown(lab)
    shrunk_onto_a_hung_device(lab)
    successor(lab)
    storm(lab)
