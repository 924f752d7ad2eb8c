/* Threads that allocate small blocks, and a handler of signals that touches paged memory wherever it interrupts them; and threads that need several pages at once. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 30, BLOCKS = 64, LENGTH = 8 * MEGABYTE, SIGNALS = 6000, WORDS = 20 };

static volatile unsigned char *memory;
static volatile int handled;

static void touch(int signal) {
    (void)signal;
    unsigned number = (unsigned)__atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
    size_t page = (size_t)(number * 2654435761u) % (LENGTH / PAGE);
    CHECK(memory[page * PAGE] == (unsigned char)page);
    if (number % 2)
        memory[page * PAGE + 1] = (unsigned char)number;
}

static void *allocate(void *number) {
    unsigned state = (unsigned)(uintptr_t)number + 1;
    while (handled < SIGNALS) {
        void *blocks[BLOCKS];
        for (int block = 0; block < BLOCKS; block++) {
            state = state * 1664525u + 1013904223u;
            CHECK((blocks[block] = malloc(16 + (state >> 16) % 5000)));
        }
        for (int block = 0; block < BLOCKS; block++)
            free(blocks[block]);
    }
    return NULL;
}

/* Copies words that lie across the ends of pages. On x86 that is one instruction, which needs four pages. */
static void *straddle(void *number) {
    unsigned state = (unsigned)(uintptr_t)number + 1;
    for (int round = 0; round < WORDS; round++) {
        volatile unsigned char *places[2];
        for (int place = 0; place < 2; place++) {
            state = state * 1664525u + 1013904223u;
            places[place] = memory + (1 + (state >> 8) % (LENGTH / PAGE - 1)) * PAGE - 4;
        }
#ifdef __x86_64__
        __asm__ volatile("movsq" : "+S"(places[0]), "+D"(places[1]) : : "memory");
#else
        memcpy((void *)places[1], (void *)places[0], 8);
#endif
    }
    return NULL;
}

int main(int count, char **words) {
    int straddles = count > 1 && !strcmp(words[1], "straddle");
    memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (size_t page = 0; page < LENGTH / PAGE; page++)
        memory[page * PAGE] = (unsigned char)page;
    CHECK(signal(SIGUSR1, touch) != SIG_ERR);
    pthread_t all[THREADS];
    for (uintptr_t number = 0; number < THREADS; number++)
        CHECK(pthread_create(&all[number], NULL, straddles ? straddle : allocate, (void *)number) == 0);
    while (!straddles && handled < SIGNALS) {
        for (int number = 0; number < THREADS; number++)
            pthread_kill(all[number], SIGUSR1);
        usleep(500);
    }
    for (int number = 0; number < THREADS; number++)
        CHECK(pthread_join(all[number], NULL) == 0);
    printf("%s: all is well\n", straddles ? "straddle" : "interrupted");
    return 0;
}
