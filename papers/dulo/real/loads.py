"""DULO's five loads (section 4.3.1), a tenth of their size or less: each fills a directory, and says its command lines there."""

import random
import shutil
import subprocess
import sys

from programs import NEW, OLD, Glimpse, Postgres, shell, sources
from stage import KIB, MIB, ROOT
from volumes.checks import run

TPCHGEN = "tpchgen-cli==4.0.0"


class TpcH(Postgres):
    """Query 6, a scan of lineitem, five times."""

    name, needs = "tpc-h", ("setpriv", "chown", "python3")
    sizes = (24, 40)
    columns = (
        "orderkey int, partkey int, suppkey int, linenumber int, quantity numeric, extendedprice numeric, discount numeric, tax numeric, "
        "returnflag char, linestatus char, shipdate date, commitdate date, receiptdate date, shipinstruct text, shipmode text, comment text"
    )
    query = (
        "SELECT sum(extendedprice * discount) FROM lineitem WHERE shipdate >= date '1994-01-01' AND shipdate < date '1995-01-01' "
        "AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24;\n"
    )
    queries = query * 5

    def commands(self, directory):
        return {self.name: self.command(directory)}

    def statements(self, work):
        generator = ROOT / "target/tpchgen"
        if not (generator / "bin/tpchgen-cli").exists():
            run(sys.executable, "-m", "venv", generator)
            run(generator / "bin/pip", "install", "--quiet", "--disable-pip-version-check", TPCHGEN)
        run(generator / "bin/tpchgen-cli", "csv", "--scale-factor", "0.05", "--tables", "lineitem", "--output-dir", work)
        copy = f"COPY lineitem FROM '{work}/lineitem.csv' (FORMAT csv, HEADER);"
        return [f"CREATE TABLE lineitem ({self.columns});", copy]


class Diff:
    """Two releases of a library compared. Files lie on the disk in no order of their names."""

    name, needs = "diff", ("cargo", "diff")
    sizes = (8, 16)

    def fill(self, directory, work):
        for version in (OLD, NEW):
            files = [path for part in ("crypto", "include", "ssl") for path in (sources(work, version) / part).rglob("*") if path.is_file()]
            random.Random(version).shuffle(files)
            for file in files:
                place = directory / self.name / version / file.relative_to(sources(work, version))
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, place)

    def commands(self, directory):
        return {self.name: shell(directory / self.name, f"diff -r {OLD} {NEW} || true")}


class Blast:
    """Five sequences looked for in 40,000 random ones: data in order, index and headers at random."""

    name, needs = "blast", ("blastn", "makeblastdb")
    sizes = (8, 16)
    sequences, length = 40_000, 2_000

    def fill(self, directory, work):
        folder = directory / self.name
        folder.mkdir()
        dice = random.Random(7)
        plain = work / "sequences"
        wanted = []
        with plain.open("w") as file:
            for number in range(self.sequences):
                sequence = "".join(dice.choices("ACGT", k=self.length))
                file.write(f">s{number} a sequence made up by a generator of random numbers, number {number} of all\n{sequence}\n")
                if number % (self.sequences // 5) == 7:
                    wanted.append(sequence[500:900])
        (folder / "queries").write_text("".join(f">q{number}\n{sequence}\n" for number, sequence in enumerate(wanted)))
        run("makeblastdb", "-in", plain, "-dbtype", "nucl", "-out", folder / "store")
        plain.unlink()

    def commands(self, directory):
        one = "blastn -db store -query queries -outfmt 6 -num_threads 1"
        return {self.name: shell(directory / self.name, " && ".join([one] * 4))}


class PostMark:
    """500 files of 512 bytes to 32 KiB, 1,500 operations."""

    name, needs = "postmark", ("postmark",)
    sizes = (4, 6)

    def fill(self, directory, work):
        (directory / self.name / "files").mkdir(parents=True)
        settings = (
            "number 500",
            "size 512 32768",
            "transactions 1500",
            "bias read 8",
            "bias create 5",
            "seed 7",
            "location files",
            "buffering false",
        )
        (directory / self.name / "settings").write_text("".join(f"set {setting}\n" for setting in settings) + "run\nquit\n")

    def commands(self, directory):
        return {self.name: shell(directory / self.name, "exec postmark settings")}


class TextSearch(Glimpse):
    """Five clients, each with words of its own, search 50 MB of text: the paper's LXR has 25."""

    name, needs = "text-search", Glimpse.needs
    sizes = (16, 32)
    words = (
        "montgomery callback Edwards",
        "padding certificate cipher",
        "curve digest random",
        "session ticket alert",
        "prime modulus exponent",
    )

    def commands(self, directory):
        looks = lambda words: "; ".join(f"glimpse -y -w -H . {word} || true" for word in words.split())  # noqa: E731
        return {f"client-{number}": shell(directory / self.name, looks(words)) for number, words in enumerate(self.words)}


def age(directory, most, rest):
    """An aged file system: files of agesystem's sizes (89 of 100 have 4 KiB on average, 10 have 64 KiB, 1 has 1 MiB) are made until `most` bytes are
    taken, and deleted at random until `rest` are, so that what is free lies in pieces. agesystem makes and deletes in turns up to half of the space:
    ext4 still finds files a place in one piece then."""
    dice = random.Random(7)
    folders = [directory / f"aged/{number}" for number in range(50)]
    for folder in folders:
        folder.mkdir(parents=True)
    files, taken = [], 0
    while taken < most:
        mean, least = dice.choices([(4 * KIB, 1), (64 * KIB, 4 * KIB), (MIB, 64 * KIB)], (89, 10, 1))[0]
        size = max(int(dice.gauss(mean, mean / 3)), least)
        path = dice.choice(folders) / str(len(files))
        path.write_bytes(b"\xa5" * size)
        files.append((path, -(-size // (4 * KIB)) * 4 * KIB))
        taken += files[-1][1]
    subprocess.run(["sync"], check=True)
    dice.shuffle(files)
    while taken > rest:
        path, size = files.pop()
        path.unlink()
        taken -= size


LOADS = {load.name: load for load in (TpcH, Diff, Blast, PostMark, TextSearch)}
