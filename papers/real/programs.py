"""The programs of the UBM and the ACFC papers, with data of about their sizes: each fills a directory, and says its command line there."""

import shlex
import shutil
import subprocess
import sys

from stage import MIB
from volumes import postgresql
from volumes.checks import run

# Published versions never change on crates.io: everyone gets the same sources, 50 MB of C and assembler.
SOURCES, NEW, OLD = "aws-lc-sys", "0.30.0", "0.28.0"
SYMBOLS = "EVP_DigestInit BN_mod_exp_mont OPENSSL_free SSL_CTX_new CRYPTO_BUFFER_new BN_CTX_get X509_NAME EC_POINT_mul CBS CBB_init".split()
WORDS = "montgomery callback Edwards padding certificate".split()


def sources(folder, version=NEW):
    """The sources of a version, got once into a folder."""
    kept = folder / f"vendored-{version}"
    if not kept.exists():
        get = folder / f"get-{version}"
        (get / "src").mkdir(parents=True)
        (get / "src/lib.rs").touch()
        package = '[package]\nname = "get"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n'
        (get / "Cargo.toml").write_text(f'{package}{SOURCES} = "={version}"\n')
        run("cargo", "vendor", "--quiet", kept, cwd=get)
    return kept / SOURCES / "aws-lc"


def shell(folder, script):
    """A shell that goes to a folder and becomes the program of the script's last line."""
    return ["sh", "-c", f"cd {shlex.quote(str(folder))} && {script}"]


class Cscope:
    """Looks for ten symbols: each query scans the cross-reference of two releases, 10 MB for 20 MB of C."""

    name, needs = "cscope", ("cargo", "cscope")

    def fill(self, directory, work):
        folder = directory / self.name
        folder.mkdir()
        for version in (OLD, NEW):
            for part in ("crypto", "include", "ssl"):
                shutil.copytree(sources(work, version) / part, folder / version / part)
        files = sorted(path.relative_to(folder) for path in folder.rglob("*.[ch]"))
        (folder / "cscope.files").write_text("".join(f"{file}\n" for file in files))
        # Without compression, as it was then.
        run("cscope", "-b", "-k", "-c", cwd=folder)
        (folder / "queries").write_text("".join(f"{'013'[at % 3]}{symbol}\n" for at, symbol in enumerate(SYMBOLS)) + "q\n")

    def command(self, directory):
        return shell(directory / self.name, "exec cscope -d -l -k <queries")


class Cpp:
    """Preprocesses every third source of the library for itself, with all the headers that it includes."""

    name, needs = "cpp", ("cargo", "gcc")

    def fill(self, directory, work):
        folder = directory / self.name
        folder.mkdir()
        for part in ("crypto", "include", "ssl", "third_party/fiat"):
            shutil.copytree(sources(work) / part, folder / part)
        files = sorted(path.relative_to(folder) for part in ("crypto", "ssl") for path in (folder / part).rglob("*.c"))[::3]
        good = [file for file in files if quietly("gcc", "-E", "-Iinclude", file, cwd=folder)]  # some are parts of others
        (folder / "sources").write_text("".join(f"{file}\n" for file in good))

    def command(self, directory):
        return shell(directory / self.name, "exec xargs -n 8 gcc -E -Iinclude <sources")


def quietly(*words, **options):
    """Whether a program succeeds."""
    return not subprocess.run(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options).returncode


class Glimpse:
    """Looks for words in 50 MB of text: by an index of blocks, then in their files."""

    name, needs = "glimpse", ("cargo", "glimpse", "glimpseindex")

    def fill(self, directory, work):
        folder = directory / self.name
        shutil.copytree(sources(work), folder / "text", symlinks=True)
        run("glimpseindex", "-o", "-H", folder, folder / "text")

    def command(self, directory):
        # It fails where a word is in no file.
        looks = "; ".join(f"glimpse -y -w -H . {word} || true" for word in WORDS)
        return shell(directory / self.name, looks)


class Postgres:
    """Joins of four relations of the Wisconsin benchmark: 150 KB, 1.5, 7.5 and 15 MB. The server process runs alone."""

    name, needs = "postgres", ("setpriv", "chown")
    relations = {"twothoustup": 600, "twentythoustup": 6000, "hundredthoustup": 30000, "twohundredthoustup": 60000}
    queries = """
SELECT count(b.stringu1) FROM twothoustup a, twohundredthoustup b WHERE b.unique1 = a.unique1 * 97;
SELECT count(a.stringu1) FROM hundredthoustup a, twentythoustup b WHERE a.unique1 = b.unique1 * 5;
SELECT count(a.stringu1) FROM twohundredthoustup a, hundredthoustup b WHERE a.unique1 = b.unique1 AND b.ten = 3;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_indexscan = off; SET enable_bitmapscan = off;
SELECT count(b.stringu1) FROM twothoustup a, twentythoustup b WHERE a.unique2 < 10 AND b.unique1 = a.unique2;
SELECT count(b.stringu1) FROM twothoustup a, hundredthoustup b WHERE a.unique2 < 3 AND b.unique1 = a.unique2;
"""
    as_user = ["setpriv", f"--reuid={postgresql.USER}", f"--regid={postgresql.USER}", "--clear-groups"]
    settings = (
        "fsync=off shared_buffers=256kB work_mem=64kB jit=off wal_level=minimal max_wal_senders=0 archive_mode=off log_checkpoints=off autovacuum=off"
    )

    def server(self, data):
        words = [*self.as_user, postgresql.programs() / "postgres", "--single", "-D", data]
        return [str(word) for word in words] + [word for setting in self.settings.split() for word in ("-c", setting)] + ["postgres"]

    def fill(self, directory, work):
        folder = directory / self.name
        folder.mkdir()
        run("chown", postgresql.USER, folder)
        run(
            *self.as_user,
            postgresql.programs() / "initdb",
            "--no-sync",
            "-D",
            folder / "data",
            "-A",
            "trust",
            "--no-locale",
            "-E",
            "SQL_ASCII",
        )
        # Frozen, so that queries write no hints.
        self.say(folder / "data", [*self.statements(work), "VACUUM (FREEZE, ANALYZE);", "CHECKPOINT;"])
        (folder / "queries.sql").write_text(self.queries.lstrip())

    def statements(self, work):
        load = [self.relation(*one) for one in self.relations.items()]
        return load + [f"CREATE INDEX {name}_unique1 ON {name} (unique1);" for name in list(self.relations)[2:]]

    def say(self, data, statements):
        done = subprocess.run(self.server(data), input="\n".join(statements) + "\n", capture_output=True, text=True)
        if done.returncode or "ERROR" in done.stderr:
            sys.exit(f"PostgreSQL does not load its relations: {done.stderr[-2000:]}")

    def relation(self, name, rows):
        return (
            f"CREATE TABLE {name} AS SELECT (i * 7) % {rows} AS unique1, i AS unique2, i % 2 AS two, i % 10 AS ten, i % 20 AS twenty, "
            f"i % 100 AS hundred, lpad(i::text, 52, 'x') AS stringu1, lpad((i * 7 % {rows})::text, 52, 'x') AS stringu2, "
            f"repeat(substr('AHOV', i % 4 + 1, 1), 52) AS string4 FROM generate_series(0, {rows} - 1) AS i;"
        )

    def command(self, directory):
        folder = directory / self.name
        return shell(folder, f"exec {shlex.join(self.server(folder / 'data'))} <queries.sql")


class Link:
    """Links the C and C++ libraries whole, twice: many small reads of archives."""

    name, needs = "ld", ("gcc", "ld")

    def fill(self, directory, work):
        folder = directory / self.name
        folder.mkdir()
        for library in ("libc.a", "libm-2.36.a", "libstdc++.a", "libgcc.a", "libgcc_eh.a"):
            shutil.copy(run("gcc", f"-print-file-name={library}").strip(), folder)

    def command(self, directory):
        link = "ld -r -o /dev/null --whole-archive libstdc++.a libm-2.36.a libgcc.a libc.a"
        return shell(directory / self.name, f"{link} && {link}")


class Player:
    """Reads a film of 5 MB once, in order, 8 KiB every 15 ms."""

    name, needs = "player", ()

    def fill(self, directory, work):
        (directory / self.name).mkdir()
        (directory / self.name / "film").write_bytes(bytes(range(256)) * (5 * MIB // 256))

    def command(self, directory):
        play = "import sys, time\nfilm = open(sys.argv[1], 'rb', buffering=0)\nwhile film.read(8 * 1024): time.sleep(0.015)"
        return ["/usr/bin/python3", "-c", play, directory / self.name / "film"]


class CpuBound:
    """Adds numbers, and references no files."""

    name, needs = "cpu_bound", ("awk",)

    def fill(self, directory, work):
        pass

    def command(self, directory):
        return ["awk", "BEGIN { while (i < 400000000) sum += i++ }"]


KINDS = {kind.name: kind for kind in (Cscope, Cpp, Glimpse, Postgres, Link, Player, CpuBound)}


class Cast:
    """Several programs, filled into one directory."""

    def __init__(self, names):
        self.programs = {name: KINDS[name]() for name in names}

    @property
    def needs(self):
        return [program for kind in self.programs.values() for program in kind.needs]

    def fill(self, directory, work):
        for program in self.programs.values():
            program.fill(directory, work)

    def commands(self, names):
        """What `stage.measure` runs."""
        return lambda directory: {name: self.programs[name].command(directory) for name in names}
