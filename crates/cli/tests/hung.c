/* What goes on beside a mapped file whose storage hangs. The file is named; a line on standard input says that its storage hangs now. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { LENGTH = 2 * MEGABYTE };
static volatile unsigned char *mapped, *other;
static volatile int began, ended;

static void *read_page(void *page) {
    __atomic_add_fetch(&began, 1, __ATOMIC_SEQ_CST);
    volatile unsigned char byte = mapped[(uintptr_t)page * PAGE];
    (void)byte;
    __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *write_page(void *page) {
    __atomic_add_fetch(&began, 1, __ATOMIC_SEQ_CST);
    mapped[(uintptr_t)page * PAGE] = 1;
    __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *unmap(void *nothing) {
    (void)nothing;
    CHECK(munmap((void *)other, LENGTH) == 0);
    __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Says one thing, and waits for a line. */
static void step(const char *what) {
    char line[16];
    printf("%s\n", what);
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
}

static void *touch_other(void *page) {
    __atomic_add_fetch(&began, 1, __ATOMIC_SEQ_CST);
    volatile unsigned char byte = other[(uintptr_t)page * PAGE];
    (void)byte;
    return NULL;
}

int main(int count, char **words) {
    CHECK(count == 2);
    int fd = open(words[1], O_RDONLY);
    CHECK(fd >= 0);
    mapped = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    other = mmap(NULL, LENGTH, PROT_READ, MAP_PRIVATE, fd, LENGTH);
    CHECK(mapped != MAP_FAILED && other != MAP_FAILED);
    unsigned char *large = malloc(MEGABYTE);
    memset(large, 7, MEGABYTE);
    step("hang");
    pthread_t reader, writer, toucher, unmapper;
    CHECK(pthread_create(&reader, NULL, read_page, (void *)10) == 0);
    CHECK(pthread_create(&writer, NULL, write_page, (void *)100) == 0);
    CHECK(pthread_create(&toucher, NULL, touch_other, (void *)50) == 0);
    while (began < 3)
        usleep(1000);
    /* They are about to wait for the storage: earlier, less is tried. */
    usleep(300000);
    CHECK(ended == 0);
    /* What is given back of it, and what has to do with the service otherwise. The range of `other` is unmapped though a thread waits for it. */
    CHECK(munmap((void *)(mapped + MEGABYTE), MEGABYTE) == 0);
    CHECK(pthread_create(&unmapper, NULL, unmap, NULL) == 0);
    for (int round = 0; round < 20; round++) {
        unsigned char *block = malloc(3 * MEGABYTE + round * 4 * MEGABYTE);
        CHECK(block);
        block[0] = block[3 * MEGABYTE - 1] = 1;
        free(block);
    }
    for (int round = 0; round < 5; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(large[0] == 7 && large[MEGABYTE - 1] == 7 ? 3 : 1);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    }
    CHECK(pthread_join(unmapper, NULL) == 0 && ended == 1);
    printf("hung: all is well\n");
    fflush(stdout);
    /* The threads wait still, and go with the process. */
    _exit(0);
}
