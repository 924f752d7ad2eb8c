"""Sweeps: the rows of one machine's compare, whatever happens to the workers."""

from __future__ import annotations

import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay
from conftest import lru_in_python, start
from forebay import _forebay, _pieces, _sweep

POLICIES = ["lru", "arc", "clock-pro", "opt"]
SIZES = ["1%", 200, "10%", "1MiB", "50%"]
#: What differs from run to run.
TIMES = ("seconds",)


def rows(answer) -> list[dict]:
    return answer.to_arrow().drop_columns(list(TIMES)).to_pylist()


@pytest.fixture(scope="module")
def files(tmp_path_factory, sample) -> list[str]:
    folder = tmp_path_factory.mktemp("traces")
    for number in range(3):
        forebay.Trace.synthetic(f"zipf:pages={2000 + 500 * number},references=30000,seed={number}").write(folder / f"{number}.parquet")
    sample.only(end=2).write(folder / "part.parquet")
    return sorted(str(path) for path in folder.iterdir())


@pytest.fixture(scope="module")
def expected(files) -> list[dict]:
    return rows(forebay.compare(files, POLICIES, SIZES))


def reads(client) -> int:
    return sum(client.run(lambda: _pieces.SHELF.reads).values())


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(_pieces, "SHELF", _pieces.Shelf())


def test_without_a_client_it_has_the_rows_of_compare(files, expected):
    answer = forebay.sweep(files, POLICIES, SIZES)
    assert rows(answer) == expected
    assert (answer.replayed, answer.kept) == (len(files) * len(POLICIES) * len(SIZES), 0)
    assert _pieces.SHELF.reads == len(files)
    assert answer.columns == forebay.compare("sample", "lru", 10).columns
    assert answer.to_pandas()["hits"].tolist() == answer.to_polars()["hits"].to_list() == [row["hits"] for row in expected]
    assert pa.table(answer).num_rows == len(answer) and "80 runs made" in repr(answer)


@pytest.mark.parametrize(
    "asked",
    [
        {"device": "nearline", "readahead": "linux", "warmup": "20%", "by_distance": True, "think_us": 3.0},
        {"behind": "lru@100", "page_size": "16KiB"},
        {"device": "nearline", "warmup": 1000},
    ],
)
def test_options_are_those_of_compare(files, asked):
    of = {"policies": ["lru", "clock-pro", "dulo"], "sizes": ["5%", "20%", 300], **asked}
    assert rows(forebay.sweep(files[3], **of)) == rows(forebay.compare(files[3], **of))


def test_workers_have_the_rows_of_compare(client, files, expected):
    before = reads(client)
    answer = forebay.sweep(files, POLICIES, SIZES, client=client)
    assert rows(answer) == expected
    # A piece may go to a worker that is idle: at most, each worker reads each trace once.
    assert len(files) <= reads(client) - before <= 3 * len(files)
    again = reads(client)
    assert rows(forebay.sweep(files, POLICIES, SIZES, client=client.scheduler.address)) == expected
    assert reads(client) - again <= 3 * len(files) - (again - before), "a worker that holds a trace does not read it again"


def test_traces_come_from_memory_bags_and_delayed(client, files, sample):
    import dask
    import dask.bag

    keys = np.arange(5000) ** 2 % 997
    made = forebay.Trace.from_numpy(keys, name="keys")
    traces = [made, dask.bag.from_sequence(files[:2], npartitions=2), dask.delayed(np.asarray)(keys), dask.delayed(lambda: ("t", keys))()]
    expected = rows(forebay.compare([made, *files[:2], made, made], POLICIES, [40, "10%"]))
    names = ["keys", *files[:2], "traces[2].0[0]", "t"]
    for row, name in zip(expected, np.repeat(names, len(POLICIES) * 2)):
        row["trace"] = str(name)
    for where in (client, None):
        answer = forebay.sweep(traces, POLICIES, [40, "10%"], client=where)
        assert rows(answer) == expected
        # The keys are there three times, and computed once.
        assert answer.replayed == 3 * len(POLICIES) * 2
    bag = dask.bag.from_sequence([keys, files[0]], npartitions=1)
    assert rows(forebay.sweep(bag, "lru", 40, client=client))[0]["hits"] == expected[0]["hits"]
    again = pickle.loads(pickle.dumps(sample.only(end=1)))
    assert rows(forebay.compare(again, POLICIES + ["ubm"], "10%")) == rows(forebay.compare(sample.only(end=1), POLICIES + ["ubm"], "10%"))


def test_a_trace_that_appears_twice_is_computed_once(client, files):
    other = os.path.join(os.path.dirname(files[0]), ".", os.path.basename(files[0]))
    twice = [files[0], files[1], files[0], other]
    expected = rows(forebay.compare(twice, POLICIES, SIZES))
    for where in (client, None):
        answer = forebay.sweep(twice, POLICIES, SIZES, client=where)
        assert rows(answer) == expected
        assert answer.replayed == 2 * len(POLICIES) * len(SIZES)


def test_a_second_call_makes_only_the_runs_that_are_missing(client, files, expected, tmp_path):
    keep = tmp_path / "kept"
    first = forebay.sweep(files[:2], POLICIES, SIZES, client=client, keep=keep)
    assert (first.replayed, first.kept) == (40, 0)
    whole = forebay.sweep(files, POLICIES, SIZES, client=client, keep=keep)
    assert (whole.replayed, whole.kept) == (40, 40)
    assert rows(whole) == expected
    before = reads(client)
    again = forebay.sweep(files, POLICIES, SIZES, client=client, keep=keep)
    assert (again.replayed, again.kept) == (0, 80) and rows(again) == expected and reads(client) == before
    # What was asked otherwise, or of a trace that has changed, is another run.
    assert forebay.sweep(files[0], POLICIES, SIZES, keep=keep, warmup=100).replayed == 20
    os.utime(files[0], (1, 1))
    assert forebay.sweep(files[0], "lru", [200], keep=keep).replayed == 1
    # A file that is broken is said, and its runs are made again.
    broken = sorted(keep.iterdir())[0]
    lost = pq.read_table(broken).num_rows
    broken.write_bytes(b"PAR1")
    with pytest.warns(UserWarning, match="cannot be read, and its runs are made again"):
        answer = forebay.sweep(files[1:], POLICIES, SIZES, keep=keep)
    assert answer.replayed in (0, lost)


def test_killed_workers_pieces_run_again(files, tmp_path):
    cluster, client = start(4)
    keep = tmp_path / "kept"
    traces = [f"zipf:pages=20k,references=400k,seed={number}" for number in range(4)]
    traces.append(forebay.Trace.from_numpy(np.arange(200_000) ** 2 % 9973, name="sent"))
    policies, sizes = ["lru", "arc", "lirs", "mq", "clock-pro"], ["1%", "5%", "10%", "20%"]
    expected = rows(forebay.compare(traces, policies, sizes))
    killed: list[int] = []

    def kill() -> None:
        # The first three when some pieces have ended: in the middle of the run.
        until = time.monotonic() + 60
        while time.monotonic() < until and (not keep.exists() or len(list(keep.glob("*.parquet"))) < 5):
            time.sleep(0.01)
        for pid in pids[:3]:
            os.kill(pid, signal.SIGKILL)
            killed.append(len(list(keep.glob("*.parquet"))))
            time.sleep(0.1)

    try:
        pids = sorted(client.run(os.getpid).values())
        killer = threading.Thread(target=kill)
        killer.start()
        answer = forebay.sweep(traces, policies, sizes, client=client, keep=keep)
        killer.join(60)
        assert not killer.is_alive() and len(killed) == 3, "three workers were to be killed"
        pieces = len(list(keep.glob("*.parquet")))
        assert killed[0] < pieces, "the first was killed when all was done"
        assert rows(answer) == expected and answer.replayed == 100
    finally:
        client.close()
        cluster.close(timeout=30)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs takes root")
def test_a_full_disk_says_what_was_kept(files, expected, tmp_path):
    keep = tmp_path / "small"
    keep.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", keep], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted: {mounted.stderr}")
    try:
        with pytest.raises(forebay.Error, match="No space left on device; [0-9]+ runs in [0-9]+ files are kept there: make room") as raised:
            forebay.sweep(files, POLICIES, SIZES, keep=keep)
        left = list(keep.iterdir())
        assert left and all(path.suffix == ".parquet" for path in left)
        runs = sum(pq.ParquetFile(path).metadata.num_rows for path in left)
        assert f"{runs} runs in {len(left)} files" in str(raised.value)
        subprocess.run(["mount", "-o", "remount,size=4m", keep], check=True)
        answer = forebay.sweep(files, POLICIES, SIZES, keep=keep)
        assert (answer.replayed, answer.kept) == (80 - runs, runs) and rows(answer) == expected
    finally:
        subprocess.run(["umount", keep], check=True)


def test_errors_name_the_trace(client, files, tmp_path):
    broken = tmp_path / "broken.csv"
    broken.write_text("time,offset,length\n1,2,3\n1,x,3\n")
    for where in (client, None):
        with pytest.raises(forebay.TraceError, match="broken.csv.*line 3"):
            forebay.sweep([*files, broken], "lru", 10, client=where)
        with pytest.raises(forebay.TraceError, match="none.parquet"):
            forebay.sweep(tmp_path / "none.parquet", "lru", 10, client=where)
        with pytest.raises(ValueError, match="0.parquet"):
            forebay.sweep(files[0], "lru", "1KiB", client=where)
        with pytest.raises(ValueError, match="0.parquet"):
            forebay.sweep(files[0], "lru", 10, warmup=10**9, client=where)
        with pytest.raises(forebay.Error, match="0.parquet takes [0-9,]+ bytes of memory, and a process has 10,000 for traces"):
            forebay.sweep(files[0], "lru", 10, memory=10_000, client=where)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: forebay.sweep("none", "lru2", 10), "there is no policy `lru2`"),
        (lambda: forebay.sweep("none", "lru", "1x"), "`1x` is no size"),
        (lambda: forebay.sweep([], "lru", 10), "name a trace at least"),
        (lambda: forebay.sweep([7], "lru", 10), "7 is no trace"),
        (lambda: forebay.sweep("sample", "opt", 10, readahead="linux"), "opt knows what is referenced next"),
        (lambda: forebay.sweep("sample", [dict], 10, keep="kept"), "is written in Python"),
        (lambda: forebay.sweep("sample", "lru", 10, client=7), "client=7: take a distributed.Client"),
    ],
)
def test_what_makes_no_sense_is_a_value_error_before_a_trace_is_read(ask, words):
    with pytest.raises(ValueError) as raised:
        ask()
    assert words in str(raised.value)
    assert _pieces.SHELF.reads == 0


def test_a_process_holds_no_more_traces_than_its_memory(files):
    sizes = [forebay.Trace.read(path)._source.hold().bytes for path in files[:3]]
    room = sum(sizes) - min(sizes)
    answer = forebay.sweep(files[:3], ["lru", "arc"], [10, 100], memory=room, threads=3)
    assert rows(answer) == rows(forebay.compare(files[:3], ["lru", "arc"], [10, 100]))
    assert _pieces.SHELF._bytes() <= room and _pieces.SHELF.reads >= 3
    assert not any(_pieces.SHELF._users.values())


def test_a_trace_is_held_with_no_more_than_the_sweep_looks_at(files):
    [bare] = {4 * row["references"] for row in rows(forebay.compare(files[3], "lru", 100))}
    held = 0
    for of in ({}, {"policies": "dulo"}, {"device": "nearline"}):
        asked = {"policies": "lru", "sizes": 100, **of}
        assert rows(forebay.sweep(files[3], **asked)) == rows(forebay.compare(files[3], **asked))
        before, held = held, _pieces.SHELF._bytes()
        assert held - before == bare if not of else held - before > bare
    assert _pieces.SHELF.reads == 3
    # What is held with more than a question looks at answers it, what is held with less is read again.
    for source in (forebay.Trace.read(files[3])._source.hold(places=True, requests=True), forebay.Trace.read(files[3])._source.hold()):
        for policy in ("lru", "dulo"):
            [row] = rows(forebay.compare(files[3], policy, 100))
            answer = pa.table(_forebay.compare([source], [policy], [100], warmup=0).table()).to_pylist()
            assert [answer[0][name] for name in ("hits", "pages")] == [row[name] for name in ("hits", "pages")]


def test_policies_in_python_run_on_workers_too(client, files):
    for where in (client, None):
        found = rows(forebay.sweep(files[0], ["lru", lru_in_python()], [100, 500], client=where))
        assert [row["hits"] for row in found[:2]] == [row["hits"] for row in found[2:]]


def test_what_kills_each_worker_is_an_error_that_names_the_piece(client, files):
    class Deadly:
        def __init__(self, capacity):
            os._exit(9)

    allowed = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.allowed_failures)
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    try:
        with pytest.raises(forebay.Error, match="0.parquet: Deadly: each worker that ran it died, the last one tcp://.*more memory"):
            forebay.sweep(files[0], [Deadly], [100], client=client)
    finally:
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", allowed))
        client.wait_for_workers(3, timeout=60)


def test_ctrl_c_ends_a_sweep_and_keeps_what_is_finished(tmp_path):
    program = f"""
import forebay
traces = ["zipf:pages=1000,references=1000"] + [f"zipf:pages=300k,references=4M,seed={{n}}" for n in range(8)]
try:
    forebay.sweep(traces, ["lru", "arc"], [10, 100], keep={str(tmp_path)!r}, progress=False)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        until = time.monotonic() + 60
        while not list(tmp_path.glob("*.parquet")):
            assert time.monotonic() < until and child.poll() is None, "no piece ended within a minute"
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        asked = time.monotonic()
        out, _ = child.communicate(timeout=60)
    assert out == "stopped\n" and time.monotonic() - asked < 5
    assert list(tmp_path.glob("*.parquet")) and not list(tmp_path.glob("*.part"))


def test_without_distributed_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'forebay\[dask\]'"):
        forebay.sweep("sample", "lru", 10, client="tcp://127.0.0.1:1")
    assert len(forebay.sweep("sample", "lru", 10)) == 1


def test_a_url_is_another_trace_when_it_has_changed(tmp_path, files):
    import fsspec

    system = fsspec.filesystem("memory")
    keep = tmp_path / "kept"
    for path, replayed in ((files[1], 1), (files[1], 0), (files[2], 1)):
        system.pipe("/sweep/t.parquet", pathlib.Path(path).read_bytes())
        assert forebay.sweep("memory://sweep/t.parquet", "lru", [100], keep=keep).replayed == replayed
    assert _sweep._named("memory://sweep/t.parquet", None, True) != _sweep._named("memory://sweep/t.parquet", None, False)
