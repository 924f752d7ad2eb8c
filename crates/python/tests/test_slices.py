"""Curves from slices of a trace."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from conftest import start

import forebay

POLICIES = ["lru", "arc", "clock-pro"]
SIZES = ["1%", "5%", "20%", "50%", 3000]


@pytest.fixture(scope="module")
def whole() -> forebay.Trace:
    """Of a file without a name, which samples of one machine tell from others by its number."""
    offsets = forebay.Trace.synthetic("zipf:pages=40k,references=600k,seed=3").to_arrow().column("offset")
    return forebay.Trace.from_arrow(pa.table({"offset": offsets}), unit="pages")


@pytest.fixture(scope="module")
def parts(whole, tmp_path_factory) -> list[str]:
    """The same in five files."""
    folder, table = tmp_path_factory.mktemp("parts"), whole.to_arrow()
    cuts = [0, 100_000, 100_001, 350_000, 500_000, len(table)]
    for number, (first, last) in enumerate(zip(cuts, cuts[1:])):
        forebay.Trace.from_arrow(table[first:last]).write(folder / f"{number}.parquet")
    return sorted(str(path) for path in folder.iterdir())


def columns(answer, *names: str) -> list[dict]:
    return answer.to_arrow().select(list(names)).to_pylist()


def test_one_slice_is_the_sample_of_one_machine(whole, parts):
    at = ("policy", "pages", "references", "misses", "miss_ratio")
    for given in (whole, parts):
        sliced = forebay.sliced_curve(given, POLICIES, SIZES, sample="25%", slices=1)
        assert columns(sliced, *at) == columns(forebay.curve(whole, POLICIES, sizes=SIZES, sample="25%"), *at)
        assert sliced.to_arrow().column("standard_error").null_count == len(sliced) == len(POLICIES) * len(SIZES)
    assert sliced.columns["standard_error"][0] == "ratio" and "from 1 slices of 25.000%" in repr(sliced)


def test_slices_on_workers_are_those_of_one_process(client, whole, parts):
    here = forebay.sliced_curve(parts, POLICIES, SIZES, sample="40%", slices=8, threads=2)
    assert here.to_arrow().equals(forebay.sliced_curve(parts, POLICIES, SIZES, sample=0.4, slices=8, client=client).to_arrow())
    one = forebay.sliced_curve(whole, POLICIES, SIZES, sample="40%", slices=8, client=client.scheduler.address, name=parts[0])
    assert here.to_arrow().equals(one.to_arrow())
    exact = forebay.curve(whole, POLICIES, sizes=[row["pages"] for row in columns(here, "pages")]).to_pandas()
    found = here.to_pandas().merge(exact, on=["policy", "pages"])
    off = (found.miss_ratio_x - found.miss_ratio_y).abs()
    # Miniatures of a few pages are farther off.
    assert off.max() < 0.03 and off[found.pages > 1000].max() < 0.01, found
    assert (found.standard_error > 0).all() and (found.standard_error < 0.03).all() and (found.references_x == 600_000).all()
    assert abs(here.pages / whole.info()["pages"] - 1) < 0.05


def test_a_page_is_in_one_slice_whatever_part_names_its_file_first(tmp_path):
    rng = np.random.default_rng(5)
    table = pa.table({"offset": rng.integers(0, 3000, 60_000) ** 2 % 4001 * 4096, "object": rng.choice(["a", "b", "c"], 60_000)})
    trace = forebay.Trace.from_arrow(table, page_size=4096)
    one = forebay.sliced_curve(trace, "lru", [500, 2000], sample="100%", slices=2, name="t")
    # In the second part another file is named first.
    parts = [forebay.Trace.from_arrow(table[first : first + 20_000], page_size=4096) for first in (0, 20_000, 40_000)]
    assert columns(forebay.sliced_curve(parts, "lru", [500, 2000], sample="100%", slices=2, name="t"), "misses", "miss_ratio") == columns(
        one, "misses", "miss_ratio"
    )
    exact = forebay.curve(trace, "lru", sizes=[500, 2000]).to_pandas().miss_ratio
    assert (one.to_pandas().miss_ratio - exact).abs().max() < 0.02


def test_a_lost_worker_is_made_up_for(parts):
    expected = forebay.sliced_curve(parts, "lru", SIZES, sample="50%", slices=4)
    cluster, client = start(3)
    try:
        [first, *_] = sorted(client.run(os.getpid).values())

        def kill() -> None:
            # When some results lie on workers.
            until = time.monotonic() + 60
            while time.monotonic() < until and not any(client.has_what().values()):
                time.sleep(0.01)
            os.kill(first, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        found = forebay.sliced_curve(parts, "lru", SIZES, sample="50%", slices=4, client=client)
        killer.join(90)
        assert not killer.is_alive(), "a worker was to be killed within a minute"
        assert found.to_arrow().equals(expected.to_arrow())
    finally:
        client.close()
        cluster.close(timeout=30)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda part: forebay.sliced_curve([], "lru"), ValueError, "name a part"),
        (lambda part: forebay.sliced_curve(part, "lru2"), ValueError, "there is no policy"),
        (lambda part: forebay.sliced_curve(part, "lru", sample="2"), ValueError, "no sampling rate"),
        (lambda part: forebay.sliced_curve(part, "lru", "1x"), ValueError, "is no size"),
        (lambda part: forebay.sliced_curve(part, "lru", slices=0), ValueError, "slices=0"),
        (lambda part: forebay.sliced_curve(part, "lru", sample="0.01%", slices=500), ValueError, "a slice has no page"),
        (lambda part: forebay.sliced_curve(part, "lru", 1, sample="50%", slices=4), ValueError, "not one page is left"),
        (lambda part: forebay.sliced_curve("none.parquet"), forebay.TraceError, "none.parquet"),
        (
            lambda part: forebay.sliced_curve([part, forebay.Trace.from_numpy(np.arange(9), page_size=4096)]),
            ValueError,
            "has pages of 8192 bytes, and numpy of 4096: say page_size",
        ),
        (lambda part: forebay.sliced_curve(part, client=7), ValueError, "client=7"),
    ],
)
def test_what_makes_no_sense_is_said(parts, ask, error, words):
    with pytest.raises(error, match=words):
        ask(parts[0])


def test_small_slices_are_warned_of(parts):
    with pytest.warns(UserWarning, match="a slice has [0-9]+ pages only"):
        assert len(forebay.sliced_curve(parts, sample="2%", slices=4)) > 10
