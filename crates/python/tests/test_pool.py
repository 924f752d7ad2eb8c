"""Files behind a pool."""

from __future__ import annotations

import errno
import io
import os
import random
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay


@pytest.fixture
def pool():
    with forebay.Pool("1MiB", "clock-pro") as pool:
        yield pool


@pytest.fixture
def frame() -> pd.DataFrame:
    numbers = np.arange(20_000)
    return pd.DataFrame({"number": numbers, "text": [f"row {number}" for number in numbers], "third": numbers / 3})


def test_pandas_pyarrow_and_zipfile_read_its_files(pool, frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    with pool.open(tmp_path / "t.csv") as file:
        pd.testing.assert_frame_equal(pd.read_csv(file), frame)
    with pool.open(tmp_path / "t.parquet") as file:
        pd.testing.assert_frame_equal(pd.read_parquet(file), frame)
    with pool.open(tmp_path / "t.parquet") as file:
        assert pq.ParquetFile(file).metadata.num_rows == len(frame)
    with pool.open(tmp_path / "t.zip", "w+") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", "a" * 10_000)
        archive.write(tmp_path / "t.csv", "t.csv")
    assert zipfile.ZipFile(tmp_path / "t.zip").testzip() is None
    with pool.open(tmp_path / "t.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("t.csv") == (tmp_path / "t.csv").read_bytes()
    with pool.open(tmp_path / "t.csv") as file, io.TextIOWrapper(file, "utf-8") as text:
        assert sum(1 for _ in text) == len(frame) + 1
    with pool.open(tmp_path / "out.arrow", "wb") as file:
        with pa.ipc.new_file(file, pa.schema([("x", pa.int64())])) as writer:
            writer.write_table(pa.table({"x": [1, 2, 3]}))
    assert pa.ipc.open_file(tmp_path / "out.arrow").read_all().column("x").to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("seed", range(4))
def test_it_does_what_a_file_of_pythons_does(tmp_path, seed):
    random_ = random.Random(seed)
    (tmp_path / "theirs").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "ours").write_bytes(bytes(range(256)) * 40)
    with forebay.Pool("128KiB", "lru") as pool, pool.open(tmp_path / "ours", "r+") as ours, open(tmp_path / "theirs", "rb+") as theirs:
        for _ in range(1500):
            what, number = random_.randrange(9), random_.randrange(300_000)
            count = random_.randrange(20_000)
            if what == 0:
                assert ours.seek(number) == theirs.seek(number)
            elif what == 1:
                assert ours.seek(-count % 5000, 2) == theirs.seek(-count % 5000, 2)
            elif what in (2, 3):
                assert ours.read(count) == theirs.read(count)
            elif what == 4:
                left, right = bytearray(count), bytearray(count)
                assert ours.readinto(left) == theirs.readinto(right) and left == right
            elif what == 5:
                assert ours.readline(200) == theirs.readline(200)
            elif what in (6, 7):
                data = random_.randbytes(count)
                assert ours.write(data) == theirs.write(data)
            else:
                assert ours.truncate(number) == theirs.truncate(number)
            assert ours.tell() == theirs.tell()
        ours.flush()
        theirs.flush()
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_a_file_that_is_opened_again_is_resident_unless_it_has_changed(pool, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a" * 100_000)
    for _ in range(3):
        with pool.open(path) as file:
            assert file.read() == b"a" * 100_000
    [found] = pool.statistics()["files"]
    assert found["device"]["read_bytes"] == 100_000 and found["misses"] == 25 and found["hits"] == 50
    path.write_bytes(b"b" * 50_000)
    with pool.open(path) as file:
        assert file.read() == b"b" * 50_000
    with pool.open(path, "r+") as file:
        file.write(b"c")
    assert pool.statistics()["files"] == [] and path.read_bytes()[:2] == b"cb"
    pool.open(path).close()
    pool.forget()
    assert pool.statistics()["files"] == [] and pool.statistics()["cache"]["policy"] == "clock-pro"


def test_two_of_one_file_see_each_others_writes(pool, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    one, two = pool.open(path, "r+"), pool.open(path)
    one.seek(4)
    one.write(b"four and more")
    assert two.read() == b"0123four and more"
    with pytest.raises(io.UnsupportedOperation, match="is open for reading"):
        two.write(b"x")
    with pytest.raises(io.UnsupportedOperation):
        two.truncate(1)
    with pytest.raises(OSError, match="is open already") as raised:
        pool.open(path, "w+")
    assert raised.value.errno == errno.EBUSY
    one.close()
    assert path.read_bytes() == b"0123four and more"
    two.close()
    with pool.open(path), pytest.raises(OSError, match="is open already"):
        pool.open(path, "r+")


def test_threads_share_a_pool_and_a_file(pool, tmp_path):
    path = tmp_path / "file"
    data = random.Random(3).randbytes(3 << 20)
    path.write_bytes(data)
    wrong: list[int] = []

    def read(seed: int) -> None:
        random_ = random.Random(seed)
        with pool.open(path) as file:
            for _ in range(300):
                at = random_.randrange(len(data))
                file.seek(at)
                if file.read(5000) != data[at : at + 5000]:
                    wrong.append(at)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    appended = pool.open(tmp_path / "appended", "w+")
    threads += [threading.Thread(target=lambda: [appended.write(b"x" * 100) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread reads for two minutes"
    assert not wrong and appended.tell() == 80_000
    appended.close()
    assert (tmp_path / "appended").read_bytes() == b"x" * 80_000


def test_volumes_on_object_storage_are_files_too(pool, tmp_path):
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume/manifest.json").write_text('{"version": 1, "length": 100000, "object_size": 65536}')
    url = f"file://{tmp_path}/volume"
    with pool.open(url, "r+") as file:
        assert file.seek(0, 2) == 100_000
        file.seek(65_530)
        file.write(b"over the edge")
        with pytest.raises(OSError):
            file.truncate(5)
    assert (tmp_path / "volume/0000000000000001").exists()
    with pool.open(url) as file:
        file.seek(65_530)
        assert file.read(13) == b"over the edge" and file.statistics()["size"] == 100_000
    with pytest.raises(OSError, match="forebay serve"):
        pool.open(url, "w+")


def test_objects_are_read_as_they_are(pool, frame, tmp_path):
    url = f"file://{tmp_path}/t.parquet"
    frame.to_parquet(tmp_path / "t.parquet")
    for _ in range(2):
        with pool.open(url) as file:
            pd.testing.assert_frame_equal(pd.read_parquet(file), frame)
    [found] = pool.statistics()["files"]
    assert found["name"] == url and found["device"]["read_bytes"] <= (tmp_path / "t.parquet").stat().st_size
    frame[:10].to_parquet(tmp_path / "t.parquet")
    with pool.open(url) as file:
        assert len(pd.read_parquet(file)) == 10
    with pytest.raises(FileNotFoundError, match="none"):
        pool.open(f"{url}-none")


def test_objects_of_a_store_are_read_too(pool, frame, tmp_path, monkeypatch):
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret")
        client.create_bucket(Bucket="bucket")
        frame.to_parquet(tmp_path / "t.parquet")
        client.upload_file(str(tmp_path / "t.parquet"), "bucket", "a/t.parquet")
        for _ in range(2):
            with pool.open("s3://bucket/a/t.parquet") as file:
                pd.testing.assert_frame_equal(pd.read_parquet(file, columns=["number", "text", "third"]), frame)
        [found] = pool.statistics()["files"]
        assert found["device"]["read_bytes"] <= (tmp_path / "t.parquet").stat().st_size
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda pool, path: pool.open(path, "rt"), ValueError, "TextIOWrapper"),
        (lambda pool, path: pool.open(path, "a"), ValueError, "take .r., .r\\+., .w. or .w\\+."),
        (lambda pool, path: pool.open(path.parent / "none"), FileNotFoundError, "none"),
        (lambda pool, path: pool.open(path.parent / "none", "r+"), FileNotFoundError, "none"),
        (lambda pool, path: pool.open(path.parent / "none/file", "w+"), FileNotFoundError, "none/file"),
        (lambda pool, path: pool.open(path.parent), OSError, "regular file"),
        (lambda pool, path: pool.open("x3://bucket/key"), OSError, "x3:. is unknown"),
        (lambda pool, path: pool.open(path).seek(-1), ValueError, "seek to byte -1"),
        (lambda pool, path: pool.open(path).seek(0, 5), ValueError, "whence=5"),
        (lambda pool, path: pool.open(path, "r+").truncate(-1), ValueError, "truncate to -1"),
        (lambda pool, path: pool.open(path).readinto(b"bytes"), TypeError, "can be written"),
        (lambda pool, path: forebay.Pool("1MiB", "opt"), ValueError, "future"),
        (lambda pool, path: forebay.Pool("1MiB", "lru2"), ValueError, "there is no policy"),
        (lambda pool, path: forebay.Pool("4KiB"), ValueError, "too small"),
        (lambda pool, path: forebay.Pool("1MiB", page_size=3), ValueError, "power of two"),
    ],
)
def test_what_makes_no_sense_is_said(pool, tmp_path, ask, error, words):
    (tmp_path / "file").write_bytes(b"as it was")
    with pytest.raises(error, match=words):
        ask(pool, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"as it was"


def test_closed_is_closed(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    pool = forebay.Pool("1MiB")
    file, written = pool.open(tmp_path / "file"), pool.open(tmp_path / "new", "w")
    written.write(b"still here")
    pool.close()
    pool.close()
    assert file.closed and (tmp_path / "new").read_bytes() == b"still here"
    for act in (file.read, file.tell, file.readable, written.flush, lambda: written.write(b""), file.statistics):
        with pytest.raises(ValueError, match="closed file"):
            act()
    for act in (lambda: pool.open(tmp_path / "file"), pool.statistics):
        with pytest.raises(ValueError, match="pool is closed"):
            act()
    file.close()


def test_what_was_written_is_in_the_file_when_the_interpreter_ends(tmp_path):
    program = f"import forebay\npool = forebay.Pool('1MiB')\nfile = pool.open({str(tmp_path / 'f')!r}, 'w')\nfile.write(b'at the end')\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "f").read_bytes() == b"at the end"


def test_a_child_of_fork_cannot_use_it_and_ends(tmp_path):
    program = f"""
import errno, os, forebay
pool = forebay.Pool("1MiB")
file = pool.open({str(tmp_path / 'f')!r}, "w")
file.write(b"parent")
child = os.fork()
if child == 0:
    try:
        file.read()
    except OSError as error:
        assert error.errno == errno.ENOTSUP, error
        raise SystemExit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
file.seek(0)
print(file.read())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "5\nb'parent'\n") and (tmp_path / "f").read_bytes() == b"parent"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tmpfs takes root")
def test_a_full_disk_is_an_error_with_its_number(pool, tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted: {mounted.stderr}")
    try:
        file = pool.open(folder / "file", "w")
        with pytest.raises(OSError) as raised:
            file.write(b"z" * (300 << 10))
        assert raised.value.errno == errno.ENOSPC
        file.flush()
        subprocess.run(["mount", "-o", "remount,size=4m", folder], check=True)
        file.seek(0)
        file.write(b"z" * (300 << 10))
        file.close()
        assert (folder / "file").read_bytes() == b"z" * (300 << 10)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
