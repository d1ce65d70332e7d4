/*
 * Threads that allocate and free blocks too large for a thread's own cache of glibc's malloc, again and again.
 *
 * usage: arenas ARENAS THREADS
 * ARENAS above 0 is how many arenas they share, set as a service manager sets it (MALLOC_ARENA_MAX), unless GLIBC_TUNABLES says
 * otherwise; 0 leaves it to glibc.
 */
#include "ops.h"
#include <string.h>

enum { BLOCKS = 64, ROUNDS = 16 };

static void *allocate(void *number)
{
	char *blocks[BLOCKS] = {0};
	unsigned draw = (unsigned)(long)number + 1;

	for (;;) {
		for (int at = 0; at < BLOCKS * ROUNDS; at++) {
			char **block = &blocks[at % BLOCKS];
			draw = draw * 1103515245 + 12345;
			free(*block);
			*block = malloc(2000 + (draw >> 16) % 4000);
			if (*block == NULL)
				exit(1);
			**block = 1;
		}
		ops_done();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;

	if (argc < 3)
		return 2;
	if (atoi(argv[1]) > 0 && getenv("MALLOC_ARENA_MAX") == NULL && getenv("GLIBC_TUNABLES") == NULL) {
		setenv("MALLOC_ARENA_MAX", argv[1], 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	ops_open();
	for (long i = 0; i < atoi(argv[2]); i++)
		if (pthread_create(&t, NULL, allocate, (void *)i))
			return 1;
	return pthread_join(t, NULL);
}
