/*
 * Reads a file from beginning to end several times, and says so: most recently used first out, so that a part of a file
 * that is larger than the cache stays for the next round. Under LRU each round would read all of it from storage.
 *
 *     cc -I include -o scan contrib/examples/scan.c
 *     ./scan /mnt/src/cscope.out 3 mru
 */
#include "forebay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names a manager for this process's uses of an open file. A file that is on no mount of forebay's is read all the same. */
static int manage(int file, const char *name)
{
    struct forebay_manage manage = { .process = 0 };
    if (strlen(name) >= sizeof manage.manager) {
        errno = EINVAL;
        return -1;
    }
    strcpy(manage.manager, name);
    if (ioctl(file, FOREBAY_MANAGE, &manage) == 0 || errno == ENOTTY || errno == EOPNOTSUPP)
        return 0;
    return -1;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s FILE ROUNDS MANAGER\n", argv[0]);
        return 2;
    }
    int file = open(argv[1], O_RDONLY);
    if (file < 0) {
        perror(argv[1]);
        return 1;
    }
    if (manage(file, argv[3]) != 0) {
        fprintf(stderr, "%s: manager %s: %s\n", argv[1], argv[3], strerror(errno));
        return 1;
    }
    struct forebay_hint hint = { .advice = FOREBAY_SEQUENTIAL };
    if (ioctl(file, FOREBAY_HINT, &hint) != 0 && errno != ENOTTY)
        perror(argv[1]); /* a hint that is not taken changes no result */

    static char buffer[4096];
    unsigned long long bytes = 0;
    for (int rounds = atoi(argv[2]); rounds > 0; rounds--) {
        off_t offset = 0;
        ssize_t length;
        while ((length = pread(file, buffer, sizeof buffer, offset)) > 0) {
            offset += length;
            bytes += length;
        }
        if (length < 0) {
            perror(argv[1]);
            return 1;
        }
    }
    printf("%llu bytes\n", bytes);
    return 0;
}
