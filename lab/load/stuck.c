/*
 * Threads that write to one file, each now and then: once its file system is frozen, all of them wait for it.
 *
 * usage: stuck THREADS FILE
 */
#include "ops.h"

static int file;

static void *writes(void *unused)
{
	for (;;) {
		if (pwrite(file, ".", 1, 0) < 0)
			return unused;
		rest(0.2);
	}
}

int main(int argc, char **argv)
{
	pthread_attr_t small;
	pthread_t t;

	if (argc < 3)
		return 2;
	file = open(argv[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (file < 0) {
		perror(argv[2]);
		return 1;
	}
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (int i = 0; i < atoi(argv[1]); i++)
		if (pthread_create(&t, &small, writes, NULL)) {
			perror("pthread_create");
			return 1;
		}
	return pthread_join(t, NULL);
}
