/* A program beside accesses to a file, in one memory: two regions of a pager, one of swap space and one of the file, under one limit and one policy.
 *
 *   beside PROGRAM PAGES ROUNDS POLICY BYTES [FILE ACCESSES]
 *
 * PROGRAM is `sor`, SciMark2's successive over-relaxation on a square matrix of that many pages, or `sort`, quicksort of as many; both are done ROUNDS
 * times; with 0 rounds it only says how many frames there are. Of FILE so many pages are read, one after each step of the program, none twice, in no order. Prints the faults as JSON: those that read the
 * file are its accesses, as none of these pages is resident, and the rest is the program's. */
#include <forebay_pager.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, PER_PAGE = PAGE / sizeof(double), PER_STEP = 8 };

static const volatile unsigned char *file_bytes;
static unsigned long long file_pages, accesses, done, steps, every;

/* A step of the program, which may be followed by an access to the file. */
static void step(void) {
    steps++;
    if (file_bytes && every && steps % every == 0 && done < accesses) {
        /* A multiplier that has no factor in common with the pages: each comes once. */
        (void)file_bytes[(done++ * 2654435761ULL) % file_pages * PAGE];
    }
}

static void sor(double *matrix, int side, int rounds) {
    for (int round = 0; round < rounds; round++)
        for (int i = 1; i < side - 1; i++) {
            double *row = matrix + (size_t)i * side, *above = row - side, *below = row + side;
            for (int j = 1; j < side - 1; j++) {
                row[j] = 1.25 * 0.25 * (above[j] + below[j] + row[j - 1] + row[j + 1]) - 0.25 * row[j];
                if (j % PER_STEP == 0) step();
            }
        }
}

static void quicksort(double *from, double *to) {
    while (to - from > 32) {
        double pivot = from[(to - from) / 2], *low = from, *high = to - 1;
        while (low <= high) {
            while (*low < pivot) low++;
            while (*high > pivot) high--;
            if (low <= high) {
                double swapped = *low;
                *low++ = *high;
                *high-- = swapped;
                step();
            }
        }
        quicksort(from, high + 1);
        from = low;
    }
    for (double *next = from + 1; next < to; next++)
        for (double *place = next; place > from && place[-1] > *place; place--) {
            double swapped = *place;
            *place = place[-1];
            place[-1] = swapped;
        }
}

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, forebay_pager_error());
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 6 && argc != 8) return fprintf(stderr, "usage: beside PROGRAM PAGES ROUNDS POLICY BYTES [FILE ACCESSES]\n"), 2;
    int is_sor = !strcmp(argv[1], "sor"), rounds = atoi(argv[3]);
    size_t pages = strtoull(argv[2], NULL, 10), count = pages * PER_PAGE;
    struct forebay_pager_options options = {.memory = strtoull(argv[5], NULL, 10), .policy = argv[4]};
    forebay_pager *pager = forebay_pager_new(&options);
    if (!pager) fail("no pager");
    forebay_region *memory = forebay_region_map_swap(pager, "/dev/shm", pages * PAGE), *file = NULL;
    /* Without readahead each page that is missed is a fault, as in the simulation of the paper. */
    if (!memory || forebay_region_advise(memory, 0, 0, FOREBAY_RANDOM) < 0) fail("no memory");
    if (argc == 8) {
        file = forebay_region_map(pager, argv[6], FOREBAY_READ_ONLY);
        if (!file || forebay_region_advise(file, 0, 0, FOREBAY_RANDOM) < 0) fail(argv[6]);
        file_bytes = forebay_region_address(file);
        file_pages = forebay_region_length(file) / PAGE;
        accesses = strtoull(argv[7], NULL, 10);
    }
    double *numbers = forebay_region_address(memory);
    int side = 1;
    while ((size_t)(side + 1) * (side + 1) <= count) side++;
    /* The steps of a program: eight elements of the matrix, or what quicksort swaps, two for each number and more. */
    unsigned long long expected = (is_sor ? (unsigned long long)(side - 2) * ((side - 2) / PER_STEP) : 2 * count) * rounds;
    every = accesses ? expected / accesses : 0;
    if (rounds && accesses && (accesses > file_pages || !every)) return fprintf(stderr, "too many accesses: %llu for %llu steps and %llu pages\n", accesses, expected, file_pages), 2;
    unsigned long long seed = 1;
    if (!rounds) {
        /* Nothing is touched. */
    } else if (is_sor) {
        for (size_t i = 0; i < count; i++) numbers[i] = 1.0 / (1 + i % 7);
        sor(numbers, side, rounds);
    } else {
        for (int round = 0; round < rounds; round++) {
            for (size_t i = 0; i < count; i++) {
                seed = seed * 16807 % 2147483647;
                numbers[i] = seed;
            }
            quicksort(numbers, numbers + count);
            for (size_t i = 1; i < count; i++)
                if (numbers[i - 1] > numbers[i]) return fprintf(stderr, "not sorted\n"), 1;
        }
    }
    struct forebay_pager_statistics is;
    if (forebay_pager_get_statistics(pager, &is, sizeof is) < 0) fail("no statistics");
    printf("{\"major\": %llu, \"minor\": %llu, \"misses\": %llu, \"file_accesses\": %llu, \"steps\": %llu, \"frames\": %llu, \"failed_faults\": %llu}\n",
           (unsigned long long)is.major_faults, (unsigned long long)is.minor_faults, (unsigned long long)is.misses, done, steps,
           (unsigned long long)is.frames, (unsigned long long)is.failed_faults);
    if (file && forebay_region_unmap(file) < 0) fail("the file");
    if (forebay_region_unmap(memory) < 0) fail("the memory");
    forebay_pager_free(pager);
    return 0;
}
