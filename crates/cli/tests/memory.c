/* What tests of `forebay run` have programs do with large memory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void fill(unsigned char *bytes, size_t length, unsigned seed) {
    for (size_t at = 0; at < length; at++)
        bytes[at] = (unsigned char)((at >> 8) * 31 + at + seed);
}

static int holds(const unsigned char *bytes, size_t length, unsigned seed) {
    for (size_t at = 0; at < length; at++)
        if (bytes[at] != (unsigned char)((at >> 8) * 31 + at + seed))
            return 0;
    return 1;
}

static int zero(const unsigned char *bytes, size_t length) {
    for (size_t at = 0; at < length; at++)
        if (bytes[at])
            return 0;
    return 1;
}

static unsigned char *map(size_t length) {
    unsigned char *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(bytes != MAP_FAILED);
    return bytes;
}

static void functions(void) {
    /* It grows through several sizes, from a small block on. */
    unsigned char *block = malloc(100);
    size_t length = 100;
    fill(block, length, 1);
    while (length < 3 * MEGABYTE) {
        size_t next = length * 3 / 2;
        block = realloc(block, next);
        CHECK(block && malloc_usable_size(block) >= next && holds(block, length, 1));
        fill(block, length = next, 1);
    }
    block = realloc(block, MEGABYTE);
    CHECK(holds(block, MEGABYTE, 1));
    block = realloc(block, 50);
    CHECK(holds(block, 50, 1));
    free(block);

    for (int round = 0; round < 20; round++) {
        unsigned char *zeroes = calloc(3, 300000 + round * 50000);
        CHECK(zeroes && zero(zeroes, 3 * (300000 + round * 50000)));
        fill(zeroes, 3 * (300000 + round * 50000), round);
        free(zeroes);
    }
    volatile size_t too_many = SIZE_MAX / 2;
    CHECK(calloc(too_many, 3) == NULL && errno == ENOMEM);
    CHECK(reallocarray(NULL, too_many, 3) == NULL);
    void *aligned;
    CHECK(posix_memalign(&aligned, 2 * MEGABYTE, 300000) == 0 && (uintptr_t)aligned % (2 * MEGABYTE) == 0);
    free(aligned);
    CHECK(posix_memalign(&aligned, 3, 300000) == EINVAL);
    aligned = aligned_alloc(65536, 655360);
    CHECK(aligned && (uintptr_t)aligned % 65536 == 0);
    free(aligned);

    unsigned char *mapped = map(2 * MEGABYTE);
    CHECK(zero(mapped, 2 * MEGABYTE));
    fill(mapped, 2 * MEGABYTE, 5);
    mapped = mremap(mapped, 2 * MEGABYTE, 5 * MEGABYTE, MREMAP_MAYMOVE);
    CHECK(mapped != MAP_FAILED && holds(mapped, 2 * MEGABYTE, 5) && zero(mapped + 2 * MEGABYTE, 3 * MEGABYTE));
    CHECK(mremap(mapped, 5 * MEGABYTE, MEGABYTE, 0) == mapped && holds(mapped, MEGABYTE, 5));
    CHECK(madvise(mapped, 65536, MADV_DONTNEED) == 0 && zero(mapped, 65536));
    fill(mapped, MEGABYTE, 6);
    CHECK(mprotect(mapped, 65536, PROT_READ) == 0 && holds(mapped, MEGABYTE, 6));
    CHECK(munmap(mapped + 256 * 1024, 256 * 1024) == 0 && holds(mapped, 256 * 1024, 6));
    CHECK(munmap(mapped, MEGABYTE) == 0);
    /* What lies over a part of it is the program's own. */
    mapped = map(MEGABYTE);
    fill(mapped, MEGABYTE, 8);
    void *over = mmap(mapped + 512 * 1024, 256 * 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(over == mapped + 512 * 1024 && zero(over, 256 * 1024) && holds(mapped, 512 * 1024, 8));
    fill(over, 256 * 1024, 9);
    CHECK(munmap(over, 256 * 1024) == 0 && munmap(mapped, MEGABYTE) == 0);
    /* What was protected, freed and is given out again can be written. */
    for (int round = 0; round < 10; round++) {
        mapped = map(3 * MEGABYTE);
        CHECK(zero(mapped, 3 * MEGABYTE));
        fill(mapped, 3 * MEGABYTE, round);
        CHECK(munmap(mapped, 3 * MEGABYTE) == 0);
    }
}

static void *use(void *number) {
    unsigned seed = (unsigned)(uintptr_t)number;
    for (int round = 0; round < 15; round++) {
        size_t length = 150000 + ((seed * 7919 + round * 104729) % 10) * 70000;
        unsigned char *block = malloc(length);
        fill(block, length, seed + round);
        block = realloc(block, 2 * length);
        CHECK(block && holds(block, length, seed + round));
        free(block);
    }
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    for (uintptr_t number = 0; number < 4; number++)
        CHECK(pthread_create(&all[number], NULL, use, (void *)number) == 0);
    for (int number = 0; number < 4; number++)
        CHECK(pthread_join(all[number], NULL) == 0);
}

/* The program may close every file that it finds, and system calls take any memory. */
static void files(void) {
    unsigned char *bytes = map(4 * MEGABYTE);
    fill(bytes, 4 * MEGABYTE, 3);
    close_range(3, ~0U, 0);
    FILE *file = tmpfile();
    CHECK(file && fileno(file) == 3);
    CHECK(fwrite(bytes, 1, 4 * MEGABYTE, file) == 4 * MEGABYTE && fflush(file) == 0);
    unsigned char *again = map(4 * MEGABYTE);
    CHECK(pread(3, again, 4 * MEGABYTE, 0) == 4 * MEGABYTE);
    CHECK(holds(again, 4 * MEGABYTE, 3) && holds(bytes, 4 * MEGABYTE, 3));

    /* What is read past the system's cache goes to pages that may leave meanwhile. */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    int direct = open(path, O_RDWR | O_DIRECT);
    if (direct >= 0)
        for (int round = 0; round < 20; round++) {
            memset(again, 0, 4 * MEGABYTE);
            CHECK(pread(direct, again, 4 * MEGABYTE, 0) == 4 * MEGABYTE && holds(again, 4 * MEGABYTE, 3));
        }
}

static void forks(void) {
    unsigned char *bytes = malloc(3 * MEGABYTE), *mapped = map(2 * MEGABYTE);
    fill(bytes, 3 * MEGABYTE, 1);
    fill(mapped, MEGABYTE, 2);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(holds(bytes, 3 * MEGABYTE, 1) && holds(mapped, MEGABYTE, 2));
        CHECK(zero(mapped + MEGABYTE, MEGABYTE));
        fill(mapped, 2 * MEGABYTE, 7);
        bytes = realloc(bytes, 4 * MEGABYTE);
        CHECK(holds(bytes, 3 * MEGABYTE, 1));
        unsigned char *own = map(3 * MEGABYTE);
        fill(own, 3 * MEGABYTE, 9);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            CHECK(holds(own, 3 * MEGABYTE, 9) && holds(mapped, 2 * MEGABYTE, 7));
            CHECK(munmap(mapped, 2 * MEGABYTE) == 0);
            free(bytes);
            _exit(8);
        }
        int status;
        CHECK(waitpid(grandchild, &status, 0) == grandchild && WEXITSTATUS(status) == 8);
        CHECK(holds(own, 3 * MEGABYTE, 9));
        CHECK(madvise(mapped, 65536, MADV_DONTNEED) == 0 && zero(mapped, 65536));
        free(bytes);
        CHECK(munmap(mapped, 2 * MEGABYTE) == 0);
        _exit(7);
    }
    fill(mapped, MEGABYTE, 4);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(holds(bytes, 3 * MEGABYTE, 1) && holds(mapped, MEGABYTE, 4));
    CHECK(system("exit 3") >> 8 == 3);
}

/* What is unmapped in parts, mapped over, or has advice across several mappings. */
static void mappings(void) {
    unsigned char *bytes = map(8 * MEGABYTE);
    fill(bytes, 8 * MEGABYTE, 1);
    CHECK(munmap(bytes, 4 * MEGABYTE) == 0);
    /* A part of it is unmapped already. */
    CHECK(munmap(bytes, 8 * MEGABYTE) == 0);
    for (int round = 0; round < 40; round++) {
        unsigned char *again = map(4 * MEGABYTE);
        CHECK(zero(again, 4 * MEGABYTE));
        fill(again, 4 * MEGABYTE, round);
    }

    /* What lies over a part goes with all of it; and so it does where all had gone before. */
    bytes = map(8 * MEGABYTE);
    fill(bytes, 8 * MEGABYTE, 2);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    unsigned char *over = mmap(bytes + MEGABYTE + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(over == bytes + MEGABYTE + PAGE && zero(over, 2 * PAGE));
    fill(over, 2 * PAGE, 3);
    CHECK(holds(bytes, MEGABYTE, 2) && bytes[MEGABYTE + 3 * PAGE] == (unsigned char)(((MEGABYTE + 3 * PAGE) >> 8) * 31 + 2));
    CHECK(mmap(bytes, PAGE, PROT_READ, flags, 999, 0) == bytes);
    CHECK(mmap(bytes + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, 999, 0) == MAP_FAILED && errno == EBADF);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(holds(over, 2 * PAGE, 3) && zero(bytes, PAGE) && bytes[PAGE] == (unsigned char)((PAGE >> 8) * 31 + 2) ? 6 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 6);
    CHECK(munmap(bytes, 8 * MEGABYTE) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(*(volatile unsigned char *)over);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    over = mmap(bytes, 8 * MEGABYTE, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(over == bytes && zero(over, 8 * MEGABYTE));
    fill(over, 8 * MEGABYTE, 4);
    for (int round = 0; round < 20; round++)
        fill(map(3 * MEGABYTE), 3 * MEGABYTE, round);
    CHECK(holds(over, 8 * MEGABYTE, 4) && munmap(over, 8 * MEGABYTE) == 0);

    /* Nothing of what was given back is seen again. */
    for (size_t less = PAGE; less <= 40 * PAGE; less += 3 * PAGE) {
        size_t kept = 4 * MEGABYTE - less;
        bytes = map(4 * MEGABYTE);
        fill(bytes, 4 * MEGABYTE, 5);
        CHECK(munmap(bytes + kept, less) == 0);
        bytes = mremap(bytes, kept, 6 * MEGABYTE, MREMAP_MAYMOVE);
        CHECK(bytes != MAP_FAILED && holds(bytes, kept, 5) && zero(bytes + kept, 6 * MEGABYTE - kept));
        CHECK(munmap(bytes, 6 * MEGABYTE) == 0);
    }

    /* Advice across mappings, and across a hole, where the rest has it still. */
    unsigned char *all[4], *least = NULL;
    for (int number = 0; number < 4; number++) {
        fill(all[number] = map(MEGABYTE), MEGABYTE, number);
        least = !least || all[number] < least ? all[number] : least;
    }
    for (int number = 0; number < 4; number++)
        if (all[number] == least + MEGABYTE) {
            CHECK(madvise(least + PAGE, 2 * MEGABYTE - 2 * PAGE, MADV_DONTNEED) == 0);
            CHECK(zero(least + PAGE, 2 * MEGABYTE - 2 * PAGE) && least[1] && all[number][MEGABYTE - 1]);
            fill(least, 2 * MEGABYTE, 9);
            CHECK(munmap(least + MEGABYTE, PAGE) == 0);
            CHECK(madvise(least, 2 * MEGABYTE, MADV_DONTNEED) < 0 && errno == ENOMEM);
            CHECK(zero(least, MEGABYTE) && zero(least + MEGABYTE + PAGE, MEGABYTE - PAGE));
        }

    /* A child has the protections, too. */
    bytes = map(MEGABYTE);
    fill(bytes, MEGABYTE, 3);
    CHECK(mprotect(bytes + 16 * PAGE, 2 * PAGE, PROT_READ) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (!holds(bytes, MEGABYTE, 3))
            _exit(1);
        bytes[15 * PAGE] = bytes[18 * PAGE] = 1;
        bytes[16 * PAGE] = 1;
        _exit(2);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* Changes mappings at random, and says what is in them: the same as without a limit. */
static void change(unsigned seed, int steps) {
    enum { ROOM = 12, LONGEST = 3 * MEGABYTE };
    unsigned char *all[ROOM] = {0};
    size_t lengths[ROOM] = {0};
    /* One in three is a file's, which all share. */
    char path[] = "/var/tmp/forebay-memory-XXXXXX";
    int fd = mkstemp(path), files[ROOM] = {0};
    unsigned char *file = malloc(LONGEST), *zeroes = calloc(1, LONGEST);
    fill(file, LONGEST, seed);
    CHECK(fd >= 0 && unlink(path) == 0 && write(fd, file, LONGEST) == LONGEST);
    uint64_t sum = 14695981039346656037u, state = seed * 2654435761u + 1;
#define NEXT(below) ((size_t)((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % (below))
    for (int step = 0; step < steps; step++) {
        int one = NEXT(ROOM);
        size_t length = lengths[one], pages = length / PAGE;
        unsigned char *bytes = all[one];
        if (!bytes) {
            lengths[one] = (32 + NEXT(LONGEST / PAGE - 32)) * PAGE;
            files[one] = NEXT(3) == 0;
            all[one] = files[one] ? mmap(NULL, lengths[one], PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) : map(lengths[one]);
            CHECK(all[one] != MAP_FAILED && !memcmp(all[one], files[one] ? file : zeroes, lengths[one]));
            continue;
        }
        size_t from = NEXT(pages), count = 1 + NEXT(pages - from);
        switch (NEXT(9)) {
        case 0:
            CHECK(munmap(bytes, length) == 0);
            all[one] = NULL;
            break;
        case 1: /* A hole, which is filled again. */
            CHECK(munmap(bytes + from * PAGE, count * PAGE) == 0);
            if (NEXT(2))
                CHECK(munmap(bytes + from * PAGE, count * PAGE) == 0);
            CHECK(mmap(bytes + from * PAGE, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
                  == bytes + from * PAGE);
            /* What consists of two mappings cannot be made longer. */
            CHECK(zero(bytes + from * PAGE, count * PAGE));
            if (NEXT(3) == 0 && count < pages && !files[one])
                break;
            CHECK(munmap(bytes, length) == 0);
            all[one] = NULL;
            break;
        case 2:
            CHECK(madvise(bytes + from * PAGE, count * PAGE, MADV_DONTNEED) == 0);
            CHECK(!memcmp(bytes + from * PAGE, (files[one] ? file : zeroes) + from * PAGE, count * PAGE));
            break;
        case 3: { /* To another length, in new memory where it cannot be made longer. */
            size_t wanted = (32 + NEXT(LONGEST / PAGE - 32)) * PAGE;
            /* A file's is not made longer where it is paged. */
            if (files[one] && wanted > length)
                break;
            unsigned char *moved = mremap(bytes, length, wanted, MREMAP_MAYMOVE);
            if (moved == MAP_FAILED) {
                moved = map(wanted);
                memcpy(moved, bytes, length < wanted ? length : wanted);
                CHECK(munmap(bytes, length) == 0);
            }
            CHECK(wanted <= length || zero(moved + length, wanted - length));
            all[one] = moved;
            lengths[one] = wanted;
            break;
        }
        case 4:
            CHECK(mprotect(bytes + from * PAGE, count * PAGE, PROT_READ) == 0);
            for (size_t page = from; page < from + count; page++)
                sum = (sum ^ bytes[page * PAGE]) * 1099511628211u;
            CHECK(mprotect(bytes + from * PAGE, count * PAGE, PROT_READ | PROT_WRITE) == 0);
            break;
        case 5: {
            pid_t child = NEXT(4) ? -1 : fork();
            if (child == 0) {
                uint64_t own = 0;
                for (size_t at = 0; at < length; at += 64)
                    own = own * 31 + bytes[at];
                bytes[0]++;
                munmap(bytes, length);
                _exit((int)(own % 251));
            }
            int status = 0;
            if (child > 0)
                CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
            sum = (sum ^ (unsigned)status) * 1099511628211u;
            break;
        }
        default:
            for (size_t at = from * PAGE; at < (from + count) * PAGE; at += 64)
                bytes[at] += (unsigned char)(step + at / 64);
        }
        for (size_t at = 0; all[one] && at < lengths[one]; at += 512)
            sum = (sum ^ all[one][at]) * 1099511628211u;
    }
    CHECK(pread(fd, zeroes, LONGEST, 0) == LONGEST && !memcmp(file, zeroes, LONGEST));
    printf("%016lx\n", (unsigned long)sum);
}

/* Words that threads write while others fork: word 0 of a page is written before that of the next, and the count in the program's own memory at last. */
enum { WRITERS = 3, WORDS = 512 };
static struct {
    uint64_t *pages;
    pthread_mutex_t lock;
    volatile uint64_t locked, count;
} parts[WRITERS];
static volatile int stop, ours;

static void *write_words(void *number) {
    int part = (int)(uintptr_t)number;
    for (uint64_t round = 1; !stop; round++) {
        for (int page = 0; page < WORDS; page++)
            __atomic_store_n(&parts[part].pages[page * (PAGE / 8)], round, __ATOMIC_SEQ_CST);
        parts[part].count = round;
        pthread_mutex_lock(&parts[part].lock);
        parts[part].pages[7] = parts[part].locked = round;
        pthread_mutex_unlock(&parts[part].lock);
        /* Blocks come and go meanwhile, and files are read and written. */
        unsigned char *block = calloc(1, 300000), *other = malloc(200000);
        CHECK(zero(block, 300000));
        memset(other, 7, 200000);
        free(block);
        free(other);
        FILE *file = fopen("/proc/self/maps", "r");
        CHECK(file && fread(&parts[part].pages[10], 1, 2000, file) > 0);
        fclose(file);
    }
    return NULL;
}

static void before(void) {
    for (int part = 0; part < WRITERS; part++)
        pthread_mutex_lock(&parts[part].lock);
    /* Who prepares a fork may write, too. */
    parts[0].pages[9] = ++ours;
}

static void after(void) {
    for (int part = 0; part < WRITERS; part++)
        pthread_mutex_unlock(&parts[part].lock);
}

static int is_whole(void) {
    for (int part = 0; part < WRITERS; part++) {
        uint64_t *pages = parts[part].pages, counted = parts[part].count, last = pages[(WORDS - 1) * (PAGE / 8)];
        if (pages[0] < last || pages[0] > last + 1 || counted > last || counted + 1 < last || pages[7] != parts[part].locked)
            return 0;
        for (int page = 1; page < WORDS; page++)
            if (pages[page * (PAGE / 8)] > pages[(page - 1) * (PAGE / 8)])
                return 0;
    }
    return parts[0].pages[9] == (uint64_t)ours;
}

static void forking(void) {
    pthread_atfork(before, after, after);
    pthread_t threads[WRITERS];
    for (uintptr_t part = 0; part < WRITERS; part++) {
        parts[part].pages = (uint64_t *)map(WORDS * PAGE);
        pthread_mutex_init(&parts[part].lock, NULL);
        CHECK(pthread_create(&threads[part], NULL, write_words, (void *)part) == 0);
    }
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            if (!is_whole())
                _exit(1);
            unsigned char *own = malloc(MEGABYTE);
            fill(own, MEGABYTE, round);
            _exit(holds(own, MEGABYTE, round) && is_whole() ? 5 : 2);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        if (WEXITSTATUS(status) != 5)
            fprintf(stderr, "round %d: a child ended with %d\n", round, WEXITSTATUS(status));
        CHECK(WEXITSTATUS(status) == 5);
        usleep(1000);
    }
    stop = 1;
    for (int part = 0; part < WRITERS; part++)
        CHECK(pthread_join(threads[part], NULL) == 0);
}

/* Gives up its rights, or what lies outside a folder, and goes on. */
static void lose(const char *what) {
    unsigned char *bytes = malloc(4 * MEGABYTE);
    fill(bytes, 4 * MEGABYTE, 1);
    CHECK(!strcmp(what, "rights") ? setuid(65534) == 0 : chroot(what) == 0 && chdir("/") == 0);
    unsigned char *more = malloc(40 * MEGABYTE);
    CHECK(more);
    fill(more, 40 * MEGABYTE, 2);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(holds(bytes, 4 * MEGABYTE, 1) && holds(more, 40 * MEGABYTE, 2));
        unsigned char *own = malloc(4 * MEGABYTE);
        fill(own, 4 * MEGABYTE, 3);
        CHECK(own && holds(own, 4 * MEGABYTE, 3));
        int pipes[2];
        CHECK(pipe(pipes) == 0 && write(pipes[1], own, 50000) == 50000 && read(pipes[0], own + MEGABYTE, 50000) == 50000);
        _exit(4);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 4);
    CHECK(holds(bytes, 4 * MEGABYTE, 1) && holds(more, 40 * MEGABYTE, 2));
    printf("lost %s: all is well\n", what);
}

/* So much memory, had in one of the ways to have it. */
static unsigned char *large(size_t length, const char *way) {
    if (!strcmp(way, "mmap"))
        return map(length);
    if (!strcmp(way, "mmap64"))
        return mmap64(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(way, "noreserve"))
        return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!strcmp(way, "file")) {
        char name[] = "/var/tmp/forebay-memory-XXXXXX";
        int fd = mkstemp(name);
        CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, length) == 0);
        unsigned char *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        close(fd);
        return bytes;
    }
    if (!strcmp(way, "mremap"))
        return mremap(map(MEGABYTE), MEGABYTE, length, MREMAP_MAYMOVE);
    return malloc(length);
}

/* Writes so many megabytes, one touch a page, twice; says the most memory that was resident. */
static void fill_pages(size_t megabytes, const char *way) {
    unsigned char *bytes = large(megabytes * MEGABYTE, way);
    CHECK(bytes && bytes != MAP_FAILED);
    for (int round = 0; round < 2; round++)
        for (size_t at = 0; at < megabytes * MEGABYTE; at += PAGE)
            bytes[at]++;
    for (size_t at = 0; at < megabytes * MEGABYTE; at += PAGE)
        CHECK(bytes[at] == (unsigned char)(bytes[0]));
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    long most = 0;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &most) == 1)
            break;
    printf("%ld KiB at most\n", most);
}

int main(int count, char **words) {
    const char *part = count > 1 ? words[1] : "";
    if (!strcmp(part, "fill")) {
        fill_pages(strtoul(words[2], NULL, 10), count > 3 ? words[3] : "malloc");
        return 0;
    }
    if (!strcmp(part, "end")) {
        fill_pages(strtoul(words[2], NULL, 10), "malloc");
        raise(SIGTERM);
        return 0;
    }
    if (!strcmp(part, "lose")) {
        lose(words[2]);
        return 0;
    }
    if (!strcmp(part, "change")) {
        change(strtoul(words[2], NULL, 10), strtoul(words[3], NULL, 10));
        return 0;
    }
    void (*run)(void) = !strcmp(part, "functions") ? functions : !strcmp(part, "threads") ? threads
                      : !strcmp(part, "files") ? files : !strcmp(part, "mappings") ? mappings
                      : !strcmp(part, "forking") ? forking : forks;
    run();
    printf("%s: all is well\n", part);
    return 0;
}
