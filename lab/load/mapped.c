/*
 * mapped.c FILE MIB REST_US: a database that has its file mapped, and looks into it here and there.
 *
 * No call reads: what is not in memory is brought in by page faults. The file is made first if it is not there.
 */
#include "ops.h"
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGE 4096
#define LOOKS 8

static int make(const char *path, size_t size)
{
	static char block[1 << 18];
	int file = open(path, O_RDWR | O_CREAT, 0600);
	struct stat known;

	if (file < 0 || fstat(file, &known))
		return -1;
	memset(block, 7, sizeof block);
	for (size_t at = (size_t)known.st_size; at < size; at += sizeof block)
		if (pwrite(file, block, sizeof block, (off_t)at) != (ssize_t)sizeof block)
			return -1;
	fsync(file);
	return file;
}

int main(int count, char **words)
{
	volatile uint64_t sum = 0;
	uint64_t next = 1;
	size_t size;
	char *memory;
	int file;

	if (count < 4)
		return 2;
	size = (size_t)atoi(words[2]) << 20;
	file = make(words[1], size);
	if (file < 0)
		return 1;
	memory = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED)
		return 1;
	ops_open();
	for (;;) {
		for (int look = 0; look < LOOKS; look++) {
			next = next * 6364136223846793005ULL + 1442695040888963407ULL;
			sum += (uint64_t)memory[(next >> 33) % (size / PAGE) * PAGE];
		}
		ops_done();
		rest(atoi(words[3]) / 1e6);
	}
}
