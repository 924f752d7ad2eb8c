"""Arrays over the pager."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import forebay

MEMORY = "1MiB"


@pytest.fixture
def path(tmp_path):
    """Numbers from 0, in a file four times as large as the memory."""
    np.arange(1 << 19, dtype="u8").tofile(tmp_path / "numbers")
    return tmp_path / "numbers"


def child(program: str, timeout: int = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout)


@pytest.mark.parametrize("policy", ["clock-pro", "lru", "fifo"])
def test_an_array_is_the_file_within_its_memory(path, policy):
    array = forebay.memmap(path, "u8", "r", memory=MEMORY, policy=policy)
    expected = np.fromfile(path, "u8")
    assert array.shape == expected.shape and array.dtype == expected.dtype
    assert int(array.sum()) == int(expected.sum())
    some = np.random.default_rng(1).integers(0, len(expected), 3000)
    assert np.array_equal(array[some], expected[some])
    found = array.statistics()
    assert found["cache"]["policy"] == policy and found["cache"]["page_size"] == 4096
    assert found["cache"]["resident"] * 4096 <= 1 << 20 and found["cache"]["evictions"] > 0
    assert found["faults"]["major"] > 0 and found["file"]["size"] == path.stat().st_size and found["file"]["hits"] > 0


def test_what_is_flushed_is_in_the_file(path):
    array = forebay.memmap(path, "u8", memory=MEMORY)
    array[::1000] = 7
    array[-1] += 1
    array.flush()
    expected = np.arange(1 << 19, dtype="u8")
    expected[::1000] = 7
    expected[-1] += 1
    assert np.array_equal(np.fromfile(path, "u8"), expected)
    assert array.statistics()["file"]["pages_written_back"] > 0


def test_the_file_stays_until_its_last_view_is_gone_and_is_durable_then(path):
    view = forebay.memmap(path, "u8", memory=MEMORY)[100:200].reshape(10, 10).T
    gc.collect()
    view[:] = 5
    assert isinstance(view, forebay.memmap) and view.statistics()["file"]["size"]
    plain = np.asarray(view).view(np.ndarray)[2:]
    del view
    gc.collect()
    plain[:] += 1
    with pytest.raises(OSError, match="open elsewhere"):
        forebay.memmap(path, "u8", memory=MEMORY)
    del plain
    gc.collect()
    again = forebay.memmap(path, "u8", "r", memory=MEMORY)
    assert sorted(set(again[100:200].tolist())) == [5, 6] and again[200] == 200


def test_files_are_made_and_made_longer(tmp_path):
    path = tmp_path / "new"
    array = forebay.memmap(path, "f4", "w+", shape=(1000, 500), order="F", offset=10, memory=MEMORY)
    assert array.flags.f_contiguous and not array.any()
    array[:, 3] = 1.5
    del array
    assert path.stat().st_size == 10 + 4 * 1000 * 500
    theirs = np.memmap(path, "f4", "r", offset=10, shape=(1000, 500), order="F")
    assert (theirs[:, 3] == 1.5).all() and theirs.sum() == 1500
    longer = forebay.memmap(path, "u1", "r+", shape=3_000_000, memory=MEMORY)
    longer[-1] = 9
    del longer
    assert path.stat().st_size == 3_000_000 and path.read_bytes()[-1] == 9
    assert not forebay.memmap(path, "u1", "w+", shape=(5,), memory=MEMORY).any() and path.stat().st_size == 5


def test_arrays_share_a_pager(path, tmp_path):
    np.ones(1 << 18, "u8").tofile(tmp_path / "ones")
    pager = forebay.Pager(MEMORY, "lru", page_size="8KiB")
    numbers, ones = pager.memmap(path, "u8", "r"), pager.memmap(tmp_path / "ones", "u8", "r")
    assert int(numbers.sum()) + int(ones.sum()) == sum(range(1 << 19)) + (1 << 18)
    found = pager.statistics()
    assert found["cache"]["capacity"] <= 1 << 20 and found["cache"]["page_size"] == 8192
    assert sorted(file["name"] for file in found["files"]) == sorted([str(path), str(tmp_path / "ones")])
    assert numbers.statistics()["faults"] == ones.statistics()["faults"] and "lru" in repr(pager)
    del pager, ones
    gc.collect()
    assert numbers[77] == 77


def test_a_private_array_changes_and_its_file_does_not(path, tmp_path):
    expected = np.arange(1 << 19, dtype="u8")
    for mode in ("c", "copyonwrite"):
        array = forebay.memmap(path, "u8", mode, memory=MEMORY)
        # More than fits into memory, so that changed pages leave and come back.
        array[::3] += 5
        array[-1] = 1
        changed = expected.copy()
        changed[::3] += 5
        changed[-1] = 1
        array.flush()
        assert np.array_equal(array, changed) and array.statistics()["file"]["pages_written_back"] > 0
        others = np.memmap(path, "u8", "r")
        assert np.array_equal(others, expected)
        del array
        gc.collect()
        assert np.array_equal(np.fromfile(path, "u8"), expected)
    pager = forebay.Pager(MEMORY)
    first, second = pager.memmap(path, "u8", "c", 8, 1000), pager.memmap(path, "u8", "c")
    first[:] = 0
    assert second[1] == 1 and not first.any()


def test_changed_pages_need_a_folder(path, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="swap space") as raised:
        forebay.memmap(path, "u8", "c", memory=MEMORY)
    assert raised.value.filename == str(path)


def test_arrays_of_one_file_by_one_pager_see_each_others_writes(path):
    pager = forebay.Pager(MEMORY)
    one, two = pager.memmap(path, "u8", "r+"), pager.memmap(path, "u4", "r+", offset=8, shape=(100, 2))
    seen = pager.memmap(path, "u8", "r")
    two[5] = [7, 0]
    assert one[6] == seen[6] == 7 and one.statistics() == seen.statistics()
    with pytest.raises(ValueError, match="read-only"):
        seen[6] = 1
    with pytest.raises(ValueError, match="has 4194304 bytes"):
        pager.memmap(path, "u8", "r+", shape=1 << 20)
    with pytest.raises(OSError, match="open elsewhere"):
        pager.memmap(path, "u8", "w+", shape=10)
    del one, two
    gc.collect()
    seen.flush()
    assert np.fromfile(path, "u8", 8)[6] == 7
    del seen
    gc.collect()
    read = pager.memmap(path, "u8", "r")
    with pytest.raises(OSError, match='map it with mode="r\\+" first') as raised:
        pager.memmap(path, "u8", "r+")
    assert raised.value.errno == errno.EBUSY and raised.value.filename == str(path) and read[6] == 7


def test_descriptors_are_as_many_as_is_said(path):
    taken = []
    before = len(os.listdir("/proc/self/fd"))
    kept = []
    for make in (lambda: forebay.Pager(MEMORY), lambda: kept[0].memmap(path, "u8"), lambda: kept[0].memmap(path, "u8", "r")):
        kept.append(make())
        taken.append(len(os.listdir("/proc/self/fd")) - before - sum(taken))
    # The fifth is for a call that older kernels lack.
    assert taken[0] in (4, 5) and taken[1:] == [3, 0]


def test_errors_of_files_have_their_name(path, tmp_path):
    for ask in (lambda name: forebay.memmap(name, memory=MEMORY), lambda name: forebay.Pool(MEMORY).open(name)):
        with pytest.raises(FileNotFoundError, match="cannot be opened") as raised:
            ask(tmp_path / "none")
        assert raised.value.filename == str(tmp_path / "none") and raised.value.errno == errno.ENOENT


def test_results_and_copies_lie_in_memory(path):
    array = forebay.memmap(path, "u8", "r", memory=MEMORY)
    assert type(array + 1) is np.ndarray and type(array[[1, 2]]) is np.ndarray and type(array[5]) is np.uint64
    assert not isinstance(array.sum(), forebay.memmap)
    copied = array[:10].copy()
    copied.flush()
    with pytest.raises(ValueError, match="is a copy"):
        copied.statistics()
    assert pickle.loads(pickle.dumps(array[:10])).tolist() == list(range(10))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_threads_share_an_array(path):
    array = forebay.memmap(path, "u8", memory=MEMORY)

    def add(start: int) -> None:
        for at in range(start, 1 << 19, 4096):
            array[at : at + 64] += 1

    threads = [threading.Thread(target=add, args=(start,)) for start in range(0, 4096, 512)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread touches its pages for two minutes"
    array.flush()
    found = np.fromfile(path, "u8").reshape(-1, 512)
    assert np.array_equal(found[:, :64] - np.arange(1 << 19, dtype="u8").reshape(-1, 512)[:, :64], np.ones((1024, 64)))


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda path: forebay.memmap(path, mode="a"), ValueError, 'mode=.a.: take "r", "r\\+", "w\\+" or "c"'),
        (lambda path: forebay.memmap(path, shape=(2.5,)), TypeError, "'float' object cannot be interpreted as an integer"),
        (lambda path: forebay.memmap(path, shape=2.5), TypeError, "'float' object cannot be interpreted as an integer"),
        (lambda path: forebay.memmap(path, "u8", "c", shape=1 << 20), ValueError, "has 4194304 bytes"),
        (lambda path: forebay.memmap(path, dtype=object), ValueError, "no bytes of a file"),
        (lambda path: forebay.memmap(path, offset=-1), ValueError, "offset=-1"),
        (lambda path: forebay.memmap(path, order="K"), ValueError, "order='K'"),
        (lambda path: forebay.memmap(path, shape=-4), ValueError, "whole numbers from 0 on"),
        (lambda path: forebay.memmap(path, mode="w+"), ValueError, "say shape"),
        (lambda path: forebay.memmap(path, mode="w+", shape=0), ValueError, "an empty file cannot be mapped"),
        (lambda path: forebay.memmap(path, "V7", "r"), ValueError, "are no whole number"),
        (lambda path: forebay.memmap(path, "u8", "r", shape=1 << 20), ValueError, "has 4194304 bytes, and offset 0 and shape 1048576 take"),
        (lambda path: forebay.memmap(path, "u1", "r+", shape=1 << 45, memory=MEMORY), (ValueError, OSError), "numbers|too large|EFBIG"),
        (lambda path: forebay.memmap(path, policy="lru2"), ValueError, "there is no policy"),
        (lambda path: forebay.memmap(path, policy="opt"), ValueError, "future"),
        (lambda path: forebay.memmap(path, memory="1KiB"), ValueError, "16 pages, 64 KiB, or more"),
        (lambda path: forebay.memmap(path, memory="x"), ValueError, "x"),
        (lambda path: forebay.memmap(path, memory=MEMORY, page_size=5000), ValueError, "power of two"),
        (lambda path: forebay.memmap(path, memory=1 << 60), ValueError, "than this machine's"),
        (lambda path: forebay.memmap(str(path) + "none", memory=MEMORY), FileNotFoundError, "numbersnone"),
        (lambda path: forebay.memmap("/dev/null", memory=MEMORY), OSError, "regular file or a block device"),
        (lambda path: forebay.Pager("1MiB", threads=0), ValueError, "0 threads"),
        (lambda path: forebay.Pager("1MiB", sampling=2), ValueError, "sampling"),
    ],
)
def test_what_makes_no_sense_is_said_and_leaves_the_file(path, ask, error, words):
    before = path.read_bytes()
    with pytest.raises(error, match=words):
        ask(path)
    assert path.read_bytes() == before


def test_what_was_written_is_durable_when_the_interpreter_ends(path):
    done = child(f"import forebay\na = forebay.memmap({str(path)!r}, 'u8', memory='1MiB')\na[3] = 33\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert np.fromfile(path, "u8", 4).tolist() == [0, 1, 2, 33]


def test_a_child_of_fork_does_not_have_it_and_ends(path):
    done = child(
        f"""
import errno, os, forebay
array = forebay.memmap({str(path)!r}, "u8", memory="1MiB")
array[0] = 4
child = os.fork()
if child == 0:
    try:
        array.flush()
    except OSError as error:
        assert error.errno == errno.ENOTSUP, error
        raise SystemExit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
child = os.fork()
if child == 0:
    array[1]
    os._exit(0)
print(os.WTERMSIG(os.waitpid(child, 0)[1]))
array.flush()
print(array[0], array[9000])
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(int(signal.SIGSEGV)), "4", "9000"]


def test_a_read_that_fails_ends_the_process_and_says_why(path):
    done = child(f"import os, forebay\na = forebay.memmap({str(path)!r}, 'u8', 'r', memory='1MiB')\nos.truncate({str(path)!r}, 4096)\na[300_000]\n")
    assert done.returncode == -signal.SIGBUS and str(path) in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs takes root")
def test_a_full_disk_is_an_error_of_flush_until_there_is_room(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted: {mounted.stderr}")
    try:
        array = forebay.memmap(folder / "file", "u1", "w+", shape=1 << 20, memory="4MiB")
        array[: 400 << 10] = 3
        with pytest.raises(OSError, match="No space left on device") as raised:
            array.flush()
        assert raised.value.errno == 28
        subprocess.run(["mount", "-o", "remount,size=4m", folder], check=True)
        for _ in range(2):
            try:
                array.flush()
            except OSError as error:
                assert error.errno == 28
        array.flush()
        assert np.fromfile(folder / "file", "u1").sum() == 3 * (400 << 10)
        del array
    finally:
        gc.collect()
        subprocess.run(["umount", "-l", folder], check=True)
