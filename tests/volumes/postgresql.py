"""PostgreSQL on a volume: pgbench on a database larger than the cache, `kill -9` of the server in mid-run, recovery, consistency."""

import glob
import pathlib
import pwd
import signal
import subprocess
import threading

from volumes import mounted
from volumes.checks import Failed, Skipped, check, check_runs, run, wait_until
from volumes.server import MIB, make_volume

NEEDS = mounted.NEEDS
USER = "postgres"  # made by Debian's package; the server refuses to run as root
SCALE = 10
CACHE = "32MiB"  # the database has 150 MiB
ROWS_TO_KILL = 1000


def programs():
    """Debian keeps them out of PATH, a folder for each version."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not folders:
        raise Skipped("not installed: PostgreSQL's server (Debian: apt-get install postgresql)")
    try:
        pwd.getpwnam(USER)
    except KeyError as error:
        raise Skipped(f"there is no user {USER}") from error
    return pathlib.Path(folders[-1])


class Postgres:
    """A cluster on a mounted volume, with further settings if wanted; as a context, it does not run after its end."""

    def __init__(self, data, sockets, *settings):
        self.bin = programs()
        self.data, self.sockets, self.settings = data, sockets, settings
        self.log = sockets / "postgres.log"
        self.process = None
        sockets.mkdir(exist_ok=True)
        run("chown", USER, sockets)

    def popen(self, program, *arguments, **options):
        """One of PostgreSQL's programs, in a session of its own: Ctrl-C reaches the test alone."""
        command = [self.bin / program, *arguments]
        return subprocess.Popen(list(map(str, command)), **self.as_user(), start_new_session=True, **options)

    def as_user(self):
        return {"user": USER, "group": USER, "extra_groups": [], "cwd": self.sockets}

    def run(self, program, *arguments):
        return run(self.bin / program, *arguments, **self.as_user())

    def on_bench(self, program, *arguments):
        return self.run(program, "--host", self.sockets, *arguments, "bench")

    def ask(self, query):
        return self.on_bench("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", query).strip()

    def start(self):
        settings = ["listen_addresses=", f"unix_socket_directories={self.sockets}", "shared_buffers=16MB", "max_wal_size=256MB"]
        options = [word for setting in [*settings, *self.settings] for word in ("-c", setting)]
        with self.log.open("ab") as log:
            # Our own child, which can be waited for; pg_ctl's would be left to whoever cares for orphans.
            self.process = self.popen("postgres", "-D", self.data, *options, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        ready = [self.bin / "pg_isready", "--quiet", "--host", self.sockets]
        wait_until(lambda: self.process.poll() is not None or subprocess.run(ready).returncode == 0, 60)
        if self.process.poll() is not None or subprocess.run(ready).returncode != 0:
            raise Failed(f"PostgreSQL does not start: {self.log.read_text()[-2000:]}")

    def stop(self, how):
        self.process.send_signal(how)
        return self.process.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            try:
                self.stop(signal.SIGQUIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Recorder(threading.Thread):
    """A client that commits rows 1, 2, 3, … and knows which the database has acknowledged."""

    def __init__(self, postgres):
        super().__init__()
        self.acknowledged = 0
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.psql = postgres.popen("psql", "--host", postgres.sockets, "-qAtX", "-v", "ON_ERROR_STOP=1", "bench", **pipes)
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
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    bench = postgres.popen("pgbench", "--host", postgres.sockets, "-c4", "-j2", "-T60", "--no-vacuum", "bench", **pipes)
    try:
        wait_until(lambda: recorder.acknowledged >= ROWS_TO_KILL, 15)
        at_work = bench.poll() is None and recorder.acknowledged >= 20
        check("pgbench and the recorder are at work", at_work, f"{recorder.acknowledged} rows")
        server.kill()
        # The database panics, or its clients wait for a page that does not come.
        wait_until(lambda: bench.poll() is not None, 5)
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
    columns = {"accounts": "abalance", "branches": "bbalance", "tellers": "tbalance", "history": "delta"}
    sums = [postgres.ask(f"select sum({column}) from pgbench_{table}") for table, column in columns.items()]
    check("pgbench: the balances of accounts, branches, tellers and history agree", len(set(sums)) == 1, sums)
    count = postgres.ask("select count(*) from pgbench_accounts")
    check("pgbench: no account is lost", count == str(SCALE * 100_000), count)
    amcheck = [postgres.bin / "pg_amcheck", "--host", postgres.sockets, "--all", "--install-missing", "--heapallindexed"]
    check_runs("pg_amcheck: every table and index is sound", *amcheck, **postgres.as_user())


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
            postgres.on_bench("createdb")
            postgres.on_bench("pgbench", "--initialize", "--quiet", f"--scale={SCALE}")
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
                postgres.on_bench("pgbench", "-c4", "-j2", "-T3", "--no-vacuum")
                agree = "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)"
                check("and it works on", postgres.ask(agree) == "t")
                check("PostgreSQL stops in order", postgres.stop(signal.SIGINT) == 0, postgres.log.read_text()[-2000:])
            loop.umount()
            mounted.check_file_system("PostgreSQL", loop.device)
        check("SIGTERM ends the server with 0", server.stop() == 0, server.told())
