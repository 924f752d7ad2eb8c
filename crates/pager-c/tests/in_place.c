/* Faults in place: a handler of the program that jumps out of a page's failure, threads that are cancelled while they have faults, and system
 * calls. Its argument is a file to make. */
#include "forebay_pager.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256, RESIDENT = 64, ROUNDS = 200 };

static sigjmp_buf before;
static volatile unsigned char *bytes;
static volatile int begun;

static void must(int holds, const char *what) {
    if (!holds) {
        printf("%s: errno %d (%s), \"%s\"\n", what, errno, strerror(errno), forebay_pager_error());
        exit(1);
    }
}

static void jump(int signal) {
    (void)signal;
    siglongjmp(before, 1);
}

/* Touches the first half of the pages, and may be cancelled between any two. */
static void *touch(void *argument) {
    unsigned page = (unsigned)(size_t)argument;
    for (;; page++) {
        bytes[page * 77 % (PAGES / 2) * PAGE + 8] = 1;
        begun = 1;
        pthread_testcancel();
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct forebay_pager_options options;
    struct forebay_pager_statistics statistics;
    struct sigaction action;
    int descriptor, ends[2];
    must(argc == 2, "a file");
    memset(&action, 0, sizeof action);
    action.sa_handler = jump;
    must(sigaction(SIGBUS, &action, NULL) == 0, "a handler");
    descriptor = open(argv[1], O_RDWR | O_CREAT | O_EXCL, 0600);
    must(descriptor >= 0 && ftruncate(descriptor, PAGES * PAGE) == 0, "the file");

    memset(&options, 0, sizeof options);
    options.memory = RESIDENT * PAGE;
    options.in_place = 1;
    forebay_pager *pager = forebay_pager_new(&options);
    must(pager != NULL, "a pager");
    forebay_region *region = forebay_region_map(pager, argv[1], FOREBAY_BUFFERED);
    must(region != NULL, "a region");
    bytes = forebay_region_address(region);
    for (unsigned page = 0; page < PAGES; page++)
        bytes[page * PAGE] = (unsigned char)page;
    must(forebay_region_sync(region) == 0, "it is durable");
    must(forebay_pager_get_statistics(pager, &statistics, sizeof statistics) >= 0, "statistics");
    must(statistics.major_faults + statistics.minor_faults + statistics.protection_faults >= PAGES, "each page had a fault");
    must(statistics.in_place_faults >= PAGES / 2, "most of them in place");

    must(forebay_pager_serves_system_calls(pager) == 0, "no system calls at absent pages");
    must(pipe(ends) == 0 && write(ends[1], "x", 1) == 1, "a pipe");
    must(read(ends[0], (void *)(bytes + 1), 1) == -1 && errno == EFAULT, "the first page is absent");
    must(bytes[0] == 0 && read(ends[0], (void *)(bytes + 1), 1) == -1 && errno == EFAULT, "it is there, and a write is a fault");
    forebay_held *held = forebay_region_hold(region, 0, PAGE);
    must(held != NULL && read(ends[0], (void *)(bytes + 1), 1) == 1 && bytes[1] == 'x', "held, it may be written");
    forebay_held_release(held);

    for (size_t round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        begun = 0;
        must(pthread_create(&thread, NULL, touch, (void *)round) == 0, "a thread");
        while (!begun)
            usleep(100);
        usleep((useconds_t)(round * 10));
        must(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0, "it ends");
    }
    for (unsigned page = 0; page < PAGES / 2; page++)
        must(bytes[page * PAGE] == (unsigned char)page, "pages after threads were cancelled");
    must(forebay_region_sync(region) == 0, "it is durable");

    must(ftruncate(descriptor, PAGES / 2 * PAGE) == 0, "the file is cut");
    for (volatile unsigned round = 0, jumped = 0; round < ROUNDS; round++) {
        jumped = 0;
        if (sigsetjmp(before, 1) == 0)
            (void)bytes[(PAGES - 1 - round % (PAGES / 4)) * PAGE];
        else
            jumped = 1;
        must(jumped && bytes[round % (PAGES / 2) * PAGE] == (unsigned char)(round % (PAGES / 2)), "it jumps and goes on");
    }
    sigset_t mask;
    must(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGUSR1), "no signal is left blocked");
    must(forebay_region_unmap(region) == 0, "it is unmapped");
    forebay_pager_free(pager);
    puts("all as it ought to be");
    return 0;
}
