/* Prints how many pages of the files that are named are in the page cache. Nothing of them is read. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

int main(int count, char **names)
{
	unsigned long there = 0;

	for (int i = 1; i < count; i++) {
		struct stat file;
		int fd = open(names[i], O_RDONLY);
		if (fd < 0 || fstat(fd, &file) != 0) {
			perror(names[i]);
			return 1;
		}
		size_t pages = ((size_t)file.st_size + 4095) / 4096;
		unsigned char *found = malloc(pages + 1);
		void *map = mmap(NULL, pages * 4096, PROT_NONE, MAP_SHARED, fd, 0);
		if (!found || map == MAP_FAILED || mincore(map, pages * 4096, found) != 0) {
			perror(names[i]);
			return 1;
		}
		for (size_t page = 0; page < pages; page++)
			there += found[page] & 1;
	}
	printf("%lu\n", there);
	return 0;
}
