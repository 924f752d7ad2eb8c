"""Programs from outside must read what `forebay convert` writes, and agree with what `forebay` says of it.

DuckDB, Polars, pandas and PyArrow read the embedded sample as Parquet; libCacheSim replays it as oracleGeneral and must miss as
often as our LRU, FIFO, CLOCK, SIEVE and OPT do, and nearly as often as our S3-FIFO, of which it has a later variant. And we read tables that
pandas and Polars write.

Usage: outside_readers.py PATH-OF-FOREBAY
"""

import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import duckdb
import libcachesim
import pandas
import polars
import pyarrow.parquet

forebay = sys.argv[1]
checks = 0


def run(*arguments):
    return subprocess.run([forebay, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def check(what, ours, theirs, within=0):
    global checks
    checks += 1
    if ours != theirs and not (within and abs(ours - theirs) <= within):
        sys.exit(f"{what}: ours {ours}, theirs {theirs}")


def check_parquet(folder):
    file = folder / "sample.parquet"
    run("convert", "sample", file)
    info = json.loads(run("info", "sample", "--format", "json"))[0]

    rows, objects, owners, reads, length = duckdb.sql(
        "select count(*), count(distinct object), count(distinct owner), count(*) filter (operation = 'read'), sum(length)"
        f" from '{file}'"
    ).fetchone()
    check("requests (DuckDB)", info["requests"], rows)
    check("objects (DuckDB)", info["objects"], objects)
    check("owners (DuckDB)", info["owners"], owners)
    check("reads (DuckDB)", info["reads"], reads)

    frame = polars.read_parquet(file)
    columns = ["time", "owner", "object", "offset", "length", "operation"]
    check("columns (Polars)", columns, frame.columns)
    check("requests (Polars)", rows, frame.height)
    check("bytes (Polars)", length, frame["length"].sum())

    frame = pandas.read_parquet(file)
    check("requests (pandas)", rows, len(frame))
    check("objects (pandas)", objects, frame["object"].nunique())

    # The way back: what others write with the same columns is a trace too.
    table = pyarrow.parquet.read_table(file)
    for compression in ["none", "snappy", "zstd", "gzip", "lz4"]:
        again = folder / f"again-{compression}.parquet"
        pyarrow.parquet.write_table(table, again, compression=compression)
        theirs = json.loads(run("info", again, "--format", "json"))[0]
        for figure in ["requests", "references", "pages", "objects", "owners", "reads", "writes"]:
            check(f"{figure} of a file written by PyArrow ({compression})", info[figure], theirs[figure])
    brotli = folder / "brotli.parquet"
    pyarrow.parquet.write_table(table, brotli, compression="brotli")
    failed = subprocess.run([forebay, "info", brotli], capture_output=True, text=True)
    check("a file in Brotli is refused by that name", (1, True), (failed.returncode, "compressed with brotli" in failed.stderr))


def check_tables_of_others(folder):
    """What pandas and Polars write is read, by the names of the columns or as --columns says."""
    frame = pandas.DataFrame(
        {
            "ts": pandas.to_datetime([1, 2, 3, 4], unit="s"),
            "key": ["b", "a", "b", None],
            "client": pandas.Categorical(["x", "y", "x", "x"]),
            "op": ["get", "set", "flush", "get"],
        }
    )
    for write in (lambda frame, file: frame.to_parquet(file), lambda frame, file: polars.from_pandas(frame).write_parquet(file)):
        file = folder / "keys.parquet"
        write(frame.head(3), file)
        info = json.loads(run("info", file, "--format", "json"))[0]
        found = [info[figure] for figure in ("requests", "pages", "owners", "writes", "span_seconds")]
        check("a table of keys", [2, 2, 2, 1, 1.0], found)
        write(frame, file)
        failed = subprocess.run([forebay, "info", file], capture_output=True, text=True)
        check("a null key", (1, True), (failed.returncode, "row 3: `page` is null" in failed.stderr))
        write(pandas.DataFrame({"item": [7, 7, 9], "n": [1, 1, 1]}), file)
        info = json.loads(run("info", file, "--columns", "page=item", "--format", "json"))[0]
        check("a column by its name", [3, 2], [info["requests"], info["pages"]])


def check_oracle_general(folder):
    file = folder / "sample.oracleGeneral"
    run("convert", "sample", file)
    sizes = [50, 500, 5000]
    rows = run(
        "compare", "sample", "--policies", "lru,fifo,clock,sieve,s3-fifo,opt", "--sizes", ",".join(map(str, sizes)), "--format", "csv"
    )
    policies = {
        "lru": libcachesim.LRU,
        "fifo": libcachesim.FIFO,
        "clock": lambda cache_size: libcachesim.Clock(cache_size=cache_size, init_freq=0, n_bit_counter=1),
        "sieve": libcachesim.Sieve,
        "s3-fifo": libcachesim.S3FIFO,
        "opt": libcachesim.Belady,
    }
    for row in csv.DictReader(io.StringIO(rows)):
        reader = libcachesim.TraceReader(
            str(file),
            libcachesim.TraceType.ORACLE_GENERAL_TRACE,
            libcachesim.ReaderInitParam(ignore_obj_size=True),
        )
        miss_ratio, _ = policies[row["policy"]](cache_size=int(row["pages"])).process_trace(reader)
        theirs = round(miss_ratio * int(row["references"]))
        within = 0.005 * int(row["references"]) if row["policy"] == "s3-fifo" else 0
        check(f"misses of {row['policy']} at {row['pages']} pages (libCacheSim)", int(row["misses"]), theirs, within)


with tempfile.TemporaryDirectory() as name:
    check_parquet(pathlib.Path(name))
    check_tables_of_others(pathlib.Path(name))
    check_oracle_general(pathlib.Path(name))
print(f"outside readers: {checks} passed, 0 failed")
