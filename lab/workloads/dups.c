/*
 * dups THREADS apart|shared: threads that open and close descriptors, each in a table of its own, or all in one.
 *
 * The figure is counted in memory that is a file: a call for each would be what is measured.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t *done;
static int apart;

static void *dups(void *unused)
{
	if (apart && unshare(CLONE_FILES))
		return unused;
	for (;;) {
		for (int round = 0; round < 100; round++)
			close(dup(0));
		__atomic_fetch_add(&done[1], 1, __ATOMIC_RELAXED);
	}
}

int main(int count, char **words)
{
	char head[16] = "figure01";
	pthread_t thread;

	if (count != 3)
		return 2;
	apart = !strcmp(words[2], "apart");
	int file = open(getenv("FIGURE"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (write(file, head, sizeof head) != sizeof head)
		return 1;
	done = mmap(NULL, sizeof head, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (done == MAP_FAILED)
		return 1;
	for (int index = 0; index < atoi(words[1]); index++)
		if (pthread_create(&thread, NULL, dups, NULL))
			return 1;
	pthread_join(thread, NULL);
	return 1;
}
