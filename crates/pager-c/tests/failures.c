/* What the functions answer when they are used wrongly, and swap space. Its argument is a folder. */
#include "forebay_pager.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int holds, const char *what) {
    if (!holds) {
        printf("%s: errno %d (%s), \"%s\"\n", what, errno, strerror(errno), forebay_pager_error());
        exit(1);
    }
}

/* The last call failed with this number, and a sentence that has this in it. */
static void failed(int number, const char *sentence) {
    must(errno == number && strstr(forebay_pager_error(), sentence) != NULL, sentence);
}

int main(int argc, char **argv) {
    struct forebay_pager_options options;
    struct forebay_pager_statistics statistics;
    char path[4096];
    must(argc == 2, "a folder");
    memset(&options, 0, sizeof options);

    must(!forebay_pager_new(NULL), "no options");
    failed(EINVAL, "options is NULL");
    must(!forebay_pager_new(&options), "no memory");
    failed(EINVAL, "16 pages, 64 KiB, or more");
    options.memory = UINT64_MAX;
    must(!forebay_pager_new(&options), "too much");
    failed(EINVAL, "more than this machine's");
    options.memory = 1 << 20;
    options.policy = "no-such";
    must(!forebay_pager_new(&options), "no policy");
    failed(EINVAL, "no-such");
    options.policy = NULL;
    options.sampling = -1;
    forebay_pager *pager = forebay_pager_new(&options);
    must(pager != NULL, "a pager");
    must(forebay_pager_serves_system_calls(pager) >= 0, "it says whether");

    snprintf(path, sizeof path, "%s/missing", argv[1]);
    must(!forebay_region_map(pager, path, 0), "no file");
    failed(ENOENT, "missing");
    must(!forebay_region_map(pager, argv[1], 0), "a folder is no file");
    failed(EINVAL, "name a regular file");
    must(!forebay_region_map(pager, path, 64), "unknown flags");
    failed(EINVAL, "flags 64");
    must(!forebay_region_map(NULL, path, 0), "no pager");
    failed(EINVAL, "pager is NULL");
    must(!forebay_region_map_swap(pager, argv[1], 0), "no length");
    failed(EINVAL, "0 bytes");
    must(!forebay_region_map_swap(pager, path, 4096), "no folder");
    failed(ENOENT, "missing");
    must(!forebay_region_map_swap(pager, argv[1], 1ULL << 63), "too long");
    failed(EFBIG, "ask for less, or name another folder");

    forebay_region *region = forebay_region_map_swap(pager, argv[1], 8 << 20);
    must(region != NULL, "swap space");
    must(forebay_region_length(region) == 8 << 20, "its length");
    unsigned char *bytes = (unsigned char *)forebay_region_address(region);
    for (int turn = 0; turn < 2; turn++)
        for (size_t at = 0; at < 8 << 20; at += 512) {
            must(bytes[at] == (turn ? (unsigned char)(at / 512 + 1) : 0), "what was there before");
            bytes[at] = (unsigned char)(at / 512 + 1);
        }
    must(forebay_region_advise(region, 0, 4096, 99) < 0, "no such advice");
    failed(EINVAL, "advice 99");
    must(forebay_region_advise(region, 8 << 20, 4096, FOREBAY_WILL_NEED) < 0, "behind the end");
    failed(EINVAL, "beyond its end");
    must(forebay_region_advise(region, 4096, 4096, FOREBAY_ZERO) == 0, "zeroes");
    must(bytes[4096] == 0 && bytes[8192] == 17, "in these bytes alone");
    must(!forebay_region_hold(region, 0, 8 << 20), "too many pages");
    failed(EINVAL, "2048 pages cannot be held");
    must(!forebay_region_hold(region, 8 << 20, 1), "behind the end");
    failed(EINVAL, "beyond the end");
    forebay_held *held = forebay_region_hold(region, 8192, 8192);
    must(held != NULL, "two pages");
    must(bytes[8192] == 17, "that have their bytes");
    forebay_held_release(held);
    forebay_held_release(NULL);
    must(forebay_region_sync(region) == 0, "a sync");
    must(forebay_pager_get_statistics(pager, &statistics, sizeof statistics) == 0, "figures");
    must(statistics.page_bytes == 4096 && statistics.memory_bytes <= 1 << 20, "of this pager");
    must(statistics.resident_pages <= statistics.frames && statistics.frames * 4096 == statistics.memory_bytes, "within its limit");
    must(statistics.major_faults > 0 && statistics.unmapped_pages == 0 && statistics.failed_faults == 0, "and these faults");
    must(forebay_pager_get_statistics(pager, NULL, 0) < 0, "no structure");
    failed(EINVAL, "statistics is NULL");

    /* It lives on with its region. */
    forebay_pager_free(pager);
    bytes[0] = 1;
    must(forebay_region_unmap(region) == 0, "it is unmapped");
    must(forebay_region_unmap(NULL) < 0, "no region");
    failed(EINVAL, "region is NULL");
    forebay_pager_free(NULL);
    puts("all as it ought to be");
    return 0;
}
