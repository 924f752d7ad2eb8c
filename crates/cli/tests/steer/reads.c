/* Reads a file from its beginning to its end in rounds, 64 KiB at a time, without readahead: `reads FILE MEBIBYTES_A_SECOND ROUNDS`. Prints how many bytes it has read. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    static char bytes[65536];
    int file = argc == 4 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM))
        return 9;
    double begin = now(), rate = atof(argv[2]) * (1 << 20);
    long long total = 0;
    for (int round = 0; round < atoi(argv[3]); round++) {
        ssize_t read = 1;
        for (off_t at = 0; (read = pread(file, bytes, sizeof bytes, at)) > 0; at += read, total += read) {
            double ahead = total / rate - (now() - begin);
            if (ahead > 0)
                usleep(ahead * 1e6);
        }
        if (read < 0)
            return 1;
    }
    printf("%lld\n", total);
    return 0;
}
