"""What the package answers is what the command answers."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import objects, rows, run, same

import forebay

PAPERS = pathlib.Path(__file__).parents[3] / "papers"


def test_compare_has_the_rows_of_the_command(sample):
    answer = forebay.compare(sample, ["lru", "arc", "gclock:max=7", "opt"], [100, "1MiB", "10%"])
    same(answer, rows("compare", "sample", "-p", "lru,arc,gclock:max=7,opt", "-s", "100,1MiB,10%"))


def test_all_policies_and_sizes_are_the_default(sample):
    same(forebay.compare(sample), rows("compare", "sample"))


def test_device_readahead_warmup_and_distances_are_asked_as_of_the_command(sample):
    answer = forebay.compare(
        sample, "lru,clock-pro", "5%", device="nearline", readahead="linux", warmup="20%", by_distance=True, think_us=3
    )
    words = "compare sample -p lru,clock-pro -s 5% -d nearline -r linux -w 20% --by-distance --think 3"
    same(answer, rows(*words.split()))
    assert answer.to_arrow().column("device_ms").null_count == 0
    # Who knows the future takes no readahead, and is not meant by "all".
    assert "opt" not in forebay.compare(sample, "all", "1%", readahead="linux").to_pandas()["policy"].to_list()


def test_a_recording_is_replayed_with_what_its_cache_read_ahead(tmp_path):
    metadata = {"forebay.unit": "bytes", "forebay.front_end": "mount", "forebay.readahead": "linux:max=64KiB"}
    table = pa.table({"offset": [4096 * page for page in range(200)], "length": [4096] * 200})
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "mount.parquet")
    trace = forebay.Trace.read(tmp_path / "mount.parquet")
    [recorded] = forebay.compare(trace, "lru,opt", 50).json()
    assert (recorded["recorded"]["front_end"], recorded["readahead"]) == ("mount", "linux:max=64KiB")
    assert recorded["left_out"] == ["opt"] and recorded["runs"][0]["total"]["hits"] > 150
    [without] = forebay.compare(trace, "lru,opt", 50, readahead="none").json()
    assert without["left_out"] == [] and [run["total"]["hits"] for run in without["runs"]] == [0, 0]


def test_owners_states_and_first_levels_are_in_the_json(sample):
    answer = forebay.compare(sample, ["lru"], ["10%"], by="owner", states=3, behind="lru@100")
    [theirs] = objects("compare", "sample", "-p", "lru", "-s", "10%", "--by", "owner", "--states", "3", "-b", "lru@100")
    [ours] = answer.json()
    for one in (ours, theirs):
        one["runs"][0].pop("seconds")
    assert ours == theirs
    assert len(ours["runs"][0]["states"]) == 3 and ours["runs"][0]["by_owner"]


def test_a_sample_is_estimated_as_by_the_command(sample):
    same(forebay.compare(sample, "lru,arc", "20%", sample="30%"), rows("compare", "sample", "-p", "lru,arc", "-s", "20%", "--sample", "30%"))


def test_curve_has_the_rows_of_the_command(sample):
    same(forebay.curve(sample), rows("curve", "sample"))
    same(forebay.curve(sample, "lru", points=7, spacing="even"), rows("curve", "sample", "-p", "lru", "--points", "7", "--spacing", "even"))
    same(forebay.curve(sample, "lru", sizes=["5%", 77]), rows("curve", "sample", "-p", "lru", "-s", "5%,77"))
    same(forebay.curve(sample, "lru", sample_pages=2000), rows("curve", "sample", "-p", "lru", "--sample-pages", "2000"))


def test_levels_has_the_rows_of_the_command(sample):
    answer = forebay.levels(sample, ["lru:1MiB*2", ["lru:10%", "mq:10%"]], mode="exclusive", write=["through", "back"], device="nearline")
    words = "levels sample -l lru:1MiB*2 -l lru:10%,mq:10% -m exclusive -w through,back -d nearline"
    same(answer, rows(*words.split()))


def test_analyze_has_the_rows_of_the_command(sample):
    same(forebay.analyze(sample, only=["classes", "frequency", "owners"]), rows("analyze", "sample", "--only", "classes,frequency,owners"))
    [ours] = forebay.analyze(sample, "lru", 500).json()
    [theirs] = objects("analyze", "sample", "-p", "lru", "-s", "500")
    assert ours == theirs


def test_sizes_may_be_an_array(sample):
    import numpy as np

    sizes = np.linspace(100, 500, 3).astype(int)
    answer = forebay.compare(sample, "lru", sizes)
    assert answer.to_pandas()["pages"].tolist() == [100, 300, 500] and "array" in answer.to_html()
    assert forebay.compare(sample, "lru", sizes[0]).to_pandas()["pages"].tolist() == [100]
    with pytest.raises(TypeError, match="sizes: 1.5 is no size: take pages"):
        forebay.compare(sample, "lru", [1.5])


def test_columns_are_those_of_the_schema_with_unit_and_meaning(sample):
    answer = forebay.compare(sample, "lru", "1%")
    assert answer.columns["hit_ratio"][0] == "0 to 1"
    table = answer.to_arrow()
    assert table.schema.field("device_ms").metadata[b"unit"] == b"ms"
    assert table.schema.field("hits").type == pa.int64()
    assert table.schema.field("hit_ratio").type == pa.float64()
    schemas = (pathlib.Path(__file__).parents[3] / "docs/schemas.md").read_text()
    for name, (unit, meaning) in answer.columns.items():
        assert f"| `{name}` | {unit} | {meaning} |" in schemas


def test_several_traces_are_one_table(sample):
    zipf = forebay.Trace.synthetic("zipf:pages=1000,references=10k")
    answer = forebay.compare([sample, zipf], ["lru", "fifo"], ["10%"])
    assert len(answer) == 4
    assert answer.to_pandas()["trace"].unique().tolist() == ["sample", "zipf:pages=1000,references=10k"]
    assert answer.advice.startswith("sample: ") and "\n\nzipf:pages=1000,references=10k: " in answer.advice
    assert [one["trace"] for one in answer.json()] == ["sample", "zipf:pages=1000,references=10k"]


def test_the_advice_is_in_the_commands_words(sample):
    answer = forebay.compare(sample, ["lru", "arc"], ["10%", "20%"])
    [theirs] = objects("compare", "sample", "-p", "lru,arc", "-s", "10%,20%")
    assert answer.advice == theirs["advice"] and answer.advice.startswith("Take ")


def test_a_table_is_taken_by_pandas_polars_pyarrow_and_duckdb(sample):
    import duckdb
    import polars as pl

    answer = forebay.compare(sample, ["lru", "arc"], ["10%"])
    hits = answer.to_arrow().column("hits").to_pylist()
    assert answer.to_pandas()["hits"].tolist() == hits
    assert answer.to_polars()["hits"].to_list() == hits
    assert pl.DataFrame(answer)["hits"].to_list() == hits
    assert pa.table(answer).column("hits").to_pylist() == hits
    with duckdb.connect() as database:
        database.register("answer", answer.to_arrow())
        assert database.sql("select sum(hits) from answer").fetchone() == (sum(hits),)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda trace: forebay.compare(trace, "lru2"), "there is no policy `lru2` (did you mean `lru`?)"),
        (lambda trace: forebay.compare(trace, "lru", "1x"), "`1x` is no size"),
        (lambda trace: forebay.compare(trace, "lru", []), "name a cache size at least"),
        (lambda trace: forebay.compare(trace, []), "name a policy at least"),
        (lambda trace: forebay.compare(trace, "lru", warmup="100%"), "write a number of references"),
        (lambda trace: forebay.compare(trace, "lru", warmup=10**9), "a warm-up of 1,000,000,000 references leaves nothing to count"),
        (lambda trace: forebay.compare(trace, "opt", readahead="linux"), "opt knows what is referenced next"),
        (lambda trace: forebay.compare(trace, "lru", device="floppy"), "device='floppy': there is no such device; there are table-1"),
        (lambda trace: forebay.levels(trace, ["lru:10"], device="nearlin"), "device='nearlin': there is no such device (did you mean `nearline`?)"),
        (lambda trace: forebay.compare(trace, "lru", threads=-1), "threads=-1: take 1 to 256, or 0, one for each core"),
        (lambda trace: forebay.sweep("none", "lru", threads=-1), "threads=-1: take 1 to 256"),
        (lambda trace: forebay.sliced_curve("none", threads=1000), "threads=1000: take 1 to 256"),
        (lambda trace: forebay.curve(trace, points=-3), "-3: take a whole number from 0"),
        (lambda trace: forebay.compare(trace, "lru", states=-3), "-3: take a whole number from 0"),
        (lambda trace: forebay.compare(trace, "lru", by="moon"), "take owner or file"),
        (lambda trace: forebay.compare(trace, "lru", page_size=1000), "1000 bytes is no page size"),
        (lambda trace: forebay.compare(trace, "lru", managers="x.toml"), "managers are for lru-sp"),
        (lambda trace: forebay.curve(trace, "arc", sample_pages=100), "estimates LRU's curve alone"),
        (lambda trace: forebay.curve(trace, errors=True), "--errors compares estimated curves"),
        (lambda trace: forebay.levels(trace, ["lru"]), "`lru` is no level"),
        (lambda trace: forebay.analyze(trace, only="taste"), "there is no section `taste`"),
        (lambda trace: forebay.Trace.synthetic("zipf:pages=x"), "pages"),
        (lambda trace: forebay.Trace.synthetic("moon"), "is no synthetic trace"),
        (lambda trace: forebay.Trace.read("x", format="moon"), "there is no trace format `moon`"),
    ],
)
def test_what_makes_no_sense_is_a_value_error_in_the_commands_words(sample, ask, words):
    with pytest.raises(ValueError) as raised:
        ask(sample)
    assert words in str(raised.value)


@pytest.mark.parametrize(("size", "words"), [(0.1, '0.1 of the footprint is "10%"'), (None, "None is no size"), (2.0, "2.0 is no size")])
def test_a_size_that_is_none_says_what_one_is(sample, size, words):
    for ask in (lambda: forebay.compare(sample, "lru", [100, size]), lambda: forebay.curve(sample, sizes=[size])):
        with pytest.raises(TypeError, match='take pages \\(1000\\), or a text: bytes \\("64MiB"\\) or percent') as raised:
            ask()
        assert words in str(raised.value)


def test_frames_have_the_columns_that_were_asked(sample):
    plain = forebay.compare(sample, ["lru", "opt"], ["1%", "10%"])
    counts = ["trace", "policy", "size_bytes", "pages", "page_size", "references", "hits", "misses", "compulsory_misses", "hit_ratio", "miss_ratio", "seconds"]
    assert list(plain.to_pandas().columns) == plain.to_polars().columns == counts
    assert len(plain.to_arrow().column_names) == len(plain.columns) > 20
    timed = forebay.compare(sample, "lru", "10%", device="nearline", by_distance=True).to_pandas()
    assert {"device_ms", "near_hits"} < set(timed.columns) and not {"price", "ahead_used"} & set(timed.columns)
    assert not timed.isna().to_numpy().any()


def test_a_trace_that_cannot_be_read_is_a_trace_error(tmp_path):
    with pytest.raises(forebay.TraceError, match="no such file|No such file"):
        forebay.compare(str(tmp_path / "none"), "lru", 10)
    broken = tmp_path / "broken.csv"
    broken.write_text("time,offset,length\n1,2,3\n1,x,3\n")
    with pytest.raises(forebay.TraceError, match="line 3"):
        forebay.compare(str(broken), "lru", 10)
    assert issubclass(forebay.TraceError, forebay.Error)


def test_warnings_of_the_command_are_warnings(tmp_path, sample):
    with pytest.warns(UserWarning, match="estimates may be far off"):
        forebay.compare(sample, "lru", "50%", sample="1%")
    cut = tmp_path / "cut.csv"
    cut.write_text("time,offset,length\n1,2,3\n2,4,5\n3,4")
    with pytest.warns(UserWarning, match="all before it is taken"):
        assert len(forebay.Trace.read(cut)) == 2


def test_the_report_is_one_page_that_asks_for_nothing(sample, tmp_path):
    answer = forebay.compare(sample, ["lru", "arc"], ["10%", "20%"])
    answer.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>") and "forebay.compare(&#x27;sample&#x27;" in page.replace("'", "&#x27;")
    assert 'src="http' not in page and "@import" not in page
    assert sorted(os.listdir(tmp_path)) == ["report.html"]
    with pytest.raises(FileNotFoundError, match="there is no folder") as raised:
        answer.report(tmp_path / "none" / "report.html")
    assert raised.value.filename == str(tmp_path / "none" / "report.html")
    answer.report(tmp_path / "report.html")
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(FileExistsError, match="was not made by forebay"):
        answer.report(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "mine"
    inline = answer._repr_html_()
    assert inline.startswith("<iframe srcdoc=") and "<script>" not in inline and "&lt;script&gt;" in inline
    assert "Take " in repr(answer)


@pytest.mark.parametrize("ask", ["compare", "curve", "levels", "analyze"])
def test_every_chart_is_drawn(sample, ask):
    import matplotlib.pyplot as plt

    answer = {
        "compare": lambda: forebay.compare(sample, ["lru", "arc", "opt"], ["5%", "10%"], device="nearline", states=20, by_distance=True),
        "curve": lambda: forebay.curve(sample),
        "levels": lambda: forebay.levels(sample, ["lru:1MiB", ["lru:10%", "mq:10%"]], analyze=True),
        "analyze": lambda: forebay.analyze(sample, grid=(64, 32)),
    }[ask]()
    assert answer.charts
    for chart in answer.charts:
        axes = answer.plot(chart)
        axes.figure.canvas.draw()
        assert axes.get_title(loc="left").startswith(answer.charts[chart])
        assert axes.lines or axes.patches or axes.images, chart
        plt.close(axes.figure)
    with pytest.raises(ValueError, match="there is no chart `moon`"):
        answer.plot("moon")


def test_lines_have_the_colours_of_the_report(sample):
    import matplotlib.pyplot as plt

    axes = forebay.compare(sample, ["lru", "arc", "opt"], ["5%", "10%"]).plot()
    colors = {line.get_label(): line.get_color() for line in axes.lines}
    assert (colors["lru"], colors["arc"]) == ("#0072b2", "#d55e00")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["3.49 MiB", "6.98 MiB"]
    plt.close(axes.figure)


def test_experiments_are_run_by_the_command(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'title = "T"\nfinding = "ours agree"\n[[table]]\ntitle = "hits"\ntrace = "sample"\npolicies = ["lru", "arc"]\nsizes = ["10%", "20%"]\n'
        "[table.theirs]\nlru = [48.0, 74.5]\n"
    )
    answer = forebay.experiment(plan)
    expected = rows("experiment", str(plan))
    table = answer.to_arrow()
    assert table.column_names == list(expected[0]) and table.num_rows == len(expected) == 4
    for ours, theirs in zip(table.to_pylist(), expected):
        assert {key: "" if value is None else str(value) for key, value in ours.items()} == pytest.approx(theirs) or all(
            (theirs[key] == "" and ours[key] is None) or float(theirs[key]) == pytest.approx(ours[key])
            for key in ("theirs", "ours", "least", "most")
        )
    assert answer.advice == "ours agree" and "<table>" in answer._repr_html_()
    with pytest.raises(forebay.Error, match="none.toml: there is no such file"):
        forebay.experiment(tmp_path / "none.toml")


LONG = "zipf:pages=300k,references=40M"


def test_ctrl_c_is_answered_within_three_tenths_of_a_second():
    program = f"""
import sys, time, forebay
trace = forebay.Trace.synthetic({LONG!r})
print("ready", flush=True)
try:
    forebay.compare(trace, "all", ["1%", "10%"], progress=False)
    print("done", flush=True)
except KeyboardInterrupt:
    print(f"stopped {{time.time()!r}}", flush=True)
print(len(forebay.compare("sample", "lru", "10%")), flush=True)
"""
    # While the trace is read, and while it is replayed.
    for wait in (0.3, 4.0):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "ready\n", child.stderr.read()
            time.sleep(wait)
            child.send_signal(signal.SIGINT)
            asked = time.time()
            out, error = child.communicate(timeout=60)
        word, when, *rest = out.split()
        assert word == "stopped", (out, error)
        assert float(when) - asked < 0.3, f"after {wait} s"
        assert rest == ["1"]


def test_other_threads_run_meanwhile():
    trace = forebay.Trace.synthetic("zipf:pages=100k,references=4M")
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    start = time.monotonic()
    try:
        forebay.compare(trace, "lru,arc,lirs", "10%", threads=1)
    finally:
        elapsed = time.monotonic() - start
        done.set()
        thread.join()
    # With the lock held the other thread would have counted once or twice.
    assert counted > 20 * elapsed, (counted, elapsed)


def test_progress_is_shown_by_tqdm_where_somebody_looks(monkeypatch):
    import tqdm.auto

    shown = []

    class Bar:
        def __init__(self, *, total, desc, **more):
            self.total, self.desc, self.n = total, desc, 0

        def refresh(self):
            shown.append((self.desc, self.n, self.total))

        def close(self):
            shown.append("closed")

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    forebay.compare(forebay.Trace.synthetic("zipf:pages=300k,references=3M"), "lru,arc,lirs,mq", ["1%", "10%"], progress=True)
    assert shown[-1] == "closed"
    bars = [bar for bar in shown if bar != "closed"]
    assert bars and any(desc.startswith("replaying zipf") and 0 < done <= all for desc, done, all in bars), bars[-3:]
    shown.clear()
    forebay.compare("sample", "lru", "10%")
    assert not shown


def test_an_error_in_showing_progress_ends_the_work(monkeypatch):
    from forebay import _progress

    def fail(*_):
        raise OSError("the terminal is gone")

    monkeypatch.setattr(_progress.Bars, "callback", lambda self: fail)
    with pytest.raises(OSError, match="the terminal is gone"):
        forebay.compare(forebay.Trace.synthetic(LONG), "all", "10%")


def test_nothing_is_left_running_when_an_answer_is_there():
    before = threading.active_count()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forebay.compare("sample", "lru", "10%")
    assert threading.active_count() == before


def test_the_version_is_that_of_the_command():
    assert run("--version").split()[1] == forebay.__version__
    names = [policy.name for policy in forebay.policies()]
    assert names == [policy["name"] for policy in json.loads(run("policies", "--format", "json"))]
    opt = next(policy for policy in forebay.policies() if policy.name == "opt")
    assert opt.off_line and opt.paper


def test_answers_are_not_pickled_and_are_their_own_copies(sample):
    answer = forebay.compare(sample, "lru", 10)
    with pytest.raises(TypeError, match="to_arrow"):
        pickle.dumps(answer)
    assert copy.copy(answer) is answer and copy.deepcopy([answer])[0] is answer


def test_levels_take_texts(sample):
    class Mine:
        pass

    for level in (Mine, [Mine]):
        with pytest.raises(ValueError, match="Mine is written in Python, which compare and curve take alone"):
            forebay.levels(sample, ["lru:10", level])
    with pytest.raises(TypeError, match="levels: 7 is no text"):
        forebay.levels(sample, [["lru:10", 7]])


def test_an_experiment_is_a_file_whatever_its_name(tmp_path):
    with pytest.raises((ValueError, forebay.Error), match="--help"):
        forebay.experiment("--help")
