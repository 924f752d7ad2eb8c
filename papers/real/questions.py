#!/usr/bin/python3
"""What a user would ask: is a policy of the mount faster than the kernel's page cache for a search, a key-value store, git, a build?

    papers/real/questions.py --forebay target/release/forebay      # as root; some 40 minutes a round

Search: ripgrep ten times over a tree a third larger than the cache; search-large: the same over 160 MiB. Mix: point reads of RocksDB beside scans, by two processes; mix-10: the same
with a store of ten times the cache. Both: search and mix at once. Service: hot reads while `tar` reads ten times the cache, begun when they are warm, or before. Git: a history of two releases is compared and searched. Build: sources are
compiled and linked twice. pgbench-…, tpch: PostgreSQL in a cache of a third of its data. Keeps every run as JSON in runs/; `--show FILE` prints tables.
"""

import functools
import json
import pathlib
import re
import shutil

import databases
import sessions
import stage
from programs import NEW, OLD, quietly, shell, sources
from volumes import checks

HERE = pathlib.Path(__file__).resolve().parent

ROWS, VALUE = 100_000, 400
# The pages of the tree, and of the key-value store, are by these factors more than the cache.
TREE, STORE = 4 / 3, 4
# Managers for the policy lru-sp: MRU for files that are searched again and again, LRU-2 for a store that is read at points and scanned, or for its
# reads alone; what scans use is used once.
SEARCHED = '[[manager]]\nname = "mru"\nowners = ["rg *"]\n'
READ = '[[manager]]\nname = "lru-k"\nfiles = ["*.sst"]\n'
ONCE = '[[manager]]\nname = "access-once"\nowners = ["kv-scan *"]\n'
GETS = '[[manager]]\nname = "lru-k"\nowners = ["kv-get *"]\n'
# The scanning process says of each file that it opens that it uses it once, by `posix_fadvise`.
NOREUSE = "+noreuse"
# Steered by the policy that `forebay compare` advises for a recording of the kernel's run.
ADVISED = f"{stage.STEERED}advised"
NOREUSE_GETS = f"lru-sp{NOREUSE}+lru-2"
# By question, and by what is measured.
OF_MIX = {sessions.MANAGED: READ, "lru-sp+once": ONCE, "lru-sp+once+lru-2": ONCE + GETS, NOREUSE_GETS: GETS}
MANAGERS = {
    "search": {sessions.MANAGED: SEARCHED},
    "search-large": {sessions.MANAGED: SEARCHED},
    "mix": OF_MIX,
    "mix-10": OF_MIX,
    "mix-10-large": OF_MIX,
    "both": {sessions.MANAGED: SEARCHED + READ},
}
SAYS_NOREUSE = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#define OPENS(name) \\
    int name(const char *path, int flags, ...) { \\
        va_list rest; \\
        va_start(rest, flags); \\
        int file = ((int (*)(const char *, int, int))dlsym(RTLD_NEXT, #name))(path, flags, va_arg(rest, int)); \\
        va_end(rest); \\
        if (file >= 0) posix_fadvise(file, 0, 0, POSIX_FADV_NOREUSE); \\
        return file; \\
    }
OPENS(open)
OPENS(open64)
"""


class Search:
    disk = "network-block"
    needs = ("cargo", "rg")

    def fill(self, directory, work):
        shutil.copytree(sources(work), directory / "tree")

    def command(self, directory):
        return {"rg": shell(directory, "for turn in 1 2 3 4 5 6 7 8 9 10; do rg --no-config --hidden --no-ignore --text --count mutex tree; done")}

    def size(self, directory):
        return sum(-(-path.stat().st_size // stage.PAGE) * stage.PAGE for path in (directory / "tree").rglob("*") if path.is_file()) / TREE


class SearchLarge(Search):
    """The same over the sources of what this project is built of, so that what a cache needs for itself matters as little as it does for users."""

    tree = 160 * stage.MIB

    def fill(self, directory, work):
        checks.run("cargo", "vendor", "--locked", "--manifest-path", stage.ROOT / "Cargo.toml", work / "vendored")
        left = self.tree
        for folder in sorted((work / "vendored").iterdir()):
            left -= sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            if left < 0:
                break
            shutil.copytree(folder, directory / "tree" / folder.name)
        shutil.rmtree(work / "vendored")


class Mix:
    """db_bench has no process for two kinds of load, so there are two, under names of their own."""

    disk = "sata-ssd"
    needs = ("db_bench", "gcc")
    # RocksDB says of its files that it reads them at random, which the kernel's events do not show.
    readahead = ("none",)
    rows, store = ROWS, STORE
    seconds = 25
    # How often the reads are made for that long before they are counted.
    warmups = 0

    @property
    def base(self):
        sizes = f"--num={self.rows} --value_size={VALUE} --compression_type=none --block_size=4096 --cache_size=0"
        return f"{sizes} --open_files=-1 --disable_wal=1 --seed=7"

    def fill(self, directory, work):
        # Made elsewhere, so that nothing is left on the volume of files that came and went.
        checks.run("db_bench", "--benchmarks=filluniquerandom,compact", f"--db={work}/store", *self.base.split())
        shutil.move(work / "store", directory / "store")
        for name in ("kv-get", "kv-scan"):
            (directory / name).symlink_to("/usr/bin/db_bench")

    def prepare(self, work):
        self.library = work / "noreuse.so"
        source = self.library.with_suffix(".c")
        source.write_text(SAYS_NOREUSE)
        checks.run("gcc", "-O2", "-shared", "-fPIC", "-o", self.library, source)

    def rehearsal(self, directory):
        return self.command(directory, seconds=1)

    def command(self, directory, before_scan="", seconds=None):
        common = f"--db=store --use_existing_db --readonly {self.base}"
        reads = f"'readrandom[W{self.warmups}-X1]'" if self.warmups else "readrandom"
        get = f"./kv-get --benchmarks={reads} --threads=4 --read_random_exp_range=12 --histogram --duration={seconds or self.seconds} {common}"
        # Scans go on until the gets are done: each says what it took.
        scan = f"./kv-scan --benchmarks=seekrandom --threads=1 --seek_nexts=5000 --readahead_size=131072 --stats_interval=1 {common}"
        run = f"{{ {before_scan} {scan} 2>scan.said & }}; scan=$!; {get} >get.said; kill $scan; wait $scan || true"
        return {"kv": shell(directory, run)}

    def command_noreuse(self, forebay):
        """The same, the scans saying what they will do: to the kernel, or to a mount of this program."""
        advise = f"{forebay} advise --" if forebay else ""
        return lambda directory: self.command(directory, f"env LD_PRELOAD={self.library} {advise}")

    def size(self, directory):
        return sum(path.stat().st_size for path in (directory / "store").rglob("*.sst")) / self.store

    def said(self, directory):
        """Reads a second and their 99th percentile, scans a second."""
        get, scan = ((directory / f"{name}.said").read_text() for name in ("get", "scan"))
        # What comes before the last has warmed the cache.
        seconds, gets = re.findall(r"readrandom .* ([\d.]+) seconds (\d+) operations", get)[-1]
        # As in "... thread 0: (3,42) ops and (2.9,3.1) ops/second in (1.03,13.5) seconds".
        scans, scanned = re.findall(r"\(\d+,(\d+)\) ops and .* in \([\d.]+,([\d.]+)\) seconds", scan)[-1]
        percentile = float(re.findall(r"P99: ([\d.]+)", get)[-1])
        return {"gets_a_second": int(gets) / float(seconds), "get_p99_us": percentile, "scans_a_second": int(scans) / float(scanned)}


class MixOfTen(Mix):
    """The store is ten times the cache, as that of cache_ext."""

    rows, store = 10 * ROWS // 4, 10
    # A cache that a tenth fits in is full in seconds, and knows what is read often much later.
    warmups = 1


class MixOfTenLarge(MixOfTen):
    """The same with so much memory that what steering takes of it is a small part."""

    rows = 10 * MixOfTen.rows
    volume = 1408 * stage.MIB


class Both:
    disk = "sata-ssd"
    needs = (*Search.needs, *Mix.needs)

    def __init__(self):
        self.search, self.mix = Search(), Mix()

    def fill(self, directory, work):
        self.search.fill(directory, work)
        self.mix.fill(directory, work)

    def rehearsal(self, directory):
        return self.search.command(directory) | self.mix.rehearsal(directory)

    def command(self, directory):
        return self.search.command(directory) | self.mix.command(directory)

    def size(self, directory):
        return self.search.size(directory) + self.mix.size(directory)

    def said(self, directory):
        return self.mix.said(directory)


class Service:
    """Random reads of a file of three fifths of the cache, and a `tar` of ten times the cache that begins some seconds later."""

    disk = "sata-ssd"
    needs = ("fio", "tar")
    cache, cold = 160 * stage.MIB, 1600 * stage.MIB
    volume = 1984 * stage.MIB
    seconds = 20
    # How long the reads go on before tar begins, and before they are counted; and what is done before them.
    warm = 10
    first = "cat hot/0 >/dev/null"

    def fill(self, directory, work):
        for folder, size, files in (("hot", self.cache * 3 // 5, 1), ("cold", self.cold, 160)):
            (directory / folder).mkdir()
            for number in range(files):
                (directory / folder / str(number)).write_bytes(bytes(size // files // stage.PAGE * stage.PAGE))

    def reads(self, ramp):
        times = f"--time_based --runtime={self.seconds} --ramp_time={ramp}"
        return f"fio --name=hot --filename=hot/0 --readonly --rw=randread --bs=4k --ioengine=psync --rate_iops=20000 --invalidate=0 {times} --output-format=json"

    def scan(self, seconds):
        # To a pipe: tar does not read what it would write to /dev/null.
        return f"timeout {seconds} sh -c 'while :; do tar cf - cold; done | cat >/dev/null'"

    def command(self, directory):
        scan = f"{{ sleep {self.warm}; {self.scan(self.seconds)}; }} & scan=$!"
        return {"service": shell(directory, f"{self.first}; {scan}; {self.reads(self.warm)} >hot.said; wait $scan || true")}

    def size(self, directory):
        return self.cache

    def said(self, directory):
        """Reads a second, mean and 99th percentile."""
        told = json.loads((directory / "hot.said").read_text())["jobs"][0]["read"]
        times = told["clat_ns"]
        return {"reads_a_second": told["iops"], "mean_us": times["mean"] / 1000, "p99_us": times["percentile"]["99.000000"] / 1000, "p999_us": times["percentile"]["99.900000"] / 1000}


class ServiceAlone(Service):
    def command(self, directory):
        return {"service": shell(directory, f"{self.first}; {self.reads(self.warm)} >hot.said")}


class ServiceApart(Service):
    """tar has a control group of its own, a tenth of the cache: what somebody does who knows beforehand which program scans."""

    group = "/sys/fs/cgroup/memory/forebay-apart"

    def scan(self, seconds):
        enter = f"mkdir -p {self.group} && echo {self.cache // 10} >{self.group}/memory.limit_in_bytes && echo $$ >{self.group}/cgroup.procs"
        return f"timeout {seconds} sh -c '{enter}; while :; do tar cf - cold; done | cat >/dev/null'"

    def command(self, directory):
        (words,) = super().command(directory).values()
        return {"service": [*words[:-1], f"{words[-1]}; until rmdir {self.group} 2>/dev/null; do sleep 0.1; done"]}

    def size(self, directory):
        return self.cache * 9 // 10


class ServiceLate(Service):
    """tar has begun before, so that the reads find a cache that is full of other things."""

    def command(self, directory):
        scan = f"{self.scan(5 + self.warm + self.seconds)} & scan=$!; sleep 5"
        return {"service": shell(directory, f"{scan}; {self.reads(self.warm)} >hot.said; wait $scan || true")}


class Git:
    disk = "network-block"
    needs = ("cargo", "git")
    git = "git -c user.name=nobody -c user.email=nobody@localhost -c gc.auto=0 -c core.fsync=none"

    def fill(self, directory, work):
        tree = directory / "tree"
        tree.mkdir()
        script = f"""{self.git} init -q -b main
cp -r {sources(work, OLD)}/. . && {self.git} add -A -f . && {self.git} commit -q -m old
find . -mindepth 1 -maxdepth 1 -not -name .git -exec rm -r {{}} +
cp -r {sources(work, NEW)}/. . && {self.git} add -A -f . && {self.git} commit -q -m new && {self.git} gc -q"""
        checks.run(*shell(tree, script))

    def command(self, directory):
        looks = [
            f"{self.git} {what} >/dev/null" for what in ("diff --stat HEAD~1", "grep -c mutex", "log --stat", "status", "grep -c callback HEAD~1")
        ]
        return {"git": shell(directory / "tree", " && ".join(looks * 2))}

    def size(self, directory):
        return sum(path.stat().st_size for path in (directory / "tree").rglob("*") if path.is_file()) / 2


class Build:
    """Every twelfth source of the library, compiled, linked, removed and built again."""

    disk = "network-block"
    needs = ("cargo", "gcc", "ar", "xargs")

    def fill(self, directory, work):
        for part in ("crypto", "include", "third_party/fiat"):
            shutil.copytree(sources(work) / part, directory / "tree" / part)
        files = sorted((directory / "tree/crypto").rglob("*.c"))[::12]
        names = [file.relative_to(directory / "tree") for file in files]
        compiles = lambda name: quietly("gcc", "-fsyntax-only", "-Iinclude", name, cwd=directory / "tree")  # noqa: E731
        (directory / "tree/sources").write_text("".join(f"{name}\n" for name in names if compiles(name)))

    def command(self, directory):
        compile = 'xargs -P 2 -n 1 sh -c \'exec gcc -Iinclude -c "$1" -o "$(echo "$1" | tr / _).o"\' gcc <sources && ar rc all.a *.o'
        return {"build": shell(directory / "tree", f"{compile} && rm *.o all.a && {compile} && rm *.o all.a")}

    def size(self, directory):
        return 3 * stage.MIB


CACHES = ["kernel", "kernel" + NOREUSE, "lru", sessions.SUGGESTED, *OF_MIX, "lru-sp" + NOREUSE, "ubm", "clock-pro"]
QUESTIONS = {"search": Search, "search-large": SearchLarge, "mix": Mix, "mix-10": MixOfTen, "mix-10-large": MixOfTenLarge, "both": Both, "git": Git, "build": Build}
QUESTIONS |= {"pgbench-select": databases.Select, "pgbench-mix": databases.Mixed, "pgbench-zipf": databases.Skewed, "tpch": databases.Tpch}
QUESTIONS |= {"service-alone": ServiceAlone, "service": Service, "service-apart": ServiceApart, "service-late": ServiceLate}


RATIOS = {"hit_ratio": "hits, %", "forecast_hit_ratio": "forecast", "found_ratio": "found again, %", "forecast_found_ratio": "forecast without readahead"}


def options():
    parser = sessions.parser(__doc__, delay=None, policies=",".join(CACHES), sizes="")
    parser.add_argument("--questions", default=",".join(QUESTIONS), help="which")
    parser.add_argument("--seconds", type=int, default=Mix.seconds, help="how long the reads of the mix are counted, and the cache is warmed before")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="where volumes are kept once they are filled, for the next session")
    parser.add_argument("--record", default="", metavar="CACHES", help="the kernel's cache, steered or not, of which the uses are recorded in a run before the others")
    return parser.parse_args()


def measure_all(given):
    sessions.begin(given)
    session = sessions.Session("questions", given, HERE)
    Mix.seconds = databases.Database.seconds = given.seconds
    for name in given.questions.split(","):
        question = QUESTIONS[name]()
        sessions.need(*question.needs)
        with stage.folder() as work:
            sizes = []
            if hasattr(question, "prepare"):
                question.prepare(work)

            def rehearse(directory):
                sizes.append(round(question.size(directory) / stage.MIB))  # noqa: B023 - called at once
                return getattr(question, "rehearsal", question.command)(directory)  # noqa: B023

            volume = getattr(question, "volume", 640 * stage.MIB)
            kept = given.keep and given.keep / f"{getattr(question, 'image', name)}.img"
            fill = functools.partial(question.fill, work=work)
            place = stage.Stage(given.forebay, work, volume, given.delay or question.disk, fill, rehearse, kept)
            session.note(**{f"delay_check_{name}": place.check_delay()})
            uses, foreseen, advice = work / "uses.parquet", work / "foreseen.parquet", None
            for which in filter(None, given.record.split(",")):
                labels = {"question": name, "which": f"{which}, recorded"}
                session.run(labels, stage.measure, place, which, sizes[0], question.command, spoken=question.said, recorded=uses)
                if which == stage.KERNEL:
                    uses.rename(foreseen)
                    advice, words = stage.advised(place, foreseen, sizes[0], *getattr(question, "readahead", ()))
                    session.note(**{f"advice_{name}": words})
            for turn in range(given.rounds):
                for which in given.caches.split(","):
                    of_question, managers, said, command = MANAGERS.get(name, {}), None, None, question.command
                    front, managed = (stage.STEERED, which.removeprefix(stage.STEERED)) if which.startswith(stage.STEERED) else ("", which)
                    if managed in OF_MIX and managed not in of_question or NOREUSE in which and not isinstance(question, Mix):
                        continue
                    policy = which.split("+")[0]
                    if which == ADVISED:
                        if not advice:
                            raise stage.Failed(f"there is no advice for `{ADVISED}`: add --record {stage.KERNEL}")
                        policy = stage.STEERED + advice
                    if managed in of_question:
                        policy, managers = f"{front}lru-sp", work / "managers.toml"
                        managers.write_text(of_question[managed])
                    elif which == sessions.SUGGESTED:
                        policy, managers = "lru-sp", stage.suggested(place, sizes[0])
                    if NOREUSE in which:
                        if policy == "lru-sp":
                            said = work / "said.toml"
                            said.write_text(ONCE + of_question.get(which, ""))
                        command = question.command_noreuse(None if policy == stage.KERNEL else given.forebay)
                    labels, spoken = {"question": name, "which": which, "round": turn}, getattr(question, "said", None)
                    session.run(labels, stage.measure, place, policy, sizes[0], command, managers=managers, said=said, spoken=spoken, foreseen=foreseen if foreseen.exists() else None)
    return session.kept["runs"]


def show(runs):
    for question in dict.fromkeys(run["question"] for run in runs):
        of = [run for run in runs if run["question"] == question]
        print(f"\n{question}, a cache of {of[0]['mib']:g} MiB:\n")
        said = list(of[0].get("said", ()))
        rows = []
        for which in sessions.caches(of):
            here = sessions.chosen(of, which=which)
            row = [f"{which} ({here[0]['cache']})" if which == ADVISED else which, sessions.cells(here, lambda run: run["elapsed"])]
            for figure in said:
                if isinstance(here[0]["said"][figure], str):
                    row.append(" ".join(sorted({run["said"][figure] for run in here})))  # noqa: B023
                    continue
                form = "{:.2f}" if figure == "scans_a_second" else "{:.1f}" if figure.endswith(("_us", "_ms", "_seconds")) and question != "mix" else "{:.0f}"
                row.append(sessions.cells(here, lambda run: run["said"][figure], form))  # noqa: B023
            row += [
                sessions.cells(here, lambda run: run["device"]["reads"], "{:.0f}"),
                sessions.cells(here, lambda run: run["device"]["read_bytes"] / stage.MIB, "{:.0f}"),
            ]
            for ratio in RATIOS:
                row.append(sessions.cells(here, lambda run: 100 * run[ratio]) if ratio in here[0] else "–")  # noqa: B023
            rows.append(row)
        sessions.table(["cache", "seconds", *said, "device reads", "MiB", *RATIOS.values()], rows)


if __name__ == "__main__":
    sessions.main(options(), measure_all, show)
