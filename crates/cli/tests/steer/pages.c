/* Writes pages, and reads them in rounds for a time: `pages MEBIBYTES SECONDS`. Each page must have what was written. At the end it prints how many rounds there were, and the most
   KiB that it had in memory at the end of a round, of those after the first second. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

static long resident(void) {
    char text[128] = {0};
    long pages = 0;
    int file = open("/proc/self/statm", O_RDONLY);
    if (read(file, text, sizeof text - 1) > 0)
        sscanf(text, "%*d %ld", &pages);
    close(file);
    return pages * (PAGE >> 10);
}

int main(int argc, char **argv) {
    size_t bytes = (size_t)atol(argv[1]) << 20, wrong = 0;
    long most = 0, rounds = 0;
    time_t begin = time(NULL);
    unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (argc < 3 || memory == MAP_FAILED)
        return 9;
    for (size_t at = 0; at < bytes; at += PAGE)
        *(size_t *)(memory + at) = at * 2654435761u;
    for (; time(NULL) - begin < atoi(argv[2]); rounds++) {
        for (size_t at = 0; at < bytes; at += PAGE)
            wrong += *(size_t *)(memory + at) != at * 2654435761u;
        if (time(NULL) - begin >= 2 && resident() > most)
            most = resident();
    }
    printf("%ld %ld\n", rounds, most);
    return wrong != 0;
}
