"""`forebay compare --dask`: the rows, tables and words of the command without it."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import forebay
from conftest import start

LONG = ["zipf:pages=300k,references=20M,seed=1", "zipf:pages=300k,references=20M,seed=2"]


def environment(**more: str) -> dict[str, str]:
    """In which `python3` is this one."""
    return {**os.environ, "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]), **more}


def compare(*words: str, code: int = 0, cwd: str | os.PathLike[str] | None = None, env: dict[str, str] | None = None) -> tuple[str, str]:
    """What the command answers, and says on the standard error."""
    command = [shutil.which("forebay") or "forebay", "compare", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=cwd, env=env or environment())
    assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory, sample):
    folder = tmp_path_factory.mktemp("traces")
    for number in range(2):
        forebay.Trace.synthetic(f"zipf:pages={2000 + 500 * number},references=30000,seed={number}").write(folder / f"{number}.parquet")
    sample.only(end=2).write(folder / "part.csv")
    return folder


def without_seconds(text: str) -> list[dict[str, str]]:
    return [{name: cell for name, cell in row.items() if name != "seconds"} for row in csv.DictReader(io.StringIO(text))]


@pytest.mark.parametrize(
    "asked",
    [
        ["0.parquet", "part.csv", "./0.parquet", "0.parquet", "sample", "-p", "lru,arc,lirs,ubm,opt", "-s", "1%,200,10%,1MiB,50%"],
        ["1.parquet", "-p", "all", "-s", "10%"],
        ["part.csv", "-p", "lru,clock-pro,dulo", "-s", "5%,20%,300", "-d", "nearline", "--waits", "-r", "linux", "-w", "20%", "--by-distance", "--think", "3"],
        ["1.parquet", "-p", "lru,arc,gclock:max=7", "-s", "20%,100000B", "--behind", "lru@100", "--page-size", "16KiB", "-w", "1000"],
        ["part.csv", "-p", "mq,opt", "-s", "300", "-d", "object-storage"],
    ],
)
def test_the_answer_is_the_one_of_the_command_alone(client, folder, asked):
    dask = ["--dask", client.scheduler.address]
    table, said = compare(*asked, *dask, cwd=folder)
    assert (table, said) == compare(*asked, cwd=folder)
    rows, expected = (without_seconds(compare(*asked, *more, "-f", "csv", cwd=folder)[0]) for more in (dask, []))
    assert rows == expected and rows
    # On its way a figure may lose its last digit.
    texts = (compare(*asked, *more, "-f", "json", cwd=folder)[0] for more in (dask, []))
    answers, expected = (json.loads(text, parse_float=lambda figure: f"{float(figure):.12g}") for text in texts)
    for answer in [*answers, *expected]:
        for run in answer["runs"]:
            # The time differs; states stay on the workers.
            del run["seconds"], run["state"]
    assert answers == expected


def test_reports_and_pictures_are_made_of_it(client, folder, tmp_path):
    report, picture = tmp_path / "r.html", tmp_path / "p.svg"
    _, said = compare("0.parquet", "-p", "lru,arc", "--dask", client.scheduler.address, "--report", str(report), "--plot", str(picture), cwd=folder)
    assert f"wrote {report}" in said and "lirs" not in report.read_text() and "arc" in picture.read_text()


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        (["none.parquet"], 1, "none.parquet"),
        (["-"], 2, "cannot read the standard input: name a file"),
        (["broken.csv"], 1, "broken.csv"),
        (["0.parquet", "-s", "1KiB"], 2, "0.parquet"),
        (["0.parquet", "-w", "1000000000"], 2, "0.parquet"),
        (["0.parquet", "--by", "owner"], 2, "cannot be used with"),
    ],
)
def test_what_is_wrong_is_said_once_and_nothing_is_answered(client, folder, asked, code, words):
    (folder / "broken.csv").write_text("time,offset,length\n1,2,3\n1,x,3\n")
    out, said = compare(*asked, "--dask", client.scheduler.address, code=code, cwd=folder)
    assert out == "" and said.count(words) >= 1 and "Traceback" not in said
    assert said.count("forebay: ") == (0 if "--by" in asked else 1)


def test_what_is_not_installed_is_said(tmp_path):
    _, said = compare("sample", "--dask", "tcp://127.0.0.1:1", code=1, env=environment(PYTHONPATH=""))
    assert said.startswith("forebay: --dask: the Python package is missing") and "-m pip install 'forebay[dask]'" in said
    (tmp_path / "distributed.py").write_text("raise ImportError('none here')")
    _, said = compare("sample", "--dask", "tcp://127.0.0.1:1", code=1, env=environment(PYTHONPATH=f"{tmp_path}:{os.environ['PYTHONPATH']}"))
    assert said == "forebay: --dask: a sweep on workers needs Dask's distributed: pip install 'forebay[dask]'\n"
    _, said = compare("sample", "--dask", "tcp://127.0.0.1:1", code=1, env=environment(PATH=str(tmp_path)))
    assert "python3: cannot be started" in said


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere://x"])
def test_where_no_scheduler_is_that_is_said(address):
    _, said = compare("sample", "--dask", address, code=1)
    assert said.startswith(f"forebay: --dask: no scheduler of Dask answers at {address}: ") and "Traceback" not in said


def tasks(client) -> int:
    return client.run_on_scheduler(lambda dask_scheduler: sum(str(key).startswith("forebay:") for key in dask_scheduler.tasks))


def until(condition, what: str, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{seconds} s passed: {what}"
        time.sleep(0.05)


def begin(address: str) -> subprocess.Popen[str]:
    command = [shutil.which("forebay") or "forebay", "compare", *LONG, "-p", "lru,arc,lirs,mq", "--dask", address]
    # A process group of its own, as a shell makes it, whose interrupts are not ignored.
    return subprocess.Popen(
        ["env", "--default-signal=INT", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), process_group=0
    )


@pytest.mark.parametrize("to", ["all", "command"])
def test_ctrl_c_and_a_command_that_is_killed_end_the_sweep(client, to):
    command = begin(client.scheduler.address)
    until(lambda: tasks(client) > 0 or command.poll() is not None, "no piece is there")
    assert command.poll() is None, command.communicate()
    if to == "all":
        os.killpg(command.pid, signal.SIGINT)
    else:
        command.kill()
    out, said = command.communicate(timeout=60)
    assert out == "" and "Traceback" not in said
    if to == "all":
        assert command.returncode == 130 and said.startswith("forebay: stopped while comparing on tcp://"), said
    until(lambda: tasks(client) == 0, "pieces are still there")


def test_a_scheduler_that_goes_is_said():
    cluster, client = start(1)
    try:
        command = begin(client.scheduler.address)
        until(lambda: tasks(client) > 0 or command.poll() is not None, "no piece is there")
        address = client.scheduler.address
    finally:
        client.close()
        cluster.close(timeout=30)
    out, said = command.communicate(timeout=90)
    assert (out, command.returncode) == ("", 1), said
    assert f"the scheduler at {address} is gone" in said and "Traceback" not in said, said
