"""Programs with large memory, for the experiments on virtual memory: each fills a directory, and says its command lines there.

`before` is what runs a program elsewhere: in a group, or by `forebay run`.
"""

import random
import shlex

from programs import shell
from volumes.checks import run


def numbers(count):
    """Numbers in no order, the same everywhere."""
    number = 1
    for _ in range(count):
        number = number * 16807 % 2147483647
        yield number


class Program:
    """One whose command is its name and `words`."""

    needs = ()

    def enlarge(self, times):
        """Gives it so many times as much memory."""
        raise NotImplementedError(f"{self.name} has one size")

    def fill(self, directory):
        pass

    def commands(self, directory, before=()):
        return {self.name: [*before, *self.words(directory)]}


class Gnuplot(Program):
    """Two curves of 80,000 points, drawn as PostScript, and drawn again seven times from memory, as one who looks at a part of them has it. CLOCK-Pro's has
    a data file of 16 MB; this one has 1 MB, and 10 MB of memory."""

    name, needs, sizes = "gnuplot", ("gnuplot",), "40,55,70,80,90,105"
    points, again = 80_000, 7

    def enlarge(self, times):
        self.points *= times

    def fill(self, directory):
        lines = (f"{place} {number % 1000} {number % 77}\n" for place, number in enumerate(numbers(self.points)))
        (directory / "points").write_text("".join(lines))
        plot = f'plot "{directory}/points" using 1:2 with lines, "{directory}/points" using 1:3 with lines\n'
        (directory / "plot").write_text('set terminal postscript\nset output "/dev/null"\n' + plot + "refresh\n" * self.again)

    def words(self, directory):
        return ["gnuplot", directory / "plot"]


class Gzip(Program):
    """gzip as SPEC CPU2000 has it: a file in memory is compressed there by several levels and decompressed. Debian's gzip has its memory in static
    variables, 1 MB of it, and nothing of that is paged; zlib is the same compressor."""

    name, needs, sizes = "gzip", ("python3",), "40,55,70,80,90,105"
    text = 4_000_000

    def enlarge(self, times):
        self.text *= times

    script = """
import sys, zlib
data = open(sys.argv[1], "rb").read()
for level in (1, 3, 5):
    packed = zlib.compress(data, level)
    if zlib.decompress(packed) != data:
        sys.exit("zlib does not give back what it got")
"""

    def fill(self, directory):
        words = [f"{number:x}" for number in numbers(4000)]
        dice = random.Random(7)
        text = " ".join(dice.choices(words, k=self.text // 8))
        (directory / "text").write_text(text[: self.text])
        (directory / "gzip.py").write_text(self.script)

    def words(self, directory):
        return ["/usr/bin/python3", "-S", "-E", directory / "gzip.py", directory / "text"]


class Loop(Program):
    """An array that is written once and then read ten times in its order."""

    name, needs, sizes = "loop", ("gcc",), "75"
    megabytes = 64

    def enlarge(self, times):
        self.megabytes *= times

    script = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words) {
    size_t length = (size_t)atol(words[1]) << 20;
    char *bytes = malloc(length);
    long sum = 0;
    memset(bytes, 1, length);
    for (int loop = 0; loop < 10; loop++)
        for (size_t at = 0; at < length; at += 64) sum += bytes[at];
    return sum != 10 * (long)(length / 64);
}
"""

    def fill(self, directory):
        (directory / "loop.c").write_text(self.script)
        run("gcc", "-O1", "-o", directory / "loop", directory / "loop.c")

    def words(self, directory):
        return [directory / "loop", self.megabytes]


class Gap(Program):
    """Computing in groups: conjugacy classes, in a workspace of 24 MB at the beginning."""

    name, needs, sizes = "gap", ("gap",), "70,76,82,88,94,105"
    script = """
Print(Length(ConjugacyClasses(MathieuGroup(12))), "\\n");
l := List([1 .. 60000], i -> [i * i mod 10007, i]);;
Sort(l);
Print(Sum(l, x -> x[1]) mod 1000, "\\n");
"""

    def fill(self, directory):
        (directory / "groups.g").write_text(self.script)

    def words(self, directory):
        return ["gap", "-q", "-A", "-m", "24m", "-s", "128m", "-o", "128m", directory / "groups.g"]


class Sort(Program):
    """Sorts a million lines in memory."""

    name, needs, sizes = "sort", ("sort",), "25"
    lines = 600_000

    def enlarge(self, times):
        self.lines *= times

    def fill(self, directory):
        (directory / "lines").write_text("".join(f"{number} line\n" for number in numbers(self.lines)))

    def words(self, directory):
        return ["sort", "--parallel=1", "-S", "256M", "-o", "/dev/null", directory / "lines"]


class Sqlite(Program):
    """A table in memory: made, given an index, then looked up at 20,000 places of which most are among the tenth that is asked for most. The shell is
    given one large block for its pages: those that it allocates one by one are small, and nothing of them would be paged."""

    name, needs, sizes = "sqlite", ("sqlite3",), "25"
    rows, asked, slots = 200_000, 20_000, 7600

    def enlarge(self, times):
        self.rows, self.asked, self.slots = self.rows * times, self.asked * times, self.slots * times

    def fill(self, directory):
        dice = random.Random(7)
        value = "hex(randomblob(60))"
        rows = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {self.rows}) SELECT i, i * 7919 % {self.rows}, {value} FROM n"
        make = f"CREATE TABLE t (i INTEGER PRIMARY KEY, k INTEGER, v TEXT);\nINSERT INTO t {rows};\nCREATE INDEX k ON t (k);\n"
        place = lambda: dice.randrange(self.rows // 10 if dice.random() < 0.8 else self.rows)  # noqa: E731
        asks = "".join(f"SELECT length(v) FROM t WHERE k = {place()};\n" for _ in range(self.asked))
        (directory / "asked.sql").write_text(make + asks)

    def words(self, directory):
        return ["sqlite3", "-batch", "-pagecache", "4368", self.slots, ":memory:", f".read {directory}/asked.sql"]


class Redis(Program):
    """Keys with values of 1,000 bytes, set in order and asked for at random; most are among the tenth that is asked for most. The server alone is paged."""

    name, needs, sizes = "redis", ("redis-server", "redis-cli"), "25"
    keys, asked = 30_000, 20_000

    def enlarge(self, times):
        self.keys, self.asked = self.keys * times, self.asked * times

    def fill(self, directory):
        dice = random.Random(7)
        value = "v" * 1000
        (directory / "sets").write_text("".join(f"SET key:{key} {value}\n" for key in range(self.keys)))
        place = lambda: dice.randrange(self.keys // 10 if dice.random() < 0.9 else self.keys)  # noqa: E731
        (directory / "gets").write_text("".join(f"GET key:{place()}\n" for _ in range(self.asked)))
        settings = "port 0\nsave ''\nappendonly no\ndaemonize no\nenable-debug-command local\n"
        (directory / "redis.conf").write_text(f"{settings}unixsocket {directory}/redis.socket\nlogfile {directory}/redis.log\ndir {directory}\n".replace("''", '""'))

    def commands(self, directory, before=()):
        server = shlex.join(map(str, [*before, "redis-server", directory / "redis.conf"]))
        client = f"redis-cli -s {directory}/redis.socket"
        wait = f"for turn in $(seq 300); do {client} PING >/dev/null 2>&1 && break; sleep 0.1; done"
        # As many lines as answers: what is not there has an empty one.
        work = f"{client} --pipe <sets >/dev/null && test $({client} <gets | grep -c v) = {self.asked}"
        return {self.name: shell(directory, f"{server} & server=$!; {wait}; {work}; done=$?; {client} SHUTDOWN NOSAVE; wait $server; exit $done")}


class Dictionary(Program):
    """A large dictionary of Python's, looked up at random; most keys are among the tenth that is asked for most."""

    name, needs, sizes = "dictionary", ("python3",), "50,75"
    keys, asked = 60_000, 400_000

    def enlarge(self, times):
        self.keys, self.asked = self.keys * times, self.asked * times

    script = """
import random, sys
keys, asked = map(int, sys.argv[1:])
values = {key: str(key) * 70 for key in range(keys)}
dice = random.Random(7)
for _ in range(asked):
    key = dice.randrange(keys // 10 if dice.random() < 0.9 else keys)
    if values[key] != str(key) * 70:
        sys.exit("a value is wrong")
"""

    def fill(self, directory):
        (directory / "dictionary.py").write_text(self.script)

    def words(self, directory):
        return ["/usr/bin/python3", "-S", "-E", directory / "dictionary.py", self.keys, self.asked]


class Java(Program):
    """A map of Java's whose values are asked for as the dictionary's, one in ten of them replaced, so that its collector works."""

    name, needs, sizes = "java", ("java", "javac"), "50,75"
    keys, asked, heap = 60_000, 400_000, 128

    def enlarge(self, times):
        self.keys, self.asked, self.heap = self.keys * times, self.asked * times, self.heap * times

    source = """
import java.util.HashMap;
import java.util.Random;

public class Values {
    static byte[] value(int key) {
        byte[] bytes = new byte[1000];
        bytes[0] = (byte) key;
        bytes[999] = (byte) (key >> 8);
        return bytes;
    }

    public static void main(String[] words) {
        int keys = Integer.parseInt(words[0]), asked = Integer.parseInt(words[1]);
        HashMap<Integer, byte[]> values = new HashMap<>();
        for (int key = 0; key < keys; key++)
            values.put(key, value(key));
        Random dice = new Random(7);
        for (int turn = 0; turn < asked; turn++) {
            int key = dice.nextInt(dice.nextInt(10) < 9 ? keys / 10 : keys);
            byte[] bytes = values.get(key);
            if (bytes[0] != (byte) key || bytes[999] != (byte) (key >> 8))
                System.exit(9);
            if (dice.nextInt(10) == 0)
                values.put(key, value(key));
        }
    }
}
"""

    def fill(self, directory):
        (directory / "Values.java").write_text(self.source)
        run("javac", "-d", directory, directory / "Values.java")

    def words(self, directory):
        return ["java", "-XX:+UseSerialGC", f"-Xmx{self.heap}m", "-cp", directory, "Values", self.keys, self.asked]


class Touch(Program):
    """A loop over three fifths of its pages, and skewed uses of the others between, a word of each: so few instructions that each can be recorded by valgrind."""

    name, needs, sizes = "touch", ("gcc",), "70,85"
    pages, rounds = 24_576, 12

    source = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    size_t pages = atol(argv[1]), rounds = atol(argv[2]), loop = pages * 3 / 5, rest = pages - loop;
    size_t *memory = mmap(NULL, pages << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), wrong = 0, state = 7;
    for (size_t page = 0; page < pages; page++)
        memory[page << 9] = page;
    for (size_t turn = 0; turn < rounds * loop; turn++) {
        wrong += memory[(turn % loop) << 9] != turn % loop;
        if (turn % 2)
            continue;
        state = state * 6364136223846793005u + 1442695040888963407u;
        double part = (double)(state >> 11) / (1ull << 53);
        size_t page = loop + (size_t)(part * part * part * rest), value = memory[page << 9];
        wrong += value != page;
        memory[page << 9] = value;
    }
    return wrong != 0;
}
"""

    def fill(self, directory):
        (directory / "touch.c").write_text(self.source)
        run("gcc", "-O2", directory / "touch.c", "-o", directory / "touch")

    def words(self, directory):
        return [directory / "touch", self.pages, self.rounds]


class Matrix(Program):
    """SciMark2's sparse matrix in compressed rows times a vector, with DULO's N = 3 · 2²⁰ and M = 3 · 2²³ divided by 16."""

    name, needs, sizes = "matrix", ("gcc",), "75,80,84,90,95,105"
    scale, rounds = 16, 3

    def enlarge(self, times):
        self.scale //= times
    source = r"""
#include <stdio.h>
#include <stdlib.h>

/* SciMark2's SparseCompRow: as many elements in each row, at multiples of a step that grows with the rows. */
int main(int argc, char **argv) {
    int n = atoi(argv[1]), nz = atoi(argv[2]), rounds = atoi(argv[3]), per_row = nz / n;
    double *x = malloc(sizeof *x * n), *y = malloc(sizeof *y * n), *value = malloc(sizeof *value * nz);
    int *column = malloc(sizeof *column * nz), *row = malloc(sizeof *row * (n + 1));
    for (int i = 0; i < n; i++) x[i] = 1.0 / (1 + i % 7);
    for (int i = 0; i < n; i++) y[i] = 0;
    for (int i = 0; i < nz; i++) value[i] = 1.0 / (1 + i % 5);
    row[0] = 0;
    for (int r = 0; r < n; r++) {
        int step = r / per_row > 0 ? r / per_row : 1;
        row[r + 1] = row[r] + per_row;
        for (int i = 0; i < per_row; i++) column[row[r] + i] = i * step;
    }
    for (int round = 0; round < rounds; round++)
        for (int r = 0; r < n; r++) {
            double sum = 0;
            for (int i = row[r]; i < row[r + 1]; i++) sum += x[column[i]] * value[i];
            y[r] = sum;
        }
    printf("%f\n", y[n - 1]);
    return 0;
}
"""

    def fill(self, directory):
        (directory / "matrix.c").write_text(self.source)
        run("gcc", "-O2", "-o", directory / "matrix", directory / "matrix.c")

    def words(self, directory):
        return [directory / "matrix", 3 * 2**20 // self.scale, 3 * 2**23 // self.scale, self.rounds]
