"""CLOCK-Pro, UBM, DULO, ARC and LRU in `forebay serve` on one mixed workload and a disk-like device: elapsed time and hit ratio.

Usage: /usr/bin/python3 mixed_workload.py FOREBAY [OPTIONS]; needs libnbd's module (tests/install-tools.sh).

The workload (a loop, a scan, skewed and uniform random reads, turn by turn) is sent once to a server that records it. What was
recorded is sent again, in the same order, to a server with each policy, with readahead and without. Keeps every figure as JSON in bench/runs/.
"""

import argparse
import csv
import itertools
import subprocess
import sys
import threading
import time

import serving
from measure import keep, machine, program, spread, table
from serving import KIB, MIB
from volumes.server import Server, make_volume

PAGE = 4 * KIB
# The longest request.
MOST = 128 * KIB
WORKLOAD = (
    "mix:references=30k,seed=1+loop:pages=3k,length=16,weight=4+scan:length=32,weight=3"
    "+zipf:pages=7k,alpha=1.0,weight=3+uniform:pages=20k,weight=1"
)


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forebay", type=program, help="the program, built with --release")
    parser.add_argument("--policies", default="clock-pro,ubm,dulo,arc,lru", help="which")
    parser.add_argument("--workload", default=WORKLOAD, help="a synthetic trace, or a file that `forebay convert` reads")
    parser.add_argument("--size", type=int, default=12, help="MiB of the cache")
    parser.add_argument("--delay", default="nearline", help="the disk: a preset of `forebay devices`, or a TOML file")
    parser.add_argument("--readahead", default="0,512KiB", help="the most that the server reads ahead: each is measured")
    parser.add_argument("--depth", type=int, default=1, help="requests at a time; with more than one their order is not quite the same each time")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured")
    parser.add_argument("--quick", action="store_true", help="a part of the workload, to see that it works")
    parser.add_argument("--out", help="the file for the raw figures")
    given = parser.parse_args()
    if given.quick:
        given.workload = given.workload.replace("references=30k", "references=5k")
    return given


def placed(rows):
    """The requests on one volume, and its bytes: the objects of the workload lie one behind the other. Requests in a row that go on where
    the last one ended are one, as in a system's queue."""
    requests = []
    for row in rows:
        if "page" in row:
            offset, length = int(row["page"]) * PAGE, PAGE
        elif "block" in row:
            offset, length = int(row["block"]) * 512, int(row["blocks"]) * 512
        else:
            offset, length = int(row["offset"]), int(row["length"])
        what = row["object"], row["operation"]
        if requests and requests[-1][0] == what and requests[-1][1] + requests[-1][2] == offset and requests[-1][2] < MOST:
            requests[-1] = what, requests[-1][1], requests[-1][2] + length
        else:
            requests.append((what, offset, length))
    ends = {}
    for (object, _), offset, length in requests:
        ends[object] = max(ends.get(object, 0), -(-(offset + length) // MIB) * MIB)
    bases = dict(zip(ends, itertools.accumulate(ends.values(), initial=0)))
    return [(bases[object] + offset, length, operation) for (object, operation), offset, length in requests], sum(ends.values())


def workload(given, folder):
    file = folder / "workload.csv"
    subprocess.run([given.forebay, "convert", given.workload, file], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with file.open() as rows:
        return placed(csv.DictReader(rows))


def send(server, name, requests, depth):
    """Sends all requests, each of `depth` connections the next one when it has its answer: seconds."""
    clients = [server.client(name) for _ in range(depth)]
    following, lock = iter(requests), threading.Lock()
    failures = []

    def work(client):
        try:
            while True:
                with lock:
                    request = next(following, None)
                if request is None:
                    return
                offset, length, operation = request
                if operation == "write":
                    client.pwrite(bytes(length), offset)
                else:
                    client.pread(length, offset)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    if failures:
        sys.exit(f"a request failed: {failures[0]}")
    for client in clients:
        client.shutdown()
    return seconds


def record(given, folder, volume, requests):
    """What a server records of the workload."""
    trace = folder / "recorded.csv"
    recorder = serving.Forebay(given.forebay, "--record", trace)
    with Server(recorder, folder, volume, cache="512MiB") as server:
        send(server, volume.name, requests, depth=1)
        if server.stop():
            sys.exit(f"the recording server failed: {server.told()}")
    with trace.open() as rows:
        recorded = [(int(row["offset"]), int(row["length"]), row["operation"]) for row in csv.DictReader(rows)]
    if recorded != requests:
        sys.exit(f"{len(requests)} requests were sent, and {len(recorded)} others recorded")
    return trace, recorded


def measure(given, folder, volume, requests, policy, readahead):
    volume.readahead = readahead
    program = serving.Forebay(given.forebay, "--policy", policy, "--delay", given.delay)
    with Server(program, folder, volume, cache=f"{given.size}MiB") as server:
        seconds = send(server, volume.name, requests, given.depth)
        figures = program.figures()
        server.stop()
    (cache,), (volume_figures,) = figures["caches"], figures["volumes"]
    return {
        "seconds": seconds,
        "hit_ratio": cache["hits"] / (cache["hits"] + cache["misses"]),
        "references": cache["hits"] + cache["misses"],
        "device_reads": volume_figures["device"]["reads"],
        "device_mib": volume_figures["device"]["read_bytes"] / MIB,
        "pages_read_ahead": volume_figures["pages_read_ahead"],
        "readahead_wasted": cache["readahead_wasted"],
    }


def forecasts(given, trace):
    """Hit ratios that the simulator gives, without readahead."""
    frames = given.size * MIB // PAGE
    # A 32nd of the frames is the laundry's.
    said = serving.compare(given.forebay, trace, given.policies.split(","), frames - max(frames // 32, 1), "--page-size", PAGE)
    return {run["policy"]: run["total"]["hit_ratio"] for run in said}


def show(given, runs, forecast):
    for readahead in given.readahead.split(","):
        print(f"\nReadahead of at most {readahead}:\n")
        rows = []
        for policy in given.policies.split(","):
            of = [run for run in runs if (run["policy"], run["readahead"]) == (policy, readahead)]
            cell = lambda what, form, scale=1: spread([run[what] * scale for run in of], form)  # noqa: E731
            rows.append([policy, cell("seconds", "{:.1f}"), cell("hit_ratio", "{:.2f}", 100)])
            rows[-1] += [f"{forecast[policy] * 100:.2f}", cell("device_reads", "{:.0f}"), cell("device_mib", "{:.0f}")]
        table(["policy", "seconds", "hit ratio, %", "simulated without readahead, %", "device reads", "MiB"], rows)


def main():
    given = options()
    serving.end_in_order()
    figures = {"machine": machine(), "workload": given.workload}
    runs = []
    with serving.folder() as folder:
        requests, size = workload(given, folder)
        volume = make_volume(folder, "volume", size)
        trace, recorded = record(given, folder, volume, requests)
        forecast = forecasts(given, trace)
        for turn in range(given.rounds):
            for readahead in given.readahead.split(","):
                for policy in given.policies.split(","):
                    print(f"round {turn}: {policy}, readahead {readahead}", file=sys.stderr)
                    run = measure(given, folder, volume, recorded, policy, readahead)
                    runs.append({"policy": policy, "readahead": readahead, "round": turn} | run)
    figures |= {"volume_mib": size / MIB, "requests": len(requests), "simulated_hit_ratios": forecast}
    show(given, runs, forecast)
    keep("mixed-workload", given, figures | {"runs": runs})


if __name__ == "__main__":
    main()
