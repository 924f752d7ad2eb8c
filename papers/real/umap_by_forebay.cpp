// UMap's functions as its example umapsort calls them, by a pager of Forebay: the example is built from its own source for both.
//
// UMAP_PAGESIZE is the bytes of a page and UMAP_BUFSIZE the pages of memory, as for UMap; FOREBAY_POLICY names the policy, and
// FOREBAY_IN_PLACE=1 has each fault handled by the thread that has it. One range is mapped at a time.
#include "umap/umap.h"
#include <forebay_pager.h>
#include <cstdio>
#include <cstdlib>
#include <string>

static forebay_pager *pager;
static forebay_region *region;

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *given = getenv(name);
    return given ? strtoull(given, nullptr, 10) : otherwise;
}

extern "C" {
uint64_t umapcfg_get_umap_page_size(void) { return number("UMAP_PAGESIZE", 4096); }
uint64_t umapcfg_get_max_pages_in_buffer(void) { return number("UMAP_BUFSIZE", 0); }
uint64_t umapcfg_get_num_fillers(void) { return 0; }
uint64_t umapcfg_get_num_evictors(void) { return 0; }
int umapcfg_get_evict_low_water_threshold(void) { return 0; }
int umapcfg_get_evict_high_water_threshold(void) { return 0; }

void *umap(void *, size_t length, int, int, int file, off_t) {
    struct forebay_pager_options options = {};
    options.page_size = umapcfg_get_umap_page_size();
    options.memory = umapcfg_get_max_pages_in_buffer() * options.page_size;
    options.policy = getenv("FOREBAY_POLICY");
    options.in_place = getenv("FOREBAY_IN_PLACE") != nullptr;
    pager = forebay_pager_new(&options);
    region = pager ? forebay_region_map(pager, ("/proc/self/fd/" + std::to_string(file)).c_str(), 0) : nullptr;
    if (!region || forebay_region_length(region) < length) {
        fprintf(stderr, "%s\n", forebay_pager_error());
        return MAP_FAILED;
    }
    return forebay_region_address(region);
}

int uunmap(void *, size_t) {
    struct forebay_pager_statistics is;
    forebay_pager_get_statistics(pager, &is, sizeof is);
    fprintf(stderr, "%lu major faults, %lu minor, %lu pages written\n", is.major_faults, is.minor_faults, is.written_pages);
    int unmapped = forebay_region_unmap(region);
    if (unmapped < 0) fprintf(stderr, "%s\n", forebay_pager_error());
    forebay_pager_free(pager);
    return unmapped;
}
}
