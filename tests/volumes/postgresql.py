"""PostgreSQL on a volume: pgbench on a database larger than the cache, `kill -9` of the server in mid-run, recovery, consistency."""

import glob
import pathlib
import subprocess
import threading
import time

from volumes import mounted
from volumes.checks import Failed, Skipped, check, run
from volumes.server import MIB, make_volume

NEEDS = (*mounted.NEEDS, "runuser")
USER = "postgres"  # made by Debian's package; the server refuses to run as root
SCALE = 10
CACHE = "32MiB"  # the database has 150 MiB
SECONDS_TO_KILL = 6


def programs():
    """Debian keeps them out of PATH, a folder for each version."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not folders:
        raise Skipped("not installed: PostgreSQL's server (Debian: apt-get install postgresql)")
    if run("sh", "-c", f"getent passwd {USER} || true") == "":
        raise Skipped(f"there is no user {USER}")
    return pathlib.Path(folders[-1])


def runs(process):
    """Whether a process that is not our child is there, and no zombie that nobody has waited for."""
    try:
        return pathlib.Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Postgres:
    """A cluster on a mounted volume; as a context, it does not run after its end."""

    def __init__(self, data, sockets):
        self.bin = programs()
        self.data, self.sockets = data, sockets
        self.log = sockets / "postgres.log"

    def command(self, program, *arguments):
        return ["runuser", "-u", USER, "--", str(self.bin / program), *map(str, arguments)]

    def run(self, program, *arguments):
        return run(*self.command(program, *arguments), cwd=self.sockets)

    def client(self, program, *arguments):
        return self.command(program, "--host", self.sockets, *arguments)

    def start(self):
        options = f"-c listen_addresses= -c unix_socket_directories={self.sockets} -c shared_buffers=16MB -c max_wal_size=64MB"
        try:
            self.run("pg_ctl", "start", "--wait", "--pgdata", self.data, "--log", self.log, "--options", options)
        except Failed as error:
            raise Failed(f"{error}\n{self.log.read_text()[-2000:]}") from error

    def stop(self, mode):
        self.run("pg_ctl", "stop", "--wait", "--mode", mode, "--pgdata", self.data)

    def ask(self, query):
        return run(*self.client("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", query, "bench"), cwd=self.sockets).strip()

    def __enter__(self):
        self.sockets.mkdir(exist_ok=True)
        run("chown", USER, self.sockets)
        return self

    def __exit__(self, *_):
        """Stops what runs, though its data may be unreadable by now: by the process ids of the socket's lock file."""
        for lock in self.sockets.glob(".s.PGSQL.*.lock"):
            postmaster = int(lock.read_text().split("\n")[0])
            mounted.quietly("kill", "-QUIT", postmaster)
            end = time.monotonic() + 10
            while runs(postmaster) and time.monotonic() < end:
                time.sleep(0.05)
            mounted.quietly("kill", "-KILL", postmaster)
            lock.unlink(missing_ok=True)


class Recorder(threading.Thread):
    """A client that commits rows 1, 2, 3, … and knows which the database has acknowledged."""

    def __init__(self, postgres):
        super().__init__()
        self.acknowledged = 0
        command = postgres.client("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "bench")
        self.psql = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=postgres.sockets
        )
        self.start()

    def run(self):
        try:
            while True:
                number = self.acknowledged + 1
                self.psql.stdin.write(f"insert into recorded values ({number});\n\\echo {number}\n")
                self.psql.stdin.flush()
                if self.psql.stdout.readline() != f"{number}\n":
                    break
                self.acknowledged = number
        except OSError:
            pass  # the connection has gone, and psql with it

    def over(self):
        self.psql.kill()
        self.psql.wait()
        self.join()


def run_until_killed(server, postgres):
    """How many rows the recorder has had acknowledged when the server was killed."""
    recorder = Recorder(postgres)
    bench = subprocess.Popen(
        postgres.client("pgbench", "-c4", "-j2", "-T15", "--no-vacuum", "bench"),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=postgres.sockets,
    )  # fmt: skip
    try:
        time.sleep(SECONDS_TO_KILL)
        check("pgbench and the recorder are at work", bench.poll() is None and recorder.acknowledged >= 20, f"{recorder.acknowledged} rows")
        server.kill()
        # The database panics, or its clients wait for a page that does not come.
        try:
            told = bench.communicate(timeout=10)[0]
            check("pgbench meets the death of the server", bench.returncode != 0, told)
        except subprocess.TimeoutExpired:
            pass
    finally:
        bench.kill()
        bench.wait()
        recorder.over()
    return recorder.acknowledged


def check_consistent(postgres, acknowledged):
    recorded = postgres.ask("select count(*), min(number), max(number) from recorded").split("|")
    count, least, most = map(int, recorded)
    check(f"each of {acknowledged} acknowledged rows is there", count == most and least == 1 and most >= acknowledged, recorded)
    # One more may have been committed before its acknowledgement was read.
    check("and no other but the one in flight", most <= acknowledged + 1, recorded)
    sums = [postgres.ask(f"select sum({column}) from pgbench_{table}") for column, table in
            [("abalance", "accounts"), ("bbalance", "branches"), ("tbalance", "tellers"), ("delta", "history")]]  # fmt: skip
    check("pgbench: the balances of accounts, branches, tellers and history agree", len(set(sums)) == 1, sums)
    count = postgres.ask("select count(*) from pgbench_accounts")
    check("pgbench: no account is lost", count == str(SCALE * 100_000), count)
    postgres.run("pg_amcheck", "--host", postgres.sockets, "--all", "--install-missing", "--heapallindexed")
    check("pg_amcheck: every table and index is sound", True)


def test(start, folder):
    mounted.need_devices()
    programs()
    volume = make_volume(folder, "volume", 768 * MIB)
    data = folder / "mounted" / "data"
    with start(volume, cache=CACHE) as server, mounted.LoopDevice(server.uri("volume"), folder) as loop:
        run("mkfs.ext4", "-q", loop.device)
        loop.mount()
        run("install", "-d", "-o", USER, "-m", "700", data)
        with Postgres(data, folder / "sockets") as postgres:
            postgres.run("initdb", "--pgdata", data, "--auth=trust", "--data-checksums", "--locale=C", "--encoding=UTF8")
            postgres.start()
            run(*postgres.client("createdb", "bench"), cwd=postgres.sockets)
            run(*postgres.client("pgbench", "--initialize", "--quiet", f"--scale={SCALE}", "bench"), cwd=postgres.sockets)
            postgres.ask("create table recorded (number integer primary key)")
            size = int(postgres.ask("select pg_database_size('bench')"))
            check(f"pgbench's database of {size // MIB} MiB exceeds the cache", size > 3 * 32 * MIB)
            acknowledged = run_until_killed(server, postgres)
    with start(volume, cache=CACHE) as server:
        with mounted.LoopDevice(server.uri("volume"), folder) as loop:
            loop.mount()
            with Postgres(data, folder / "sockets") as postgres:
                postgres.start()
                check("PostgreSQL recovers after kill -9 of the server", "redo done" in postgres.log.read_text())
                check_consistent(postgres, acknowledged)
                run(*postgres.client("pgbench", "-c4", "-j2", "-T3", "--no-vacuum", "bench"), cwd=postgres.sockets)
                sums = postgres.ask("select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)")
                check("and it works on", sums == "t")
                postgres.stop("fast")
            loop.umount()
            said = run("e2fsck", "-f", "-n", loop.device)
            check("fsck after PostgreSQL finds nothing to mend", "? no" not in said, said)
        check("SIGTERM ends the server with 0", server.stop() == 0, server.told())
