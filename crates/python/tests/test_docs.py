"""The documentation's lines work when they are pasted."""

from __future__ import annotations

import ast
import contextlib
import glob
import inspect
import json
import pathlib
import re
import textwrap

import numpy as np
import pandas as pd
import pytest

import forebay
import forebay.testing

ROOT = pathlib.Path(__file__).parents[3]


def blocks(page: str, section: str) -> list[str]:
    """The indented blocks of a section that are Python."""
    text = (ROOT / page).read_text()
    part = re.split(r"^## ", text, flags=re.MULTILINE)
    [part] = [one for one in part if one.startswith(section + "\n")]
    found = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", part, flags=re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


@pytest.fixture
def names(tmp_path, monkeypatch, sample):
    """What the pages take for granted: files, arrays, frames."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"lba": np.arange(2000) * 8 % 999})
    times = sample.only(end=1)
    sample.write("trace.vscsi.parquet")
    frame.assign(ts=np.arange(2000)).to_csv("t.csv", index=False)
    return {
        "forebay": forebay,
        "trace": sample,
        "one": times,
        "other": times,
        "keys": np.arange(1000) % 77,
        "frame": frame,
        "answer": forebay.compare(sample, "lru", "10%"),
    }


def test_the_readme(names):
    [block] = blocks("README.md", "In Python")
    exec(block, names)
    assert names["answer"].advice.startswith("Take ")


def test_traces(names):
    first, second = blocks("docs/python.md", "Traces")
    lines = [line for line in first.splitlines() if "s3://" not in line]
    assert len(lines) == len(first.splitlines()) - 1
    for line in lines:
        exec(line.replace("trace.vscsi.zst", "trace.vscsi.parquet"), names)
    exec(second.replace('"postgres*"', '"*"').replace('["*.db", "*.wal"], start=10, end=60', '["*"], start=0, end=60'), names)
    assert pathlib.Path("t.parquet").exists()


def test_questions(names):
    [block] = blocks("docs/python.md", "Questions")
    lines = block.splitlines()
    # The experiment's trace is data of others.
    assert lines.pop().startswith("forebay.experiment(")
    for line in lines:
        exec(line, names)


def test_sweeps(names):
    [block] = blocks("docs/python.md", "Sweeps beyond one machine")
    names["trace"].write("a.parquet")
    block = block.replace("from distributed import Client", "").replace('Client("tcp://scheduler:8786")', "contextlib.nullcontext()")
    exec(re.sub(r'^traces = .*$', 'traces = ["a.parquet"]', block, flags=re.MULTILINE), names | {"contextlib": contextlib})
    assert list(pathlib.Path("results").glob("piece-*.parquet"))


def test_one_trace_too_large_for_a_machine(names):
    [block] = blocks("docs/python.md", "One trace too large for a machine")
    made = forebay.Trace.synthetic("zipf:pages=100k,references=300k,seed=1").to_arrow()
    for number in range(2):
        forebay.Trace.from_arrow(made[number * 150_000 :][:150_000]).write(f"trace-{number}.parquet")
    exec(block, names | {"glob": glob})


def test_arrays_larger_than_memory(names):
    first, second = blocks("docs/python.md", "Arrays larger than memory")
    for name in ("large.f8", "left.f8", "right.f8"):
        np.arange(4000.0).tofile(name)
    exec(first.replace("1GiB", "1MiB"), names)
    assert np.fromfile("large.f8")[1000] == 1001
    shown = re.findall(r"'(\w+)':", first)
    assert shown == list(names["array"].statistics()["faults"])[: len(shown)] and shown
    exec(second.replace("1GiB", "1MiB"), names)
    assert names["left"][77] == names["right"][77] == 77


def test_files_behind_a_cache(names):
    [block] = blocks("docs/python.md", "Files behind a cache")
    pd.DataFrame({"x": [1, 2]}).to_parquet("data.parquet")
    pathlib.Path("data.bin").write_bytes(bytes(5000))
    exec(block.replace("1GiB", "16MiB"), names | {"pandas": pd})
    assert pathlib.Path("data.bin").read_bytes()[4096:4103] == b"forebay"


def test_caches(names):
    [block] = blocks("docs/python.md", "A cache by the step")
    exec(block, names)
    assert names["cache"].capacity == 2000
    shown = re.findall(r"'(\w+)':", block)
    assert shown == list(names["cache"].state())[: len(shown)] and shown
    [block] = blocks("docs/python.md", "Cached functions")
    exec(block, names)
    assert names["page"].cache_info().maxsize == 10_000


def test_a_policy_of_ones_own(names):
    block = blocks("docs/python.md", "A policy of your own")[0]
    exec(block, names)
    frame = forebay.compare(names["trace"], ["lru", names["LRU"]], "1%").to_pandas()
    assert frame.hits[0] == frame.hits[1]


def cells() -> list[pathlib.Path]:
    return sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", cells(), ids=lambda path: path.stem)
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    """Each cell, as a notebook runs it: what its last line gives is shown."""
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    found = json.loads(notebook.read_text())
    assert found["nbformat"] == 4 and found["cells"][0]["cell_type"] == "markdown"
    code = ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 3
    for cell in code:
        tree = ast.parse(cell)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, str(notebook), "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), str(notebook), "eval"), names)
            assert repr(value)
            if hasattr(value, "_repr_html_"):
                assert value._repr_html_()
    plt.close("all")


def test_everything_is_documented():
    page = (ROOT / "docs/python.md").read_text()
    for name in forebay.__all__:
        thing = getattr(forebay, name)
        if name not in ("__version__", "CacheInfo", "CachedFunction", "Policy", "PolicyError", "Experiment", "Answer", "SlicedCurve", "Sweep", "policies"):
            assert re.search(rf"\b{name}\b", page), f"docs/python.md does not name {name}"
        if inspect.isclass(thing):
            assert thing.__doc__, name
            for method, value in vars(thing).items():
                if not method.startswith("_") and callable(value):
                    assert value.__doc__, f"{name}.{method} has no docstring"
        elif callable(thing):
            assert thing.__doc__ and inspect.signature(thing), name
