/* What tests of `forebay run` have programs do with large memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(holds)                                                            \
    do {                                                                        \
        if (!(holds)) {                                                         \
            fprintf(stderr, "%s:%d: %s does not hold: %s\n", __FILE__, __LINE__, #holds, strerror(errno)); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

enum { MEGABYTE = 1 << 20, PAGE = 4096 };

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

/* Writes so many megabytes, one touch a page, twice; says the most memory that was resident. */
static void fill_pages(size_t megabytes) {
    unsigned char *bytes = malloc(megabytes * MEGABYTE);
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
        fill_pages(strtoul(words[2], NULL, 10));
        return 0;
    }
    void (*run)(void) = !strcmp(part, "functions") ? functions : !strcmp(part, "threads") ? threads
                      : !strcmp(part, "files") ? files : forks;
    run();
    printf("%s: all is well\n", part);
    return 0;
}
