/* Gives one piece of advice on the whole of a file, or of its map, and shows what the function returned. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void show(const char *what, long returned) {
    printf("%s %ld %d\n", what, returned, errno);
}

int main(int argc, char **argv) {
    struct stat found;
    const char *what = argc > 2 ? argv[1] : "";
    int advice = argc > 3 ? atoi(argv[3]) : 0;
    int file = argc > 2 ? open(argv[2], O_RDONLY) : -1;
    errno = 77;
    if (!strcmp(what, "posix_fadvise"))
        show(what, posix_fadvise(file, 0, 0, advice));
    else if (!strcmp(what, "posix_fadvise64"))
        show(what, posix_fadvise64(file, 0, 0, advice));
    else if (!strcmp(what, "readahead"))
        show(what, readahead(file, 0, 1 << 30));
    else if (fstat(file, &found) == 0) {
        void *map = mmap(NULL, found.st_size, PROT_READ, MAP_SHARED, file, 0);
        if (map == MAP_FAILED)
            return 1;
        errno = 77;
        if (!strcmp(what, "madvise"))
            show(what, madvise(map, found.st_size, advice));
        else if (!strcmp(what, "posix_madvise"))
            show(what, posix_madvise(map, found.st_size, advice));
        else
            return 1;
    } else
        show(what, madvise((void *)4096, 1, advice));
    return 0;
}
