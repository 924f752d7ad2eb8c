/*
 * Hints and managers for files on a `forebay mount`: requests to ioctl(2) on an open file.
 *
 * They need no rights but those to open the file. On other file systems they fail with ENOTTY, so a program may send them
 * to any file and go on. docs/managers.md describes managers, docs/mount.md what each hint does.
 */
#ifndef FOREBAY_H
#define FOREBAY_H

#include <stdint.h>
#include <sys/ioctl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the program will do with a part of the file. The numbers are those of POSIX_FADV_* on Linux. */
enum forebay_advice {
    FOREBAY_NORMAL = 0,     /* nothing in particular */
    FOREBAY_RANDOM = 1,     /* this open file: no readahead */
    FOREBAY_SEQUENTIAL = 2, /* this open file: the longest readahead */
    FOREBAY_WILLNEED = 3,   /* read these bytes now, in the background */
    FOREBAY_DONTNEED = 4,   /* drop these bytes from the cache, dirty ones after they are written */
    FOREBAY_NOREUSE = 5     /* this process uses the file once: its manager is access-once, under lru-sp; others keep what they use of the file */
};

struct forebay_hint {
    uint64_t offset;
    uint64_t length;   /* 0: to the end of the file */
    uint32_t advice;   /* one of enum forebay_advice */
    uint32_t reserved; /* 0 */
};

/*
 * Says what the program will do. Hints without a range of their own (normal, random, sequential, noreuse) hold for the
 * whole open file, whatever the range.
 * EINVAL: the advice is unknown, `reserved` is not 0, or the range ends behind 2^64.
 */
#define FOREBAY_HINT _IOW(0xFB, 1, struct forebay_hint)

struct forebay_manage {
    char manager[120]; /* a manager as in docs/managers.md, such as "mru" or "lru-k:k=3"; empty: abdicate; ends in 0 */
    uint64_t process;  /* 0: the caller manages; else the number of the process that manages for it */
};

/*
 * Says who manages the caller's uses of this file, until the open file is closed. Children have the same manager.
 *
 * With another process, the caller's uses through this open file count as that process's. An empty name then leaves
 * that process's manager as it is.
 * EINVAL: there is no such manager; the mount's log says why. EOPNOTSUPP: the mount's policy has no managers.
 * EPERM: the other process is another user's. ESRCH: there is no such process.
 */
#define FOREBAY_MANAGE _IOW(0xFB, 2, struct forebay_manage)

#ifdef __cplusplus
}
#endif

#endif
