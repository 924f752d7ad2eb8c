"""fio's nbd engine: jobs at depth 32, each verifying its own part by checksums."""

import json

from volumes.checks import check, run
from volumes.server import MIB, make_volume

NEEDS = ("fio",)
JOBS = 4
PART = 16  # MiB
OPTIONS = f"""
    --name=verified --ioengine=nbd --iodepth=32 --numjobs={JOBS} --group_reporting --size={PART}M --offset_increment={PART}M
    --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randseed=9 --output-format=json
"""


def fio(server, *options):
    output = server.socket.parent / "fio.json"
    run("fio", *OPTIONS.split(), f"--uri={server.uri('volume')}", f"--output={output}", *options, cwd=output.parent)
    said = output.read_text()
    # Notes may come before the JSON.
    return json.loads(said[said.index("{\n") :])["jobs"][0]


def test(start, folder):
    for page in ["4KiB", "64KiB"]:
        for block in ["4k", "24k", "256k"]:
            volume = make_volume(folder, "volume", JOBS * PART * MIB, page=page)
            what = f"{JOBS} jobs of {block} (pages of {page})"
            with start(volume, cache="16MiB") as server:
                job = fio(server, "--rw=randrw", f"--bs={block}")
                written = job["write"]["io_bytes"] / MIB
                held = job["error"] == 0 and written >= JOBS * PART / 4
                check(f"randrw, {what}", held, f"error {job['error']}, {written} MiB written")
            volume = make_volume(folder, "volume", JOBS * PART * MIB, page=page)
            with start(volume, cache="16MiB") as server:
                job = fio(server, "--rw=randwrite", f"--bs={block}", "--do_verify=0")
                server.client("volume").flush()
                server.kill()
            with start(volume, cache="16MiB") as server:
                job = fio(server, "--rw=randwrite", f"--bs={block}", "--verify_only=1")
                read = job["read"]["io_bytes"] / MIB
                held = job["error"] == 0 and read >= JOBS * PART * 0.9
                check(f"randwrite, flush, kill -9, verify, {what}", held, f"error {job['error']}, {read} MiB read")
