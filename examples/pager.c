/* Counts the words of a text in a table larger than the memory that it may take.
 *
 *     cargo build --release -p forebay-pager-c
 *     cc -O2 -Iinclude -o pager examples/pager.c -Ltarget/release -lforebay_pager_c
 *     LD_LIBRARY_PATH=target/release ./pager table.bin clock-pro < text
 *
 * The table is a file of 32 MiB that is made if it is missing; at most 4 MiB of it are resident. Run it again, and the counts go on.
 */
#include "forebay_pager.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SLOTS (4u << 20)

static int fail(const char *what) {
    fprintf(stderr, "pager: %s: %s\n", what, forebay_pager_error());
    return 1;
}

/* FNV-1a. */
static uint64_t add(uint64_t hash, int character) {
    return (hash ^ (uint64_t)character) * 1099511628211u;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: pager TABLE [POLICY] < TEXT\n");
        return 2;
    }
    int file = open(argv[1], O_RDWR | O_CREAT, 0666);
    if (file < 0 || ftruncate(file, SLOTS * sizeof(uint64_t)) < 0) {
        perror(argv[1]);
        return 1;
    }
    close(file);

    struct forebay_pager_options options = {.memory = 4 << 20, .policy = argc > 2 ? argv[2] : NULL};
    forebay_pager *pager = forebay_pager_new(&options);
    if (!pager)
        return fail("no pager");
    forebay_region *region = forebay_region_map(pager, argv[1], 0);
    if (!region)
        return fail(argv[1]);
    forebay_region_advise(region, 0, 0, FOREBAY_RANDOM);

    uint64_t *counts = forebay_region_address(region);
    uint64_t words = 0, most = 0, hash = 0;
    for (int character; (character = getchar()) != EOF || hash;) {
        if (character != EOF && isalpha(character)) {
            hash = add(hash ? hash : 14695981039346656037u, tolower(character));
        } else if (hash) {
            uint64_t count = ++counts[hash % SLOTS];
            most = count > most ? count : most;
            words++;
            hash = 0;
        }
    }

    if (forebay_region_sync(region) < 0)
        return fail("not all is in storage");
    struct forebay_pager_statistics seen;
    forebay_pager_get_statistics(pager, &seen, sizeof seen);
    printf("%" PRIu64 " words, the most frequent %" PRIu64 " times\n", words, most);
    printf("%" PRIu64 " major faults, %" PRIu64 " minor; %" PRIu64 " of %" PRIu64 " KiB resident\n", seen.major_faults, seen.minor_faults,
           seen.resident_pages * seen.page_bytes / 1024, (uint64_t)SLOTS * sizeof(uint64_t) / 1024);
    if (forebay_region_unmap(region) < 0)
        return fail("unmap");
    forebay_pager_free(pager);
    return 0;
}
