"""Policies written in Python."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import deque

import pytest
from conftest import lru_in_python

import forebay
import forebay.testing


LRU = lru_in_python()


class FIFO:
    """The page that came the longest ago goes."""

    def __init__(self, capacity):
        self.pages = deque()

    def hit(self, page):
        pass

    def miss(self, page):
        self.pages.append(page)

    def evict(self, page):
        return self.pages.popleft()

    def remove(self, page):
        self.pages.remove(page)


def test_a_policy_in_python_hits_what_the_built_in_one_hits(sample):
    frame = forebay.compare(sample, ["lru", LRU, "fifo", FIFO], ["1%", "10%"], device="nearline", by_distance=True).to_pandas()
    columns = [column for column in frame.columns if column not in ("policy", "seconds")]
    for ours, theirs in (("LRU", "lru"), ("FIFO", "fifo")):
        one, other = (frame[frame.policy == name][columns].reset_index(drop=True) for name in (ours, theirs))
        assert one.equals(other), ours


class TakesBack(LRU):
    """The same, which keeps the place of a page that may not go."""

    def refused(self, page):
        self.pages[page] = None
        self.pages.move_to_end(page, last=False)


def test_it_takes_part_with_readahead_warmup_and_owners(sample):
    # The simulator refuses victims that a stream has read ahead and not used.
    answer = forebay.compare(sample, ["lru", TakesBack], ["5%"], readahead="linux", warmup="20%", by="owner", behind="lru@50")
    runs = answer.json()[0]["runs"]
    for key in ("counted", "total", "readahead", "by_owner"):
        assert runs[0][key] == runs[1][key] and runs[0][key], key
    assert "TakesBack" in answer.advice or "lru" in answer.advice


def test_curves_have_it_too(sample):
    frame = forebay.curve(sample, ["lru", LRU], points=5).to_pandas()
    assert frame[frame.policy == "LRU"].hits.tolist() == frame[frame.policy == "lru"].hits.tolist()


def test_many_runs_at_once(sample):
    frame = forebay.compare(sample, ["lru", LRU, FIFO], list(range(100, 1100, 200)), threads=4).to_pandas()
    assert frame[frame.policy == "LRU"].hits.tolist() == frame[frame.policy == "lru"].hits.tolist()


def test_a_factory_is_a_policy_by_its_name(sample):
    def mine(capacity):
        assert capacity == 100
        return LRU(capacity)

    assert forebay.compare(sample, [mine], 100).to_pandas().policy.tolist() == ["mine"]


@pytest.mark.parametrize(
    ("methods", "raises", "words"),
    [
        ({"evict": lambda self, page: 10**9}, forebay.PolicyError, "Broken.evict() returned page 1000000000, which is not resident"),
        ({"evict": lambda self, page: page}, forebay.PolicyError, "which is not resident"),
        ({"evict": lambda self, page: None}, forebay.PolicyError, "Broken.evict() returned None, which is no page"),
        ({"evict": lambda self, page: -1}, forebay.PolicyError, "Broken.evict() returned -1, which is no page"),
        ({"evict": lambda self, page: 1 / 0}, ZeroDivisionError, "division by zero"),
        ({"hit": lambda self, page: {}[page]}, KeyError, ""),
        ({"miss": lambda self: None}, TypeError, "positional argument"),
        ({"__init__": lambda self: None}, TypeError, "positional argument"),
        ({"evict": None}, TypeError, "Broken has no method `evict`: a policy has hit(page), miss(page)"),
    ],
)
def test_what_goes_wrong_in_it_is_raised(sample, methods, raises, words):
    broken = type("Broken", (LRU,), methods)
    with pytest.raises(raises) as raised:
        forebay.compare(sample, ["lru", broken], [100, 200])
    assert words in str(raised.value)
    # Nothing is broken by it.
    assert len(forebay.compare(sample, [LRU], 100)) == 1


def test_what_it_raises_ends_the_runs_beside_it():
    class Broken(LRU):
        def miss(self, page):
            raise OverflowError("at once")

    trace = forebay.Trace.synthetic("zipf:pages=100k,references=10M")
    len(trace)
    start = time.monotonic()
    forebay.compare(trace, "lru", 1000, threads=1)
    one = time.monotonic() - start
    start = time.monotonic()
    with pytest.raises(OverflowError, match="at once"):
        forebay.compare(trace, [Broken, "mq", "lirs", "lrfu", "lru-k", "arc", "dulo", "ubm"], ["5%", "10%", "20%", "50%"], threads=1)
    # All 28 runs would take many times as long as one of LRU with its reading.
    assert time.monotonic() - start < 4 * one + 5


def test_what_is_no_policy_is_refused(sample):
    with pytest.raises(TypeError, match="a policy is a name or a class"):
        forebay.compare(sample, [7], 100)
    with pytest.raises(ValueError, match="there are two policies called LRU"):
        forebay.compare(sample, [LRU, type("LRU", (LRU,), {})], 100)
    with pytest.raises(ValueError, match="LRU is written in Python, which compare and curve take alone"):
        forebay.analyze(sample, [LRU])


def test_a_policy_may_ask_questions_itself(sample):
    class Asks(LRU):
        def __init__(self, capacity):
            super().__init__(capacity)
            self.hits = forebay.compare("sample", "lru", capacity).to_arrow().column("hits")[0].as_py()

    assert len(forebay.compare(sample, [Asks, "lru"], [100])) == 2


def test_ctrl_c_stops_it_too():
    program = """
import sys, time, forebay
sys.path.insert(0, "tests")
from test_policy import LRU
class Tells(LRU):
    evictions = 0
    def evict(self, page):
        # The trace is read, and being replayed.
        self.evictions += 1
        if self.evictions == 100:
            print("ready", flush=True)
        return super().evict(page)
try:
    forebay.compare(forebay.Trace.synthetic("zipf:pages=100k,references=5M"), [Tells], "1%")
except KeyboardInterrupt:
    print(f"stopped {time.time()!r}", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n", child.stderr.read()
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        asked = time.time()
        out, error = child.communicate(timeout=60)
    assert out.startswith("stopped "), (out, error)
    assert float(out.split()[1]) - asked < 0.3


# ---- forebay.testing


def test_good_policies_keep_the_contract():
    for policy in (LRU, FIFO, TakesBack):
        forebay.testing.check(policy)


class Forgetful(LRU):
    """Removed pages stay in its list."""

    def remove(self, page):
        pass


class Once(LRU):
    """A page is admitted once."""

    def __init__(self, capacity):
        super().__init__(capacity)
        self.seen = set()

    def miss(self, page):
        if page not in self.seen:
            super().miss(page)
        self.seen.add(page)


class Random(LRU):
    def evict(self, page):
        import random

        page = random.choice(list(self.pages))
        del self.pages[page]
        return page


class Fails(LRU):
    def hit(self, page):
        raise OverflowError("too much")


class Incoming(LRU):
    def evict(self, page):
        return page if page is not None and len(self.pages) > 4 else super().evict(page)


@pytest.mark.parametrize(
    ("policy", "words", "most"),
    [
        (Forgetful, "not resident", 5),
        (Once, "KeyError", 5),
        (Random, "the same steps gave other victims the second time", 8),
        (Fails, "OverflowError: too much", 2),
        (Incoming, "which is not resident", 12),
    ],
)
def test_bad_policies_are_found_with_few_steps(policy, words, most):
    with pytest.raises(AssertionError) as raised:
        forebay.testing.check(policy)
    message = str(raised.value)
    assert message.startswith(f"{policy.__name__}(") and "breaks the contract" in message and words in message
    steps = message.split("after these steps:\n")[1].splitlines()
    assert 1 <= len(steps) <= most, message


def test_what_is_no_policy_cannot_be_checked():
    with pytest.raises(TypeError, match="has no method `hit`"):
        forebay.testing.check(lambda capacity: object())
    with pytest.raises(ValueError, match="a policy written in Python is checked"):
        forebay.testing.check("lru")
