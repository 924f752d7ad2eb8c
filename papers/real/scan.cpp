// An array that is larger than the memory, read in a loop, beside an index that is asked once for each page of it.
//
//   scan FILE INDEX_PAGES LOOPS MEMORY [POLICY [random]]
//
// The file begins with the index. Built with -DUMAP or -DFOREBAY the file is mapped by these; else by the kernel's mmap. With `random` nothing is
// read ahead. Each loop prints its seconds and the microseconds of a look into the index. What is read is added up, and the sum is printed: it is the same for all.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(UMAP)
#include "umap/umap.h"
#elif defined(FOREBAY)
#include <forebay_pager.h>
#endif

static const size_t PAGE = 4096;

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char **argv) {
    if (argc < 5) return fprintf(stderr, "usage: scan FILE INDEX_PAGES LOOPS MEMORY [POLICY [random]]\n"), 2;
    size_t index = strtoull(argv[2], nullptr, 10), loops = strtoull(argv[3], nullptr, 10);
    struct stat is;
    if (stat(argv[1], &is) < 0) return perror(argv[1]), 1;
    size_t length = is.st_size, pages = length / PAGE;
#if defined(FOREBAY)
    struct forebay_pager_options options = {};
    options.memory = strtoull(argv[4], nullptr, 10);
    options.policy = argc > 5 ? argv[5] : nullptr;
    forebay_pager *pager = forebay_pager_new(&options);
    forebay_region *region = pager ? forebay_region_map(pager, argv[1], FOREBAY_READ_ONLY) : nullptr;
    if (!region) return fprintf(stderr, "%s\n", forebay_pager_error()), 1;
    if (argc > 6 && forebay_region_advise(region, 0, 0, FOREBAY_RANDOM) < 0) return fprintf(stderr, "%s\n", forebay_pager_error()), 1;
    const volatile uint64_t *words = static_cast<const volatile uint64_t *>(forebay_region_address(region));
#elif defined(UMAP)
    // The memory is in UMAP_BUFSIZE.
    int file = open(argv[1], O_RDWR | O_DIRECT);
    void *mapped = umap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED) return perror("umap"), 1;
    const volatile uint64_t *words = static_cast<const volatile uint64_t *>(mapped);
#else
    int file = open(argv[1], O_RDONLY);
    void *mapped = mmap(nullptr, length, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) return perror("mmap"), 1;
    const volatile uint64_t *words = static_cast<const volatile uint64_t *>(mapped);
#endif
    uint64_t sum = 0, random = 1;
    for (size_t loop = 0; loop < loops; loop++) {
        double begin = now(), looks = 0;
        for (size_t page = index; page < pages; page++) {
            for (size_t word = 0; word < PAGE / 8; word += 8) sum += words[page * (PAGE / 8) + word];
            random = random * 6364136223846793005u + 1442695040888963407u;
            double look = now();
            sum += words[(random >> 33) % index * (PAGE / 8)];
            looks += now() - look;
        }
        printf("loop %.6f %.3f\n", now() - begin, looks / (pages - index) * 1e6);
        fflush(stdout);
    }
#if defined(FOREBAY)
    struct forebay_pager_statistics told;
    forebay_pager_get_statistics(pager, &told, sizeof told);
    printf("pager %lu major %lu minor %lu frames %lu ahead %lu unmapped\n", told.major_faults, told.minor_faults, told.frames, told.read_ahead_pages,
           told.unmapped_pages);
#endif
    printf("sum %llu\n", (unsigned long long)sum);
    // Nothing was written, and a process' end unmaps everything.
    _exit(fflush(stdout));
}
