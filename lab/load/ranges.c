/*
 * ranges THREADS apart|shared DIRECTORY: threads that lock and unlock byte ranges, each of a file of its own, or all of one,
 * as the processes of a database without a server do.
 *
 * The kernel keeps the ranges of one file in one list, and walks it under a spin lock for each call (fs/locks.c). A list is as
 * long either way: those who share a file bring a part of it each. The figure is counted in memory that is a file: a call for
 * each would be what is measured.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANGES = 1200 };

static uint64_t *done;
static int apart, threads;

static int set(int file, int type, off_t at)
{
	struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

	return fcntl(file, F_OFD_SETLK, &range);
}

static void *lock_ranges(void *argument)
{
	long own = (long)argument;
	char name[32];

	snprintf(name, sizeof name, "ranges.%ld", apart ? own : 0);
	int file = open(name, O_RDWR | O_CREAT, 0600);
	if (file < 0)
		exit(1);
	/* Gaps between them, or they would become one range. */
	for (int index = 0; index < (apart ? RANGES : RANGES / threads); index++)
		if (set(file, F_RDLCK, index * 2))
			exit(1);
	for (;;) {
		if (set(file, F_WRLCK, RANGES * 2 + own * 2) || set(file, F_UNLCK, RANGES * 2 + own * 2))
			exit(1);
		__atomic_fetch_add(&done[1], 1, __ATOMIC_RELAXED);
	}
}

int main(int count, char **words)
{
	char head[16] = "figure01";
	pthread_t thread;

	if (count != 4 || chdir(words[3]) || atoi(words[1]) < 1)
		return 2;
	threads = atoi(words[1]);
	apart = !strcmp(words[2], "apart");
	int file = open(getenv("FIGURE"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (write(file, head, sizeof head) != sizeof head)
		return 1;
	done = mmap(NULL, sizeof head, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (done == MAP_FAILED)
		return 1;
	for (long own = 0; own < threads; own++)
		if (pthread_create(&thread, NULL, lock_ranges, (void *)own))
			return 1;
	pthread_join(thread, NULL);
	return 1;
}
