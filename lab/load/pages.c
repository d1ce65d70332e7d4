/*
 * pages.c MIB: a program that looks into its memory here and there, as a database into its cache.
 *
 * The order is the same in each run. Must not: write, or what is read back would have to be written again.
 */
#include "ops.h"
#include <sys/mman.h>

#define PAGE 4096

int main(int count, char **words)
{
	size_t pages, size;
	uint64_t next = 1;
	volatile uint64_t sum = 0;
	char *memory;

	if (count < 2)
		return 2;
	size = (size_t)atoi(words[1]) << 20;
	pages = size / PAGE;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	for (size_t at = 0; at < size; at++)
		memory[at] = (char)(at * 7 + at / PAGE);
	ops_open();
	for (;;) {
		for (int step = 0; step < 200; step++) {
			next = next * 6364136223846793005ULL + 1442695040888963407ULL;
			for (size_t at = 0; at < PAGE; at += 64)
				sum += (uint64_t)memory[(next >> 33) % pages * PAGE + at];
		}
		ops_done();
	}
}
