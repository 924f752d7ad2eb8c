/* The functions of UMap that its own benchmarks call, over the pager: so the same source is compiled against each library.
 * UMAP_BUFSIZE is the limit, in pages, as UMap reads it; FOREBAY_IN_PLACE=1 has faults handled in place, and FOREBAY_POLICY names a policy. */
#ifndef FOREBAY_UMAP_H
#define FOREBAY_UMAP_H

#include "forebay_pager.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#define UMAP_PRIVATE MAP_PRIVATE
#define UMAP_FAILED MAP_FAILED

static forebay_pager *forebay_umap_pager;
static forebay_region *forebay_umap_region;

static inline uint64_t umapcfg_get_umap_page_size() { return 4096; }
static inline uint64_t umapcfg_get_num_fillers() { return 64; }
static inline uint64_t umapcfg_get_num_evictors() { return 0; }

static inline uint64_t umapcfg_get_max_pages_in_buffer() {
    const char *pages = getenv("UMAP_BUFSIZE");
    return pages ? strtoull(pages, nullptr, 10) : 16384;
}

static inline void *umap(void *, size_t, int, int, int descriptor, off_t) {
    forebay_pager_options options = {};
    options.memory = umapcfg_get_max_pages_in_buffer() * umapcfg_get_umap_page_size();
    options.policy = getenv("FOREBAY_POLICY");
    options.in_place = getenv("FOREBAY_IN_PLACE") != nullptr;
    forebay_umap_pager = forebay_pager_new(&options);
    if (!forebay_umap_pager)
        return UMAP_FAILED;
    std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    forebay_umap_region = forebay_region_map(forebay_umap_pager, path.c_str(), 0);
    return forebay_umap_region ? forebay_region_address(forebay_umap_region) : UMAP_FAILED;
}

static inline int uunmap(void *, size_t) {
    int unmapped = forebay_region_unmap(forebay_umap_region);
    forebay_pager_statistics statistics = {};
    if (getenv("FOREBAY_STATISTICS") && forebay_pager_get_statistics(forebay_umap_pager, &statistics, sizeof statistics) == 0)
        fprintf(stderr, "%llu major, %llu minor, %llu protection faults, %llu read ahead, %llu written\n",
                (unsigned long long)statistics.major_faults, (unsigned long long)statistics.minor_faults,
                (unsigned long long)statistics.protection_faults, (unsigned long long)statistics.read_ahead_pages,
                (unsigned long long)statistics.written_pages);
    forebay_pager_free(forebay_umap_pager);
    return unmapped;
}

#endif
