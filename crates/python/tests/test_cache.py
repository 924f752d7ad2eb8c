"""Caches by the step, and functions whose results are cached."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import random
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import forebay

ON_LINE = [policy.name for policy in forebay.policies() if not policy.off_line]
#: They look at places, which a cache of keys has not; or they start otherwise where they know how many pages there will be.
PLACES = {"seq", "ubm", "dulo", "lru-sp"}
#: It estimates uses by the keys' hashes, which are others for texts.
BY_HASH = {"w-tinylfu"}


def zipf(references: int, pages: int, seed: int = 3) -> list[int]:
    return (np.random.default_rng(seed).zipf(1.2, references) % pages).tolist()


@pytest.mark.parametrize("policy", [name for name in ON_LINE if name not in PLACES | BY_HASH])
def test_a_cache_hits_what_the_simulator_hits(policy):
    keys = zipf(30_000, 3000)
    cache = forebay.Cache(policy, 200)
    hits = sum(map(cache.access, (f"key {key}" for key in keys)))
    [row] = forebay.compare(forebay.Trace.from_keys(keys), policy, 200).to_arrow().to_pylist()
    assert (hits, cache.hits, cache.misses) == (row["hits"], row["hits"], row["misses"])
    assert len(cache) == 200 and cache.ghosts >= 0


@pytest.mark.parametrize("keys", [zipf(60_000, 3000), [key % 1000 for key in range(30_000)]], ids=["skewed", "loop"])
def test_uses_are_remembered_of_keys_that_were_evicted(keys):
    cache = forebay.Cache("w-tinylfu", 600)
    hits = sum(map(cache.access, keys))
    [row] = forebay.compare(forebay.Trace.from_keys(keys), "w-tinylfu", 600).to_arrow().to_pylist()
    # The sketch of a cache that does not know how many keys there will be is smaller at first.
    assert abs(hits - row["hits"]) <= 0.01 * len(keys)


@pytest.mark.parametrize("policy", ON_LINE)
def test_every_policy_is_stepped_with_removals_and_resizes(policy):
    cache = forebay.Cache(policy, 20)
    chance = random.Random(5)
    for _ in range(4000):
        key = chance.randrange(100)
        was = key in cache
        kind = chance.random()
        if kind < 0.9:
            assert cache.access(key) == was
            assert key in cache
        elif kind < 0.98:
            assert cache.remove(key) == was
            assert not cache.contains(key)
        else:
            capacity = chance.randrange(1, 40)
            cache.resize(capacity)
            assert cache.capacity == capacity
        assert len(cache) <= cache.capacity
    assert all(isinstance(figure, float) for figure in cache.state().values())
    assert len(cache) == sum(key in cache for key in range(100))


def test_a_cache_by_hand():
    cache = forebay.Cache("lru", 2)
    assert [cache.access(key) for key in ["a", "b", "a", "c", "b"]] == [False, False, True, False, False]
    assert ("a" in cache, "b" in cache, "c" in cache) == (False, True, True)
    assert repr(cache) == '<forebay.Cache "lru" of 2 keys, 2 resident>'
    assert (cache.policy, cache.capacity, cache.hits, cache.misses) == ("lru", 2, 1, 4)


def test_equal_keys_are_one_as_in_a_dict():
    cache = forebay.Cache("lru", 10)
    assert [cache.access(key) for key in [1, 1.0, True, np.int64(1)]] == [False, True, True, True]
    assert [cache.access(key) for key in [(1, "x"), (1, "x"), frozenset("ab"), frozenset("ba")]] == [False, True, False, True]
    nan = float("nan")
    assert [cache.access(key) for key in [nan, nan, float("nan")]] == [False, True, False]
    assert [cache.access(key) for key in [10**30, 10**30, "é", "é", b"x", None, None]] == [False, True, False, True, False, False, True]


@pytest.mark.parametrize(
    ("policy", "capacity", "words"),
    [
        ("opt", 10, "opt knows the references to come, which no running cache does"),
        ("lru2", 10, "there is no policy `lru2`"),
        ("lru", 0, "a cache of 0 keys: take 1 to 4294967293"),
        ("lru", -1, "a cache of -1 keys"),
        ("lru", 1 << 40, "a cache of 1099511627776 keys"),
    ],
)
def test_what_no_cache_can_be_is_a_value_error(policy, capacity, words):
    with pytest.raises(ValueError) as raised:
        forebay.Cache(policy, capacity)
    assert words in str(raised.value)


def test_what_is_no_key_is_a_type_error():
    cache = forebay.Cache("lru", 10)
    for use in (cache.access, cache.contains, cache.remove, cache.__contains__):
        with pytest.raises(TypeError, match="unhashable"):
            use([])
    assert len(cache) == 0
    with pytest.raises((TypeError, AttributeError)):
        cache.resize("x")


def test_memory_is_bounded_and_what_is_forgotten_goes():
    class Key:
        pass

    for policy in ("lru", "clock-pro", "arc", "lirs:history=2"):
        cache = forebay.Cache(policy, 50)
        keys = [Key() for _ in range(5000)]
        alive = [weakref.ref(key) for key in keys]
        for key in keys:
            cache.access(key)
        del key, keys
        gc.collect()
        kept = sum(key() is not None for key in alive)
        assert kept == len(cache) + cache.ghosts < 5000, policy
        del cache
        gc.collect()
        assert not any(key() for key in alive)


def test_cycles_through_a_cache_are_collected():
    class Holder:
        def __hash__(self):
            return 1

    holder = Holder()
    holder.cache = forebay.Cache("lru", 5)
    holder.cache.access(holder)
    alive = weakref.ref(holder)
    del holder
    gc.collect()
    assert alive() is None

    class Owner:
        def method(self):
            return self

    owner = Owner()
    owner.cached = forebay.cached(owner.method)
    owner.cached()
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is None


class Hostile:
    """A key whose methods do what the test says."""

    do_hash = staticmethod(lambda key: 7)
    do_equal = staticmethod(lambda key, other: key is other)

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return self.do_hash(self)

    def __eq__(self, other):
        return self.do_equal(self, other)


@pytest.fixture
def hostile(monkeypatch):
    def make(**methods):
        for name, method in methods.items():
            monkeypatch.setattr(Hostile, name, staticmethod(method))
        return Hostile

    return make


def test_what_keys_raise_comes_out_and_changes_nothing(hostile):
    key = hostile()
    cache = forebay.Cache("lru", 3)
    first = key("first")
    cache.access(first)

    def fail(*_):
        raise ZeroDivisionError("hostile")

    hostile(do_equal=fail)
    for use in (cache.access, cache.contains, cache.remove):
        with pytest.raises(ZeroDivisionError):
            use(key("second"))
    assert len(cache) == 1 and cache.contains(first)
    hostile(do_hash=fail)
    with pytest.raises(ZeroDivisionError):
        cache.access(first)
    # What cannot be found any more is evicted all the same.
    for number in range(10):
        cache.access(number)
    assert len(cache) == 3


def test_keys_whose_hash_changes_do_not_fill_the_cache(hostile):
    hashes = iter(range(10**9))
    key = hostile(do_hash=lambda _: next(hashes))
    cache = forebay.Cache("clock-pro", 4)
    keys = [key(number) for number in range(10)]
    for _ in range(100):
        for one in keys:
            cache.access(one)
    assert len(cache) == 4 and cache.ghosts <= 4
    alive = [weakref.ref(one) for one in keys]
    del cache, keys, one
    gc.collect()
    assert not any(one() for one in alive)


def test_a_cache_is_used_from_within_its_keys_methods(hostile):
    cache = forebay.Cache("lru", 3)
    used = 0

    def equal(key, other):
        nonlocal used
        # Each tenth comparison changes the cache; the search then begins anew.
        used += 1
        if used % 10 == 0:
            cache.access(f"within {used}")
            cache.contains(key)
            cache.remove(f"within {used - 10}")
            cache.resize(3)
        return key is other

    key = hostile(do_equal=equal)
    for number in range(50):
        cache.access(key(number))
        assert len(cache) <= 3
    assert used > 50


def test_comparisons_that_change_the_cache_each_time_end(hostile):
    cache = forebay.Cache("lru", 3)
    numbers = iter(range(10**9))

    def equal(key, other):
        cache.access(next(numbers))
        return False

    key = hostile(do_equal=equal)
    first = key(0)
    cache.access(first)
    hostile(do_equal=lambda key, other: (cache.access(first), cache.access(next(numbers)))[0])
    with pytest.raises((RuntimeError, RecursionError)):
        for number in range(5):
            cache.access(key(number))
            cache.access(first)
    assert len(cache) <= 3


def test_keys_that_vanish_while_they_are_compared(hostile):
    cache = forebay.Cache("fifo", 2)

    within = False
    compared = 0

    def equal(key, other):
        nonlocal within, compared
        if not within and compared < 10:
            within = True
            compared += 1
            cache.remove(1)
            cache.access(2)
            cache.access(3)
            gc.collect()
            within = False
        return True

    key = hostile(do_equal=equal, do_hash=lambda _: 1)
    for number in range(50):
        cache.access(key(number))
        cache.access(1)
    assert len(cache) <= 2 and compared == 10


def test_objects_that_use_the_cache_when_they_go(hostile):
    caches = [forebay.Cache("lru", 2)]
    gone = []

    class Going:
        def __del__(self):
            gone.append(len(caches[0]))
            caches[0].access("from del")

    for _ in range(20):
        caches[0].access(Going())
    assert len(gone) >= 18
    made = forebay.cached(lambda number: Going(), maxsize=2)
    for number in range(20):
        made(number)
    made.cache_clear()
    gc.collect()
    assert len(gone) >= 38


def test_many_threads_use_one_cache():
    class Key:
        """Compared in Python, so that threads change in the midst of it."""

        def __init__(self, number):
            self.number = number

        def __hash__(self):
            return self.number % 13

        def __eq__(self, other):
            return isinstance(other, Key) and self.number == other.number

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        cache = forebay.Cache("arc", 30)
        failed = []

        def use(seed):
            chance = random.Random(seed)
            try:
                for _ in range(2000):
                    key = Key(chance.randrange(60))
                    cache.access(key)
                    if chance.random() < 0.1:
                        cache.remove(key)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=use, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive(), "a thread waits for the cache for a minute"
    finally:
        sys.setswitchinterval(before)
    assert not failed
    assert len(cache) <= 30 and cache.hits + cache.misses == 8000
    assert len(cache) == sum(Key(number) in cache for number in range(60))


# ---- cached


@pytest.mark.parametrize("policy", ON_LINE)
def test_results_are_those_of_the_function_under_every_policy(policy):
    called = []

    @forebay.cached(policy=policy, maxsize=50)
    def square(number):
        called.append(number)
        return number * number

    keys = zipf(3000, 200)
    assert [square(key) for key in keys] == [key * key for key in keys]
    info = square.cache_info()
    assert info.hits + info.misses == 3000 and info.misses == len(called) and info.currsize <= 50 == info.maxsize


def test_cached_lru_is_as_functools_lru_cache():
    def function(*args, **kwargs):
        return args, kwargs

    for typed in (False, True):
        ours = forebay.cached(policy="lru", maxsize=5, typed=typed)(function)
        theirs = functools.lru_cache(maxsize=5, typed=typed)(function)
        chance = random.Random(11)
        values = [1, 1.0, True, "1", (1,), None, 2, 3, 4]
        for _ in range(3000):
            args = tuple(chance.choice(values) for _ in range(chance.randrange(3)))
            kwargs = {name: chance.choice(values) for name in ("x", "y") if chance.random() < 0.3}
            assert ours(*args, **kwargs) == theirs(*args, **kwargs)
            assert tuple(ours.cache_info()) == tuple(theirs.cache_info())
        ours.cache_clear()
        assert tuple(ours.cache_info()) == (0, 0, 5, 0)
    assert ours.cache_parameters() == {"policy": "lru", "maxsize": 5, "typed": True}


@forebay.cached
def by_name(number: int) -> int:
    """Its text."""
    return number + 1


def test_a_cached_function_looks_like_the_function():
    assert (by_name.__name__, by_name.__doc__, by_name.__module__) == ("by_name", "Its text.", __name__)
    assert by_name.__wrapped__(1) == by_name(1) == 2
    assert by_name.cache_parameters() == {"policy": "clock-pro", "maxsize": 128, "typed": False}
    assert pickle.loads(pickle.dumps(by_name)) is by_name
    assert copy.copy(by_name) is copy.deepcopy(by_name) is by_name
    assert weakref.ref(by_name)() is by_name


def test_methods_are_cached_by_their_object():
    class Owner:
        def __init__(self, factor):
            self.factor = factor

        @forebay.cached(maxsize=10)
        def times(self, number):
            return self.factor * number

    one, two = Owner(2), Owner(3)
    assert [one.times(5), two.times(5), one.times(5)] == [10, 15, 10]
    assert Owner.times.cache_info().hits == 1
    assert Owner.times(one, 5) == 10


def test_exceptions_are_not_cached_and_arguments_must_be_hashable():
    called = []

    @forebay.cached(maxsize=10)
    def fail(number):
        called.append(number)
        raise KeyError(number)

    for _ in range(3):
        with pytest.raises(KeyError):
            fail(1)
    assert len(called) == 3 and fail.cache_info() == (0, 3, 10, 0)
    with pytest.raises(TypeError, match="unhashable"):
        fail([])
    assert len(called) == 3


def test_sizes_of_none_and_nothing():
    every = forebay.cached(maxsize=None)(lambda number: number)
    for number in [*range(1000), *range(1000)]:
        every(number)
    assert every.cache_info() == (1000, 1000, None, 1000)
    none = forebay.cached(maxsize=0)(lambda number: number)
    assert [none(1), none(1)] == [1, 1] and none.cache_info() == (0, 2, 0, 0)
    assert forebay.cached(maxsize=-3)(lambda: 0).cache_info().maxsize == 0
    for wrong in ({"policy": "opt"}, {"policy": "moon"}, {"maxsize": 1 << 40}):
        with pytest.raises(ValueError):
            forebay.cached(**wrong)(lambda: 0)
    with pytest.raises(TypeError, match="cached is for functions"):
        forebay.cached(128)


def test_a_function_that_calls_itself():
    @forebay.cached(policy="arc", maxsize=200)
    def fibonacci(number):
        return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

    assert fibonacci(100) == 354224848179261915075
    assert fibonacci.cache_info().misses == 101

    @forebay.cached(maxsize=3)
    def clears(number):
        clears.cache_clear()
        return number

    assert [clears(1), clears(1), clears(2)] == [1, 1, 2]


def test_the_first_result_stays_when_two_threads_ask():
    entered, go = threading.Barrier(3), threading.Event()

    @forebay.cached(maxsize=10)
    def slow(number):
        entered.wait(timeout=30)
        assert go.wait(timeout=30), "nobody let the function go on"
        return object()

    results = []
    threads = [threading.Thread(target=lambda: results.append(slow(1))) for _ in range(2)]
    for thread in threads:
        thread.start()
    entered.wait(timeout=30)
    go.set()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive(), "a thread waits for the other's result"
    assert len(results) == 2 and slow(1) in results and slow.cache_info() == (1, 2, 10, 1)


def test_the_interpreter_ends_with_caches_in_it():
    program = """
import forebay
class Key:
    def __init__(self, n): self.n = n
    def __hash__(self): return self.n
    def __eq__(self, other): return self.n == other.n
    def __del__(self): cache.access(1)
cache = forebay.Cache("lirs", 100)
for n in range(1000): cache.access(Key(n))
f = forebay.cached(lambda k: k)
for n in range(1000): f(Key(n))
print("end")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_caches_are_neither_pickled_nor_copied():
    cache = forebay.Cache("arc", 10)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a Cache cannot be pickled or copied"):
            act(cache)
