"""PostgreSQL in a cache of a third of its data: pgbench's reads, its mix, reads drawn by Zipf's law, and queries of TPC-H.

Its shared buffers are 16 MiB, so what it uses again it finds in the page cache. Data, log and temporary files lie on the volume.
"""

import hashlib
import os
import random
import re
import shutil
import signal

import stage
from programs import shell
from volumes import postgresql
from volumes.checks import Failed, run

# Neither vacuum nor a checkpoint falls into one run and not into another; without workers and compiled code the same pages are read in the same order.
SETTINGS = ["shared_buffers=16MB", "autovacuum=off", "checkpoint_timeout=1h", "max_wal_size=4GB", "max_parallel_workers_per_gather=0", "jit=off"]
# Of the data, by how much the cache is smaller.
PART = 3


class Database:
    disk = "sata-ssd"
    needs = ("pgbench", "setpriv")
    volume = 3072 * stage.MIB
    seconds = 15

    def fill(self, directory, work):
        # Made elsewhere, so that nothing is left on the volume of files that came and went.
        made = work / "made"
        run("install", "-d", "-o", postgresql.USER, "-m", "700", made)
        with postgresql.Postgres(made, work / "sockets", "fsync=off", "maintenance_work_mem=256MB") as postgres:
            postgres.run("initdb", "--pgdata", made, "--auth=trust", "--locale=C", "--encoding=UTF8")
            postgres.start()
            postgres.on_bench("createdb")
            self.load(postgres, work)
            postgres.on_bench("vacuumdb", "--freeze", "--analyze", "--quiet")
            if postgres.stop(signal.SIGINT):
                raise Failed(f"PostgreSQL does not end in order: {postgres.log.read_text()[-2000:]}")
        run("cp", "--archive", made, directory / "data")
        shutil.rmtree(made)
        run("install", "-d", "-o", postgresql.USER, directory / "sockets")

    def served(self, directory, client, end="QUIT"):
        """A command that starts the server, runs a shell's line, and ends the server."""
        programs, sockets = postgresql.programs(), directory / "sockets"
        words = " ".join(f"-c {setting}" for setting in [*SETTINGS, "listen_addresses=", f"unix_socket_directories={sockets}"])
        user = f"setpriv --reuid={postgresql.USER} --regid={postgresql.USER} --clear-groups"
        start = f"{user} {programs}/postgres -D {directory}/data {words} >server.said 2>&1 & server=$!"
        ready = f"until {programs}/pg_isready -q -h {sockets}; do kill -0 $server || exit 1; sleep 0.05; done"
        return shell(directory, f"{start}; {ready}; {client}; done=$?; kill -{end} $server; wait $server; exit $done")

    def connect(self, directory):
        return f"-h {directory}/sockets -U {postgresql.USER}"

    def size(self, directory):
        return sum(path.stat().st_size for path in (directory / "data/base").rglob("*") if path.is_file()) / PART


class Select(Database):
    """One row of all, by its key."""

    image, scale = "pgbench", 64
    words = "--select-only"

    def load(self, postgres, work):
        postgres.on_bench("pgbench", "--initialize", "--quiet", f"--scale={self.scale}")

    def bench(self, directory, seconds, seed):
        return f"pgbench {self.connect(directory)} -n -c 4 -j 2 -T {seconds} --random-seed={seed} {self.words} bench"

    def prepared(self, directory):
        """A line of the shell before the first."""
        return "true"

    def rehearsal(self, directory):
        client = f"{self.prepared(directory)} && pgbench {self.connect(directory)} -n -T 1 --select-only bench"
        return {"postgres": self.served(directory, client, "INT")}

    def command(self, directory):
        warm, counted = (self.bench(directory, self.seconds, seed) for seed in (1, 2))
        return {"postgres": self.served(directory, f"{self.prepared(directory)} && {warm} >warm.said && {counted} >bench.said")}

    def said(self, directory):
        text = (directory / "bench.said").read_text()
        figure = lambda pattern: float(re.search(pattern, text, re.M)[1])  # noqa: E731
        return {"tps": figure(r"^tps = ([\d.]+)"), "mean_ms": figure(r"^latency average = ([\d.]+)")}


class Mixed(Select):
    """pgbench's own mix, which is TPC-B's: three updates, an insert and a select."""

    words = ""


class Skewed(Select):
    """One row by its key, drawn by Zipf's law; rows that are drawn often lie anywhere."""

    words = "-f zipf.sql"
    script = r"\set rows 100000 * :scale\n\set aid 1 + permute(random_zipfian(1, :rows, 1.05) - 1, :rows)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"

    def prepared(self, directory):
        return f"printf '%s' '{self.script.replace(chr(92) + 'n', chr(10))}' >zipf.sql"

    def bench(self, directory, seconds, seed):
        return f"{super().bench(directory, seconds, seed)} -D scale={self.scale}"


TABLES = {
    "region": "r_regionkey int, r_name text, r_comment text",
    "nation": "n_nationkey int, n_name text, n_regionkey int, n_comment text",
    "supplier": "s_suppkey int, s_name text, s_address text, s_nationkey int, s_phone text, s_acctbal numeric, s_comment text",
    "part": "p_partkey int, p_name text, p_mfgr text, p_brand text, p_type text, p_size int, p_container text, p_retailprice numeric, p_comment text",
    "partsupp": "ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost numeric, ps_comment text",
    "customer": "c_custkey int, c_name text, c_address text, c_nationkey int, c_phone text, c_acctbal numeric, c_mktsegment text, c_comment text",
    "orders": "o_orderkey int, o_custkey int, o_orderstatus text, o_totalprice numeric, o_orderdate date, o_orderpriority text, o_clerk text, "
    "o_shippriority int, o_comment text",
    "lineitem": "l_orderkey int, l_partkey int, l_suppkey int, l_linenumber int, l_quantity numeric, l_extendedprice numeric, l_discount numeric, "
    "l_tax numeric, l_returnflag text, l_linestatus text, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct text, l_shipmode text, "
    "l_comment text",
}
PRIMARY = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "customer": "c_custkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}
FOREIGN = {
    "supplier": ["s_nationkey"],
    "partsupp": ["ps_suppkey"],
    "customer": ["c_nationkey"],
    "orders": ["o_custkey"],
    "lineitem": ["l_partkey", "l_suppkey"],
}
# Of the benchmark's queries, by their numbers; what is in braces is drawn.
REVENUE = "sum(l_extendedprice * (1 - l_discount))"
QUERIES = {
    1: "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), avg(l_discount), count(*) FROM lineitem "
    "WHERE l_shipdate <= date '1998-12-01' - {days} GROUP BY 1, 2 ORDER BY 1, 2",
    3: f"SELECT l_orderkey, {REVENUE} AS revenue, o_orderdate, o_shippriority FROM customer, orders, lineitem WHERE c_mktsegment = '{{segment}}' "
    "AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate < date '1995-03-{day}' AND l_shipdate > date '1995-03-{day}' "
    "GROUP BY 1, 3, 4 ORDER BY 2 DESC, 3, 1 LIMIT 10",
    4: "SELECT o_orderpriority, count(*) FROM orders WHERE o_orderdate >= date '{month}' AND o_orderdate < date '{month}' + interval '3 months' "
    "AND EXISTS (SELECT FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate) GROUP BY 1 ORDER BY 1",
    5: f"SELECT n_name, {REVENUE} FROM customer, orders, lineitem, supplier, nation, region WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey "
    "AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = '{region}' "
    "AND o_orderdate >= date '{year}-01-01' AND o_orderdate < date '{year}-01-01' + interval '1 year' GROUP BY 1 ORDER BY 2 DESC, 1",
    6: "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= date '{year}-01-01' "
    "AND l_shipdate < date '{year}-01-01' + interval '1 year' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    10: f"SELECT c_custkey, c_name, {REVENUE}, n_name FROM customer, orders, lineitem, nation WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey "
    "AND o_orderdate >= date '{month}' AND o_orderdate < date '{month}' + interval '3 months' AND l_returnflag = 'R' AND c_nationkey = n_nationkey "
    "GROUP BY 1, 2, 4 ORDER BY 3 DESC, 1 LIMIT 20",
    12: "SELECT l_shipmode, count(*) FILTER (WHERE o_orderpriority < '3'), count(*) FROM orders, lineitem WHERE o_orderkey = l_orderkey "
    "AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate AND l_receiptdate >= date '{year}-01-01' "
    "AND l_receiptdate < date '{year}-01-01' + interval '1 year' GROUP BY 1 ORDER BY 1",
    14: f"SELECT 100 * sum(l_extendedprice * (1 - l_discount)) FILTER (WHERE p_type LIKE 'PROMO%') / {REVENUE} FROM lineitem, part "
    "WHERE l_partkey = p_partkey AND l_shipdate >= date '{month}' AND l_shipdate < date '{month}' + interval '1 month'",
}


class Tpch(Database):
    """Eight of the queries by turns in an order that is drawn, by one client."""

    scale, each = 0.5, 2

    def load(self, postgres, work):
        generator = shutil.which("tpchgen-cli")
        if not generator:
            raise Failed("not installed: tpchgen-cli, which makes TPC-H's tables; install it from PyPI: pip install tpchgen-cli")
        for table, columns in TABLES.items():
            run(generator, "csv", "--scale-factor", self.scale, "--tables", table, "--output-dir", work / "tables", "--quiet")
            postgres.ask(f"CREATE TABLE {table} ({columns})")
            postgres.ask(f"COPY {table} FROM '{work}/tables/{table}.csv' (FORMAT csv, HEADER)")
            os.remove(work / "tables" / f"{table}.csv")
        for table, columns in PRIMARY.items():
            postgres.ask(f"ALTER TABLE {table} ADD PRIMARY KEY ({columns})")
        for table, columns in FOREIGN.items():
            for column in columns:
                postgres.ask(f"CREATE INDEX ON {table} ({column})")

    def queries(self, each):
        dice = random.Random(7)
        order = list(QUERIES) * each
        dice.shuffle(order)
        drawn = lambda: {  # noqa: E731
            "days": dice.randint(60, 120),
            "segment": dice.choice(["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]),
            "day": f"{dice.randint(1, 31):02}",
            "month": f"{dice.randint(1993, 1996)}-{dice.randint(1, 12):02}-01",
            "region": dice.choice(["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]),
            "year": dice.randint(1993, 1997),
        }
        return "".join(f"{QUERIES[number].format(**drawn())};\n" for number in order)

    def asked(self, directory, each, end="QUIT"):
        (directory / "queries.sql").write_text("\\timing on\n" + self.queries(each))
        client = f"psql {self.connect(directory)} -X -A -t -v ON_ERROR_STOP=1 -f queries.sql bench >results.said"
        return {"postgres": self.served(directory, client, end)}

    def rehearsal(self, directory):
        return self.asked(directory, 1, "INT")

    def command(self, directory):
        return self.asked(directory, self.each)

    def said(self, directory):
        """Seconds of all queries, and what tells that their answers are the same."""
        lines = (directory / "results.said").read_text().splitlines()
        times = [float(line.split()[1]) for line in lines if line.startswith("Time: ")]
        if len(times) != len(QUERIES) * self.each:
            raise Failed(f"{len(times)} queries of {len(QUERIES) * self.each} have an answer: {lines[-3:]}")
        answers = "\n".join(line for line in lines if not line.startswith("Time: "))
        return {"query_seconds": sum(times) / 1000, "answers": hashlib.sha256(answers.encode()).hexdigest()[:12]}
