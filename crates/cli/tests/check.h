/* What the C programs of these tests share. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(holds)                                                            \
    do {                                                                        \
        if (!(holds)) {                                                         \
            fprintf(stderr, "%s:%d: %s does not hold: %s\n", __FILE__, __LINE__, #holds, strerror(errno)); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

enum { MEGABYTE = 1 << 20, PAGE = 4096 };
