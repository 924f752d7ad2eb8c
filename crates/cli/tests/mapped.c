/* What tests of `forebay run` have programs do with files that they map privately. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* The byte of a file at a place. */
static unsigned char at(size_t place) {
    return (unsigned char)((place >> 12) * 31 + place + 1);
}

/* Whether memory has what the file has from a place on. */
static int holds(const unsigned char *bytes, size_t from, size_t length) {
    for (size_t place = 0; place < length; place++)
        if (bytes[place] != at(from + place))
            return 0;
    return 1;
}

static int all(const unsigned char *bytes, size_t length, unsigned char byte) {
    for (size_t place = 0; place < length; place++)
        if (bytes[place] != byte)
            return 0;
    return 1;
}

/* A file of such bytes without a name, on a disk. */
static int file_of(size_t length) {
    char name[] = "/var/tmp/forebay-mapped-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0);
    unsigned char *bytes = malloc(length);
    for (size_t place = 0; place < length; place++)
        bytes[place] = at(place);
    CHECK(pwrite(fd, bytes, length, 0) == (ssize_t)length);
    free(bytes);
    return fd;
}

static unsigned char *map(int fd, size_t length, size_t from, int protection) {
    unsigned char *bytes = mmap(NULL, length, protection, MAP_PRIVATE, fd, from);
    CHECK(bytes != MAP_FAILED);
    return bytes;
}

/* How many mappings of paged files there are, or of those that have an address. */
static int paged(const void *address) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        CHECK(sscanf(line, "%lx-%lx", &start, &end) == 2);
        if (strstr(line, "/memfd:file") && (!address || (start <= (uintptr_t)address && (uintptr_t)address < end)))
            count++;
    }
    fclose(maps);
    return count;
}

static sigjmp_buf back;

static void jump(int signal) {
    siglongjmp(back, signal);
}

/* The signal that a read or a write of a byte is, or 0. */
static int signal_of(volatile unsigned char *byte, int write) {
    struct sigaction action = {.sa_handler = jump}, before[2];
    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
    int signal = sigsetjmp(back, 1);
    if (signal == 0) {
        if (write)
            *byte = 77;
        else
            (void)*byte;
    }
    sigaction(SIGSEGV, &before[0], NULL);
    sigaction(SIGBUS, &before[1], NULL);
    return signal;
}

static void reading(void) {
    size_t length = 3 * MEGABYTE + 100;
    int fd = file_of(length);
    unsigned char *bytes = map(fd, length - 5 * PAGE, 5 * PAGE, PROT_READ);
    unsigned char *small = map(fd, 100000, 0, PROT_READ), *whole = map(fd, length, 0, PROT_READ);
    CHECK(paged(bytes) && paged(whole) && !paged(small));
    /* Its file stays though the program closes it, and opens others by that number. */
    CHECK(close(fd) == 0 && file_of(MEGABYTE) == fd);
    for (int round = 0; round < 2; round++) {
        CHECK(holds(bytes, 5 * PAGE, length - 5 * PAGE) && holds(small, 0, 100000) && holds(whole, 0, length));
        CHECK(all(whole + length, PAGE - 100, 0));
    }
    CHECK(signal_of(bytes + PAGE, 1) == SIGSEGV && holds(bytes, 5 * PAGE, 2 * PAGE));
    int pipes[2];
    CHECK(pipe(pipes) == 0 && write(pipes[1], bytes + MEGABYTE, 10000) == 10000);
    unsigned char copy[10000];
    CHECK(read(pipes[0], copy, 10000) == 10000 && holds(copy, 5 * PAGE + MEGABYTE, 10000));
    CHECK(msync(bytes, MEGABYTE, MS_SYNC) == 0 && msync(bytes, MEGABYTE, MS_ASYNC) == 0);
    /* What can be read can be made writable, as the mapping is private. */
    CHECK(mprotect(bytes + MEGABYTE, MEGABYTE, PROT_READ | PROT_WRITE) == 0);
    memset(bytes + MEGABYTE + 10, 9, 3 * PAGE);
    CHECK(holds(bytes, 5 * PAGE, MEGABYTE + 10) && all(bytes + MEGABYTE + 10, 3 * PAGE, 9));
    CHECK(signal_of(bytes + 2 * MEGABYTE, 1) == SIGSEGV);
    CHECK(holds(whole, 0, length));
    CHECK(munmap(bytes, length - 5 * PAGE) == 0 && munmap(whole, length) == 0 && paged(NULL) == 0);
    CHECK(signal_of(bytes, 0) == SIGSEGV);
}

static void writing(void) {
    size_t length = 2 * MEGABYTE;
    int fd = file_of(length);
    unsigned char *bytes = map(fd, length, 0, PROT_READ | PROT_WRITE);
    CHECK(paged(bytes));
    for (size_t place = 0; place < length; place += 3 * PAGE)
        memset(bytes + place, (int)(place / PAGE), PAGE);
    for (int round = 0; round < 2; round++)
        for (size_t place = 0; place < length; place += PAGE)
            CHECK(place % (3 * PAGE) ? holds(bytes + place, place, PAGE) : all(bytes + place, PAGE, place / PAGE));
    unsigned char *file = malloc(length);
    CHECK(pread(fd, file, length, 0) == (ssize_t)length && holds(file, 0, length));
    /* What was changed is given up, from within a page of any size to within another. */
    size_t from = 30 * PAGE, to = 300 * PAGE;
    CHECK(madvise(bytes + from, to - from, MADV_DONTNEED) == 0);
    for (size_t place = 0; place < length; place += PAGE)
        CHECK(place % (3 * PAGE) || (from <= place && place < to) ? holds(bytes + place, place, PAGE)
                                                                 : all(bytes + place, PAGE, place / PAGE));
    CHECK(madvise(bytes + from, PAGE, MADV_REMOVE) < 0);
    /* System calls write to it, too. */
    CHECK(pread(fd, bytes + 100 * PAGE, 5 * PAGE, 0) == 5 * PAGE && holds(bytes + 100 * PAGE, 0, 5 * PAGE));
    CHECK(munmap(bytes, length) == 0 && paged(NULL) == 0);
    bytes = map(fd, length, 0, PROT_READ | PROT_WRITE);
    CHECK(holds(bytes, 0, length));
    CHECK(munmap(bytes, length) == 0);
}

/* What is unmapped in parts, made shorter, mapped over, or longer than the file. */
static void parts(void) {
    size_t length = 4 * MEGABYTE;
    int fd = file_of(length);
    unsigned char *bytes = map(fd, length, 0, PROT_READ | PROT_WRITE);
    memset(bytes, 5, MEGABYTE);
    CHECK(munmap(bytes + MEGABYTE, MEGABYTE) == 0);
    CHECK(all(bytes, MEGABYTE, 5) && holds(bytes + 2 * MEGABYTE, 2 * MEGABYTE, 2 * MEGABYTE));
    CHECK(signal_of(bytes + MEGABYTE, 0) == SIGSEGV && signal_of(bytes + 2 * MEGABYTE - 1, 1) == SIGSEGV);
    CHECK(munmap(bytes, length) == 0 && paged(NULL) == 0);

    bytes = map(fd, length, 0, PROT_READ | PROT_WRITE);
    memset(bytes, 6, PAGE);
    CHECK(mremap(bytes, length, 3 * MEGABYTE, 0) == bytes);
    CHECK(mremap(bytes, 3 * MEGABYTE, length, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM);
    CHECK(all(bytes, PAGE, 6) && holds(bytes + PAGE, PAGE, 3 * MEGABYTE - PAGE));
    unsigned char *over = mmap(bytes + MEGABYTE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(over == bytes + MEGABYTE && all(over, PAGE, 0));
    memset(over, 7, PAGE);
    CHECK(holds(bytes + MEGABYTE + PAGE, MEGABYTE + PAGE, MEGABYTE) && all(over, PAGE, 7));
    CHECK(munmap(bytes, MEGABYTE) == 0 && munmap(bytes + MEGABYTE + PAGE, 2 * MEGABYTE - PAGE) == 0 && paged(NULL) == 0);
    CHECK(all(over, PAGE, 7) && munmap(over, PAGE) == 0);
    /* All of it at once. */
    bytes = map(fd, length, 0, PROT_READ);
    CHECK(mmap(bytes, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == bytes);
    CHECK(paged(NULL) == 0 && all(bytes, length, 0) && munmap(bytes, length) == 0);

    /* The system's, as before. */
    unsigned char *longer = map(fd, length + 2 * PAGE, 0, PROT_READ), *shared = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(!paged(longer) && !paged(shared) && holds(longer, 0, length) && holds(shared, 0, length));
    CHECK(signal_of(longer + length, 0) == SIGBUS);
    CHECK(!paged(map(fd, length, 0, PROT_READ | PROT_EXEC)) && !paged(map(fd, length, 0, PROT_NONE)));
    int memory = memfd_create("memory", 0);
    CHECK(ftruncate(memory, length) == 0);
    unsigned char *of_memory = map(memory, length, 0, PROT_READ);
    CHECK(!paged(of_memory) && pwrite(memory, "x", 1, 9 * PAGE) == 1 && of_memory[9 * PAGE] == 'x');
    CHECK(mmap(NULL, length, PROT_READ, MAP_PRIVATE, 999, 0) == MAP_FAILED && errno == EBADF);
    CHECK(mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 100) == MAP_FAILED && errno == EINVAL);

    /* The file becomes shorter: what lies behind its end by then is SIGBUS. */
    bytes = map(fd, length, 0, PROT_READ);
    CHECK(paged(bytes) && ftruncate(fd, 2 * MEGABYTE + 10) == 0);
    CHECK(holds(bytes + 2 * MEGABYTE - PAGE, 2 * MEGABYTE - PAGE, PAGE + 10) && all(bytes + 2 * MEGABYTE + 10, PAGE - 10, 0));
    CHECK(signal_of(bytes + 3 * MEGABYTE, 0) == SIGBUS && holds(bytes, 0, 2 * MEGABYTE));
    CHECK(munmap(bytes, length) == 0);
}

static void wait_for(pid_t child, int code) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
        fprintf(stderr, "a child ended with status %x for %d\n", status, code);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static void forks(void) {
    size_t length = 3 * MEGABYTE;
    int fd = file_of(length);
    unsigned char *bytes = map(fd, length, 0, PROT_READ | PROT_WRITE), *other = map(fd, length - PAGE, PAGE, PROT_READ);
    unsigned char *memory = malloc(MEGABYTE);
    memset(memory, 8, MEGABYTE);
    /* Changes of one page in two, some of which cannot be written then. */
    for (size_t place = 0; place < MEGABYTE; place += 2 * PAGE)
        memset(bytes + place, 1, PAGE);
    CHECK(mprotect(bytes + 16 * PAGE, 32 * PAGE, PROT_READ) == 0);
    CHECK(munmap(bytes + 2 * MEGABYTE, 16 * PAGE) == 0);
    close(fd);
    pid_t child = fork();
    if (child == 0) {
        for (size_t place = 0; place < length; place += PAGE) {
            if (2 * MEGABYTE <= place && place < 2 * MEGABYTE + 16 * PAGE)
                continue;
            int changed = place < MEGABYTE && place % (2 * PAGE) == 0;
            CHECK(changed ? all(bytes + place, PAGE, 1) : holds(bytes + place, place, PAGE));
        }
        CHECK(holds(other, PAGE, length - PAGE) && all(memory, MEGABYTE, 8) && !paged(bytes));
        CHECK(signal_of(bytes + 2 * MEGABYTE, 0) == SIGSEGV && signal_of(bytes + 20 * PAGE, 1) == SIGSEGV);
        CHECK(signal_of(other, 1) == SIGSEGV);
        memset(bytes, 2, 16 * PAGE);
        CHECK(madvise(bytes, 4 * PAGE, MADV_DONTNEED) == 0 && holds(bytes, 0, 4 * PAGE) && all(bytes + 4 * PAGE, 12 * PAGE, 2));
        CHECK(mprotect(bytes + 16 * PAGE, 32 * PAGE, PROT_READ | PROT_WRITE) == 0);
        CHECK(madvise(bytes + 16 * PAGE, 2 * PAGE, MADV_DONTNEED) == 0 && holds(bytes + 16 * PAGE, 16 * PAGE, 2 * PAGE));
        /* It has a pager of its own for what it maps. */
        int own = file_of(length);
        unsigned char *mapped = map(own, length, 0, PROT_READ | PROT_WRITE);
        CHECK(paged(mapped));
        memset(mapped, 4, PAGE);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            CHECK(all(mapped, PAGE, 4) && holds(mapped + PAGE, PAGE, length - PAGE));
            CHECK(all(bytes + 4 * PAGE, 12 * PAGE, 2) && holds(bytes, 0, 4 * PAGE) && holds(other, PAGE, length - PAGE));
            CHECK(munmap(bytes, length) == 0 && munmap(other, length - PAGE) == 0 && munmap(mapped, length) == 0);
            CHECK(signal_of(other, 0) == SIGSEGV);
            _exit(3);
        }
        wait_for(grandchild, 3);
        CHECK(munmap(bytes, length) == 0 && munmap(other, length - PAGE) == 0);
        CHECK(all(mapped, PAGE, 4) && holds(mapped + PAGE, PAGE, length - PAGE));
        _exit(2);
    }
    memset(bytes + MEGABYTE, 3, MEGABYTE);
    wait_for(child, 2);
    CHECK(all(bytes, PAGE, 1) && holds(bytes + PAGE, PAGE, PAGE) && all(bytes + MEGABYTE, MEGABYTE, 3));
    CHECK(munmap(bytes, length) == 0 && holds(other, PAGE, length - PAGE) && munmap(other, length - PAGE) == 0);
    /* What was cut off a file is not missed in a child that does not use it. */
    fd = file_of(length);
    bytes = map(fd, length, 0, PROT_READ | PROT_WRITE);
    memset(bytes, 6, length);
    CHECK(ftruncate(fd, MEGABYTE) == 0);
    child = fork();
    if (child == 0)
        _exit(all(bytes, MEGABYTE, 6) && signal_of(bytes + 2 * MEGABYTE, 0) == SIGBUS ? 4 : 1);
    wait_for(child, 4);
}

/* A file that the program could not open any more is paged. */
static void rights(void) {
    int fd = file_of(2 * MEGABYTE);
    CHECK(fchmod(fd, 0) == 0);
    unsigned char *before = map(fd, 2 * MEGABYTE, 0, PROT_READ | PROT_WRITE);
    CHECK(setuid(65534) == 0);
    unsigned char *bytes = map(fd, MEGABYTE, MEGABYTE, PROT_READ | PROT_WRITE);
    close(fd);
    CHECK(paged(before) && paged(bytes) && holds(before, 0, 2 * MEGABYTE) && holds(bytes, MEGABYTE, MEGABYTE));
    memset(bytes, 1, MEGABYTE);
    CHECK(all(bytes, MEGABYTE, 1) && munmap(bytes, MEGABYTE) == 0 && munmap(before, 2 * MEGABYTE) == 0);
}

/* How much of this process is resident, in KiB. */
static long resident(const char *what) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long found = -1;
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, what, strlen(what)))
            CHECK(sscanf(line + strlen(what), ": %ld", &found) == 1);
    fclose(status);
    return found;
}

/* How many open files the library has, and how many blocks of 512 bytes of swap space. */
static void kept(int *files, long *blocks) {
    DIR *threads = opendir("/proc/self/task");
    struct dirent *thread, *file;
    *files = 0;
    *blocks = 0;
    while ((thread = readdir(threads))) {
        char path[600], name[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", thread->d_name);
        FILE *comm = fopen(path, "r");
        if (comm) {
            CHECK(fgets(name, sizeof name, comm));
            fclose(comm);
        }
        if (strcmp(name, "forebay-run\n"))
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/fd", thread->d_name);
        DIR *open = opendir(path);
        while ((file = readdir(open))) {
            struct stat status;
            char target[600] = "", link[900];
            snprintf(link, sizeof link, "%s/%s", path, file->d_name);
            ++*files;
            /* A file without a name in the folder of swap space. */
            if (readlink(link, target, sizeof target - 1) > 0 && !strncmp(target, "/var/tmp/#", 10) && stat(link, &status) == 0)
                *blocks = status.st_blocks > *blocks ? status.st_blocks : *blocks;
        }
        closedir(open);
    }
    closedir(threads);
}

static int shared_file, rounds;

static void *come_and_go(void *number) {
    size_t seed = (uintptr_t)number;
    for (int round = 0; round < rounds; round++) {
        size_t from = ((seed * 7 + round) % 64) * PAGE, length = (32 + (seed * 31 + round * 17) % 400) * PAGE;
        unsigned char *bytes = map(shared_file, length, from, PROT_READ | PROT_WRITE);
        CHECK(holds(bytes + length - PAGE, from + length - PAGE, PAGE));
        memset(bytes + 2 * PAGE, 9, 3 * PAGE);
        CHECK(holds(bytes, from, PAGE) && all(bytes + 2 * PAGE, 3 * PAGE, 9));
        /* In two steps, or at once. What is unmapped already may be another thread's by the second step. */
        size_t first = round % 3 == 0 ? length / 2 / PAGE * PAGE : 0;
        CHECK(first == 0 || munmap(bytes, first) == 0);
        CHECK(munmap(bytes + first, length - first) == 0);
    }
    return NULL;
}

static void rounds_of(int count, int threads) {
    shared_file = file_of(2 * MEGABYTE);
    rounds = 100;
    come_and_go(NULL);
    long before = resident("VmRSS"), swapped;
    int files, more_files;
    kept(&files, &swapped);
    rounds = count / threads;
    pthread_t ids[8];
    for (uintptr_t number = 0; number < (uintptr_t)threads; number++)
        CHECK(pthread_create(&ids[number], NULL, come_and_go, (void *)number) == 0);
    /* Children have what is mapped meanwhile. */
    unsigned char *changed = map(shared_file, MEGABYTE, 0, PROT_READ | PROT_WRITE);
    for (int round = 0; threads > 1 && round < 20; round++) {
        memset(changed + 20 * round * PAGE / 2, round, 2 * PAGE);
        pid_t child = fork();
        if (child == 0)
            _exit(all(changed + 20 * round * PAGE / 2, 2 * PAGE, round) && holds(changed + 255 * PAGE, 255 * PAGE, PAGE) ? 6 : 1);
        wait_for(child, 6);
    }
    CHECK(munmap(changed, MEGABYTE) == 0);
    for (int number = 0; number < threads; number++)
        CHECK(pthread_join(ids[number], NULL) == 0);
    long more = resident("VmRSS") - before;
    if (more > 3000)
        fprintf(stderr, "%ld KiB more are resident\n", more);
    CHECK(more <= 3000 && paged(NULL) == 0);
    kept(&more_files, &swapped);
    CHECK(files > 0 && more_files == files);
    /* What lies in swap space is given back with its mapping. */
    unsigned char *bytes = map(shared_file, 2 * MEGABYTE, 0, PROT_READ | PROT_WRITE), *memory = malloc(6 * MEGABYTE);
    memset(bytes, 1, 2 * MEGABYTE);
    memset(memory, 2, 6 * MEGABYTE);
    long with, without;
    kept(&files, &with);
    CHECK(munmap(bytes, 2 * MEGABYTE) == 0);
    kept(&files, &without);
    CHECK(with - without >= 2 * MEGABYTE / 512 / 2 && all(memory, 6 * MEGABYTE, 2));
}

/* More files than a process has regions for. */
static void many(void) {
    enum { FILES = 600 };
    static unsigned char *bytes[FILES];
    int fd = file_of(MEGABYTE);
    for (int file = 0; file < FILES; file++)
        bytes[file] = map(fd, MEGABYTE / 2, file % 64 * PAGE, PROT_READ | PROT_WRITE);
    CHECK(paged(bytes[0]) && !paged(bytes[FILES - 1]));
    unsigned char *memory = malloc(40 * MEGABYTE);
    CHECK(memory);
    memset(memory, 1, 40 * MEGABYTE);
    for (int file = 0; file < FILES; file++) {
        CHECK(holds(bytes[file] + 64 * PAGE, (file % 64 + 64) * PAGE, PAGE));
        CHECK(munmap(bytes[file], MEGABYTE / 2) == 0);
    }
    CHECK(paged(NULL) == 0 && all(memory, 40 * MEGABYTE, 1));
    bytes[0] = map(fd, MEGABYTE, 0, PROT_READ);
    CHECK(paged(bytes[0]) && holds(bytes[0], 0, MEGABYTE));
}

/* Reads a file of so many megabytes by its mapping twice; says the sum of its bytes, and the most memory that was resident. */
static void sum(const char *path, size_t megabytes) {
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    uint64_t *words = (uint64_t *)map(fd, megabytes * MEGABYTE, 0, PROT_READ);
    uint64_t sum = 0;
    for (int round = 0; round < 2; round++)
        for (size_t word = 0; word < megabytes * MEGABYTE / 8; word++)
            sum = sum * 31 + words[word];
    CHECK(munmap(words, megabytes * MEGABYTE) == 0);
    printf("%016lx: %ld KiB at most\n", (unsigned long)sum, resident("VmHWM"));
}

int main(int count, char **words) {
    const char *part = count > 1 ? words[1] : "";
    if (!strcmp(part, "sum")) {
        sum(words[2], strtoul(words[3], NULL, 10));
        return 0;
    }
    if (!strcmp(part, "rounds"))
        rounds_of(atoi(words[2]), atoi(words[3]));
    else if (!strcmp(part, "reading"))
        reading();
    else if (!strcmp(part, "writing"))
        writing();
    else if (!strcmp(part, "parts"))
        parts();
    else if (!strcmp(part, "forks"))
        forks();
    else if (!strcmp(part, "rights"))
        rights();
    else
        many();
    printf("%s: all is well\n", part);
    return 0;
}
