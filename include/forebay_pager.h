/* Memory larger than memory: address ranges in front of files, of which at most so many bytes are resident, under any of Forebay's policies.
 * docs/pager.md has the manual, examples/pager.c a whole program.
 *
 *     struct forebay_pager_options options = {.memory = 64 << 20, .policy = "clock-pro"};
 *     forebay_pager *pager = forebay_pager_new(&options);
 *     forebay_region *region = forebay_region_map(pager, "index.bin", 0);
 *     if (!region) fprintf(stderr, "%s\n", forebay_pager_error()), exit(1);
 *     uint64_t *counts = forebay_region_address(region);
 *     counts[1000000]++;                                // an ordinary access
 *     if (forebay_region_sync(region) < 0) ...          // now it is durable
 *     forebay_region_unmap(region);
 *     forebay_pager_free(pager);
 *
 * Link with -lforebay_pager_c. C99 and C++. Any thread may call any function, but for free and unmap while others use the same pager or region.
 * Functions that fail return NULL or -1, set errno, and say why in forebay_pager_error().
 * A child of fork does not have its parent's regions: their functions fail with ENOTSUP there.
 */
#ifndef FOREBAY_PAGER_H
#define FOREBAY_PAGER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct forebay_pager forebay_pager;
typedef struct forebay_region forebay_region;
typedef struct forebay_held forebay_held;

/* What is 0 has its default. */
struct forebay_pager_options {
    uint64_t memory;    /* bytes: the most that resident pages take together; 16 pages to what the machine has; no default */
    uint32_t page_size; /* bytes: a power of two from 4096 to 2097152; default 4096 */
    uint32_t threads;   /* the most threads that handle faults, 1 to 1024; default 64; 2 at the start */
    const char *policy; /* as `forebay compare --policies` takes them; default "clock-pro" */
    double sampling;    /* the share of a processor that it may cost to see which pages are used, beside half the time of each miss for
                           policies with reference bits; default 0.02; below 0: none is seen; 1: all that those wait to see */
    int in_place;       /* not 0: a fault is handled on the thread that has it, by a handler for SIGBUS, which is faster. Then system calls
                           at absent pages fail with EFAULT, and the program keeps the rules of docs/pager.md, "Faults in place" */
};

/* A pager: one limit and one policy for all its regions. NULL: EINVAL for options, ENOTSUP, EPERM or ENOSYS where the system has no
 * userfaultfd for it, ENOMEM. */
forebay_pager *forebay_pager_new(const struct forebay_pager_options *options);

/* Gives a pager back. It lives on as long as it has regions. NULL does nothing. */
void forebay_pager_free(forebay_pager *pager);

/* For flags. */
#define FOREBAY_READ_ONLY 1 /* who writes to the region gets SIGSEGV; the file may be read-only, too */
#define FOREBAY_BUFFERED 2  /* the file is used through the kernel's page cache, not past it */

/* Maps a regular file or block device, as long as it is now. NULL: what open(2) says; EBUSY if another has it open for this already;
 * EINVAL if it is empty; ENOMEM. */
forebay_region *forebay_region_map(forebay_pager *pager, const char *path, int flags);

/* Maps so many bytes of memory, zeroes at first, whose pages go to a file without a name in a folder. NULL: what open(2) says; EINVAL if
 * the length is 0; EFBIG if no file may be so long; ENOSPC; ENOMEM. */
forebay_region *forebay_region_map_swap(forebay_pager *pager, const char *folder, uint64_t length);

/* The first byte; it is aligned to the system's pages. */
void *forebay_region_address(const forebay_region *region);

/* Bytes: those of the file, up to the next multiple of a page. What is written behind the file's end is lost. */
uint64_t forebay_region_length(const forebay_region *region);

/* Makes durable what was written before. -1: the error of storage (EIO, ENOSPC, ...); what could not be written is tried again later. Pages whose
 * read had failed, and which gave SIGBUS, are read again when they are touched next. */
int forebay_region_sync(forebay_region *region);

/* For advice. The first three are for the whole region. */
#define FOREBAY_NORMAL 0      /* what goes forward is read ahead */
#define FOREBAY_SEQUENTIAL 1  /* more is read ahead, from the first fault on */
#define FOREBAY_RANDOM 2      /* nothing is read ahead */
#define FOREBAY_WILL_NEED 3   /* these bytes are read in the background */
#define FOREBAY_DO_NOT_NEED 4 /* their pages leave in the background, after their writeback */
#define FOREBAY_ZERO 5        /* they are not needed any more, and read as zeroes */

/* Says how length bytes from offset on will be used. -1: EINVAL for an unknown advice, or a range that reaches behind the file's end;
 * storage's error for FOREBAY_ZERO. */
int forebay_region_advise(forebay_region *region, uint64_t offset, uint64_t length, int advice);

/* Holds the pages of length bytes from offset on: they are neither evicted nor written back until they are released. For direct input (O_DIRECT,
 * registered buffers of io_uring, process_vm_writev), which else may be lost. Who holds pages does not sync, advise or unmap
 * their region before it has released them. NULL: EINVAL behind the region's end, for pages that are held already, or if more than a quarter of the
 * pager's frames would be held; EACCES if the region is read-only; storage's error. */
forebay_held *forebay_region_hold(forebay_region *region, uint64_t offset, uint64_t length);

/* Lets go of them: they are dirty. NULL does nothing. */
void forebay_held_release(forebay_held *held);

/* Makes durable what was written, and unmaps the region. It is gone in any case; -1: storage's error, and what it concerns is lost. Of swap space
 * nothing is written. */
int forebay_region_unmap(forebay_region *region);

/* 1: system calls like read(2) may use absent pages. 0: they fail with EFAULT, as this user may not have their faults handled, or faults
 * are handled in place; hold the pages, or use a buffer. -1: EINVAL. */
int forebay_pager_serves_system_calls(const forebay_pager *pager);

/* All since the pager was made. */
struct forebay_pager_statistics {
    uint64_t memory_bytes;      /* of the frames that there are: the limit, less what managing them takes */
    uint64_t page_bytes;        /* of a page */
    uint64_t frames;            /* that there are */
    uint64_t resident_pages;    /* that are in them */
    uint64_t dirty_pages;       /* that are still to be written */
    uint64_t metadata_bytes;    /* of what is known of pages, resident or not */
    uint64_t major_faults;      /* of pages that were not resident */
    uint64_t minor_faults;      /* of resident pages that were not mapped: read ahead, or unmapped to see whether they are used */
    uint64_t protection_faults; /* first writes to clean pages */
    uint64_t failed_faults;     /* that ended with SIGBUS, or SIGSEGV where nothing can be written */
    uint64_t unmapped_pages;    /* to see whether they are used */
    uint64_t fault_nanoseconds; /* from when a fault was seen until its page was mapped, of all faults */
    uint64_t hits;              /* that the policy has seen */
    uint64_t misses;            /* of pages that were not resident */
    uint64_t evictions;         /* of pages by the policy */
    uint64_t read_ahead_pages;  /* and not asked for by a fault, in regions that are mapped now, as are the next two */
    uint64_t written_pages;     /* to storage */
    uint64_t failed_writes;     /* of pages */
    uint64_t in_place_faults;   /* that were handled on the thread that had them */
};

/* Fills the first size bytes of a structure: sizeof *statistics. -1: EINVAL. */
int forebay_pager_get_statistics(const forebay_pager *pager, struct forebay_pager_statistics *statistics, size_t size);

/* Why the last call of this thread that failed did so, in a sentence. Never NULL; it stands until the next failure. */
const char *forebay_pager_error(void);

/* Where warnings and errors go that concern no call, such as why a page gave SIGBUS: a descriptor, by default 2; -1: nowhere. */
void forebay_pager_log_to(int descriptor);

#ifdef __cplusplus
}
#endif

#endif
