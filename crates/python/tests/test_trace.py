"""Traces from files, URLs, and whatever Python has."""

from __future__ import annotations

import gc
import gzip
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from conftest import objects, rows, run, same

import forebay

SCHEMA = ["time", "owner", "object", "offset", "length", "operation"]


def hits(trace: forebay.Trace, size: int | str = 100) -> int:
    return forebay.compare(trace, "lru", size).to_arrow().column("hits")[0].as_py()


def test_the_first_requests_are_a_part(sample):
    whole = sample.to_arrow()
    assert sample.only(first=1000).to_arrow().column("offset").to_pylist() == whole.column("offset")[:1000].to_pylist()
    late = sample.only(start=1).only(first=7)
    assert len(late) == 7 and late.to_arrow().column("offset").to_pylist() == sample.only(start=1).to_arrow().column("offset")[:7].to_pylist()
    assert len(sample.only(first=7).only(first=9)) == 7 and len(sample.only(first=10**9)) == len(sample)
    assert forebay.compare(sample.only(first=1000), "lru", 10).to_arrow().column("references")[0].as_py() >= 1000
    with pytest.raises(ValueError, match="first=0: take a request at least"):
        sample.only(first=0)


def test_info_is_that_of_the_command(sample):
    [theirs] = objects("info", "sample")
    assert sample.info() == theirs
    assert len(sample) == theirs["requests"]


def test_a_trace_goes_round_through_arrow_pandas_polars_and_parquet(sample, tmp_path):
    table = sample.to_arrow()
    assert table.column_names == SCHEMA and table.num_rows == len(sample)
    expected = rows("compare", "sample", "-p", "lru,ubm,linux", "-s", "10%", "-d", "nearline")
    unit = {"unit": table.schema.metadata[b"forebay.unit"].decode(), "page_size": "8KiB"}
    again = [
        forebay.Trace.from_arrow(table),
        forebay.Trace.from_pandas(table.to_pandas(), **unit),
        forebay.Trace.from_polars(pl.DataFrame(table), **unit),
        forebay.Trace.from_arrow(pl.DataFrame(table), **unit),
        forebay.Trace.from_numpy(table.to_pandas().drop(columns=["owner", "object", "operation"]).to_records(index=False), **unit),
    ]
    for trace in again[:4]:
        same(forebay.compare(trace, "lru,ubm,linux", "10%", device="nearline"), expected)
    assert len(again[4]) == len(sample)
    assert sample.write(tmp_path / "sample.csv.gz") == len(sample)
    same(forebay.compare(tmp_path / "sample.csv.gz", "lru,ubm,linux", "10%", device="nearline", page_size="8KiB"), expected)
    with pytest.raises(forebay.TraceError, match="sample.csv.gz"):
        sample.write(tmp_path / "sample.csv.gz")
    assert sample.write(tmp_path / "sample.csv.gz", force=True) == len(sample)
    assert os.listdir(tmp_path) == ["sample.csv.gz"]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4", ">u8"])
def test_whole_numbers_of_any_width_are_keys(dtype):
    keys = np.random.default_rng(1).integers(0, 100, 5000)
    assert hits(forebay.Trace.from_numpy(keys.astype(dtype)), 20) == hits(forebay.Trace.from_keys(keys.tolist()), 20)
    # A part of an array, in steps, is read where it lies or is copied.
    assert hits(forebay.Trace.from_numpy(keys.astype(dtype)[::2]), 20) == hits(forebay.Trace.from_keys(keys[::2].tolist()), 20)


def test_keys_of_any_hashable_kind_are_pages():
    numbers = np.random.default_rng(2).zipf(1.3, 3000) % 200
    expected = hits(forebay.Trace.from_numpy(numbers), 30)
    words = [f"key {number}" for number in numbers]
    kinds = {
        "texts": words,
        "tuples": [(number, "x") for number in numbers],
        "mixed": [number if number % 2 else f"{number}" for number in numbers.tolist()],
        "floats": (numbers / 7).tolist(),
        "bytes": [word.encode() for word in words],
        "negative": (-numbers - 1).tolist(),
    }
    for name, keys in kinds.items():
        assert hits(forebay.Trace.from_keys(keys), 30) == expected, name
        assert hits(forebay.Trace.from_pandas(pd.Series(keys)), 30) == expected, name
    for keys in (np.array(words), numbers / 7, -numbers - 1, np.array(words, dtype=object)):
        assert hits(forebay.Trace.from_numpy(keys), 30) == expected, keys.dtype
    for keys in (words, (numbers / 7).tolist(), [word.encode() for word in words]):
        assert hits(forebay.Trace.from_polars(pl.Series(keys)), 30) == expected
        assert hits(forebay.Trace.from_arrow(pa.array(keys)), 30) == expected
        assert hits(forebay.Trace.from_arrow(pa.chunked_array([keys[:1000], keys[1000:]]).dictionary_encode()), 30) == expected
    assert forebay.Trace.from_keys(words, name="mine", page_size=4096).info()["page_size"] == 4096


def test_whole_numbers_are_read_where_they_lie():
    keys = np.arange(1 << 16, dtype=np.uint64) % 1000
    trace = forebay.Trace.from_numpy(keys)
    before = hits(trace, 500)
    assert before == 0
    # What the array has when the question is asked counts: nothing was copied.
    keys[:] = 7
    assert hits(trace, 500) == len(keys) - 1


def test_an_array_lives_as_long_as_its_trace():
    trace = forebay.Trace.from_numpy(np.tile(np.arange(1000), 5))
    gc.collect()
    assert hits(trace, 1000) == 4000
    part = trace.only(start=0)
    del trace
    gc.collect()
    assert hits(part, 1000) == 4000


def test_columns_are_found_by_their_meaning():
    frame = pd.DataFrame(
        {
            "when": pd.to_datetime([0, 1_500_000_000, 3_000_000_000]),
            "who": ["a", None, "b"],
            "lba": [0, 8192, 0],
            "bytes": [8192, 16384, 1],
            "other": [b"x", b"y", b"z"],
        }
    )
    trace = forebay.Trace.from_pandas(frame, columns={"time": "when", "owner": "who", "offset": "lba", "length": "bytes"}, page_size="8KiB")
    table = trace.to_arrow()
    assert table.column("time").to_pylist() == [0, 1_500_000_000, 3_000_000_000]
    assert table.column("owner").to_pylist() == ["a", "", "b"]
    info = trace.info()
    assert (info["references"], info["pages"], info["span_seconds"]) == (4, 3, 3.0)
    blocks = forebay.Trace.from_arrow(pa.table({"offset": [0, 1, 16], "length": [1, 1, 1]}), unit="blocks:512")
    assert blocks.info()["page_size"] == 512
    seconds = forebay.Trace.from_arrow(pa.table({"offset": [0, 1], "time": [0.0, 2.5]}), unit="pages")
    assert seconds.info()["span_seconds"] == 2.5


@pytest.mark.parametrize(
    ("table", "more", "words"),
    [
        ({"place": [1]}, {}, "has no column `offset`: say which one has it, columns={'offset': …}, of place"),
        ({"offset": [1]}, {"columns": {"length": "l"}}, "has no column `l`; it has offset"),
        ({"offset": [1]}, {"columns": {"size": "l"}}, "there is no `size` in a trace"),
        ({"offset": [1]}, {"unit": "miles"}, "`miles` is no unit"),
        ({"offset": [1, None]}, {}, "column `offset` has 1 missing values"),
        ({"offset": [-1]}, {}, "column `offset` has negative numbers"),
        ({"offset": [1], "length": ["x"]}, {}, "column `length` is of type"),
        ({"offset": [1], "operation": ["eat"]}, {}, "`eat` is none; there are read, write, readahead"),
        ({"offset": ["x"]}, {"unit": "bytes"}, "offsets in bytes are whole numbers"),
        ({"offset": pa.array([], pa.int64())}, {}, "there are no rows"),
    ],
)
def test_a_wrong_column_is_named(table, more, words):
    with pytest.raises(ValueError) as raised:
        forebay.Trace.from_arrow(pa.table(table), **more)
    assert words in str(raised.value)


def test_keys_with_sizes_are_one_page_each_and_that_is_said():
    frame = pd.DataFrame({"key": list("abcabc"), "size": [3] * 6})
    with pytest.warns(UserWarning, match="column `size` is left out, as sizes of objects are not replayed"):
        trace = forebay.Trace.from_pandas(frame, columns={"offset": "key", "length": "size"})
    [answer] = forebay.compare(trace, "lru", 3).json()
    assert (answer["references"], answer["footprint_pages"], answer["runs"][0]["total"]["hits"]) == (6, 3, 3)


def test_a_place_may_have_the_names_of_a_csv():
    for column, unit, hits in [("key", 1, 3), ("page", 1, 3), ("lba", 8, 3), ("Block", 8, 3)]:
        trace = forebay.Trace.from_pandas(pd.DataFrame({column: [unit * page for page in (0, 1, 2, 0, 1, 2)]}))
        [answer] = forebay.compare(trace, "lru", 3, page_size=None if unit == 1 else "4KiB").json()
        assert (answer["footprint_pages"], answer["runs"][0]["total"]["hits"]) == (3, hits), column
    with pytest.raises(ValueError, match="no column `offset`"):
        forebay.Trace.from_pandas(pd.DataFrame({"lba": [1], "key": [1]}))


def test_frames_arrays_and_keys_are_compared_as_they_are():
    keys = [1, 2, 3, 1, 2, 3]
    for traces in (keys, np.array(keys), pd.Series(keys), pl.Series(keys), pa.array(keys), pd.DataFrame({"page": keys}), pl.DataFrame({"page": keys})):
        for one in (traces, [traces]) if not isinstance(traces, list) else (traces,):
            [answer] = forebay.compare(one, "lru", 3).json()
            assert answer["runs"][0]["total"]["hits"] == 3, type(traces)
    assert len(forebay.compare([pd.Series(keys), "sample"], "lru", 3).json()) == 2
    with pytest.raises(TypeError, match="a trace, a file's name, a data frame or an array of keys is wanted, not a int"):
        forebay.compare(["sample", 7], "lru", 3)
    with pytest.raises(TypeError, match="a Trace is made by"):
        forebay.Trace([1, 2])


def test_wrong_arrays_are_refused():
    with pytest.raises(ValueError, match=r"the shape \(2, 2\)"):
        forebay.Trace.from_numpy(np.zeros((2, 2), dtype=int))
    with pytest.raises(ValueError, match="no column `offset`"):
        forebay.Trace.from_pandas(pd.DataFrame({"x": [1]}))
    with pytest.raises(ValueError, match="pandas has no column `lbo`; it has lba, size"):
        forebay.Trace.from_pandas(pd.DataFrame({"lba": [1], "size": [1]}), columns={"offset": "lbo"})
    with pytest.raises(ValueError, match="there is no `ofset` in a trace"):
        forebay.Trace.from_pandas(pd.DataFrame({"lba": [1]}), columns={"ofset": "lba"})
    with pytest.raises(ValueError, match="missing values"):
        forebay.Trace.from_polars(pl.Series(["a", None]))
    with pytest.raises(TypeError):
        forebay.Trace.from_keys([[1], [2]])
    with pytest.raises((TypeError, ValueError)):
        forebay.Trace.from_arrow(7)


def test_parts_by_owner_file_and_time(sample):
    busiest = sample.info()["busiest_owners"][0]
    assert sample.only(owners=busiest["name"]).info()["references"] == busiest["references"]
    same(
        forebay.compare(sample.only(files="*.h"), "lru", 100),
        rows("compare", "sample", "-p", "lru", "-s", "100", "--files", "*.h"),
    )
    span = sample.info()["span_seconds"]
    times = np.array(sample.to_arrow().column("time"))
    times = times - times[0]
    half = sample.only(start=span / 4, end=span / 2)
    assert len(half) == int(((times >= round(span / 4 * 1e9)) & (times < round(span / 2 * 1e9))).sum()) > 0
    # A part of a part.
    assert len(half.only(files="*.h")) < len(half)
    with pytest.raises(forebay.TraceError, match="no request matches"):
        len(sample.only(owners="nobody"))
    with pytest.raises(forebay.TraceError, match="no request is from 1000000"):
        len(sample.only(start=1e6))
    with pytest.raises(ValueError, match="the start before the end"):
        sample.only(start=2, end=1)


def test_mixes_are_those_of_the_command(sample, tmp_path):
    zipf = "zipf:pages=1000,references=10k"
    run("mix", "sample", zipf, "-o", str(tmp_path / "mix.parquet"), "--scale", "--page-size", "8KiB")
    mixed = forebay.mix([sample, forebay.Trace.synthetic(zipf)], times="scaled", page_size="8KiB")
    same(forebay.compare(mixed, "lru,mq", 500), rows("compare", str(tmp_path / "mix.parquet"), "-p", "lru,mq", "-s", "500", "--page-size", "8KiB"))
    with pytest.raises(forebay.TraceError, match="no times"):
        forebay.mix([sample, forebay.Trace.synthetic(zipf)])
    with pytest.raises(ValueError, match="two traces or more"):
        forebay.mix([sample])


def test_a_url_is_read_by_fsspec_once(sample, tmp_path, monkeypatch):
    import fsspec

    memory = fsspec.filesystem("memory")
    sample.write(tmp_path / "sample.parquet")
    memory.pipe("/bucket/sample.parquet", (tmp_path / "sample.parquet").read_bytes())
    memory.pipe("/bucket/t.csv.gz", gzip.compress(b"offset,length\n0,8192\n8192,8192\n"))
    trace = forebay.Trace.read("memory://bucket/sample.parquet")
    assert trace.name == "memory://bucket/sample.parquet"
    memory.rm("/bucket/sample.parquet")
    for _ in range(2):
        same(forebay.compare(trace, "lru", 100), rows("compare", "sample", "-p", "lru", "-s", "100"))
    assert len(forebay.Trace.read("memory://bucket/t.csv.gz")) == 2
    assert len(forebay.Trace.read(f"file://{tmp_path}/sample.parquet")) == len(sample)
    folder = trace._folders[0].name
    assert os.listdir(folder) == ["sample.parquet"]
    # It stays while a part or a mix of it does.
    part = trace.only(files="*.h")
    mixed = forebay.mix([part, sample])
    del trace, part
    gc.collect()
    assert len(mixed) > len(sample)
    del mixed
    gc.collect()
    assert not os.path.exists(folder)
    with pytest.raises(forebay.TraceError, match="memory://bucket/none: downloading failed"):
        forebay.Trace.read("memory://bucket/none")
    with pytest.raises(forebay.TraceError, match="moon"):
        forebay.Trace.read("moon://x/y")


def test_a_program_is_recorded(tmp_path):
    source = tmp_path / "data"
    source.write_bytes(os.urandom(300_000))
    trace = forebay.Trace.record(["sh", "-c", f"cat {source} {source} > {tmp_path}/twice"])
    reads = trace.only(files=str(source)).info()
    assert reads["pages"] >= 300_000 // reads["page_size"] and reads["references"] > reads["pages"], reads
    kept = forebay.Trace.record("true", output=tmp_path / "true.parquet")
    assert len(kept) == len(forebay.Trace.read(tmp_path / "true.parquet"))
    memory = forebay.Trace.record("true", memory=True)
    assert hits(memory, "10%") > 0


def test_what_cannot_be_recorded_is_an_error_with_its_reason(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such program"):
        forebay.Trace.record(["no-such-program"])
    with pytest.raises(PermissionError, match="not executable"):
        forebay.Trace.record([os.fspath(__file__)])
    with pytest.raises(ValueError, match="a program, or pid, or blocks"):
        forebay.Trace.record(["true"], pid=1)
    with pytest.raises(ValueError, match="no such process"):
        forebay.Trace.record(pid=2**22 + 1)
    with pytest.raises(ValueError, match="duration"):
        forebay.Trace.record(["true"], duration=-1)
    (tmp_path / "there.parquet").write_text("")
    with pytest.raises(forebay.TraceError, match="exists"):
        forebay.Trace.record(["true"], output=tmp_path / "there.parquet")
    with pytest.warns(UserWarning, match="exit code 3"):
        forebay.Trace.record(["sh", "-c", "cat /etc/hostname; exit 3"])


def test_a_recording_ends_after_its_time():
    begun = time.monotonic()
    trace = forebay.Trace.record(["sh", "-c", "while :; do cat /etc/passwd > /dev/null; done"], duration=0.5)
    assert len(trace) > 0 and time.monotonic() - begun < 30


def test_what_numpy_hides_is_refused_with_its_reason():
    masked = np.ma.masked_array([1, 1, 2, 1], mask=[0, 1, 1, 0])
    with pytest.raises(ValueError, match="masked values"):
        forebay.Trace.from_numpy(masked)
    assert len(forebay.Trace.from_numpy(masked.compressed())) == 2
    with pytest.raises(ValueError, match="2 missing values"):
        forebay.Trace.from_numpy(np.array([1.0, np.nan, 1.0, np.nan]))
    with pytest.raises(ValueError, match="292 years"):
        forebay.Trace.from_pandas(pd.DataFrame({"offset": [1, 2], "time": [0.0, 1e10]}))
    big = np.array([(1, 10), (2, 20), (1, 30)], dtype=[("offset", ">u8"), ("length", ">u4")])
    little = big.astype([("offset", "<u8"), ("length", "<u4")])
    assert forebay.Trace.from_numpy(big).to_arrow().equals(forebay.Trace.from_numpy(little).to_arrow())
    assert hits(forebay.Trace.from_numpy(np.array([1.5, 1.5, 2.5], dtype=">f8"))) == 1


def test_what_is_no_trace_is_a_type_error():
    with pytest.raises(TypeError, match="an array of keys is wanted, not a NoneType"):
        forebay.compare(["sample", None], "lru", 1)
    with pytest.raises(TypeError, match="collect"):
        forebay.Trace.from_polars(pl.DataFrame({"offset": [1]}).lazy())
    for size in (None, 1.5, "10%"):
        with pytest.raises(TypeError):
            forebay.Cache("lru", size)
    with pytest.raises(ValueError, match="too large"):
        forebay.Cache("lru", 2**70)
    assert len(forebay.mix(["sample", "sample"], times="recorded")) == 2 * len(forebay.Trace.sample())


def test_file_names_that_are_no_text_are_read_and_written(sample, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/name-\xff.parquet")
    part = sample.only(end=0.5)
    assert part.write(path) == len(part)
    trace = forebay.Trace.read(path)
    assert len(trace) == len(part) and trace.name.endswith("name-\ufffd.parquet")
    for found in (forebay.compare(os.fsencode(path).decode("utf-8", "surrogateescape"), "lru", 10), forebay.sweep(path, "lru", 10)):
        assert found.to_arrow().column("trace").to_pylist() == [trace.name]
    array = forebay.memmap(path, mode="r", memory="1MiB")
    with forebay.Pool("1MiB") as pool, pool.open(path) as file:
        assert file.read(4) == array[:4].tobytes() == b"PAR1"
    with pytest.raises(forebay.TraceError, match="exists already; force=True replaces it"):
        part.write(path)
    with pytest.raises(forebay.TraceError, match="force=True"):
        forebay.Trace.record(["true"], output=path)


def test_ctrl_c_while_a_trace_is_written_leaves_nothing(tmp_path):
    program = f"""
import forebay
try:
    forebay.Trace.synthetic("zipf:pages=1M,references=40M").write({str(tmp_path / "t.parquet")!r}, progress=False)
except KeyboardInterrupt:
    import os
    print(os.listdir({str(tmp_path)!r}), flush=True)
    os._exit(0)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        until = time.monotonic() + 60
        while not list(tmp_path.iterdir()):
            assert time.monotonic() < until and child.poll() is None, "nothing is written within a minute"
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert out == "[]\n"
