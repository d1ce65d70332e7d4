/*
 * What the containers of the tests run: takes a file's lock, holds it for a while, and takes it again after a breath.
 *
 * Static, because its image holds nothing else. `pause` waits for ever, as the container that holds a pod together does. Must not: know
 * who else wants the lock. Edit together: test_recipes.py.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 4 || !strcmp(argv[1], "pause"))
		for (;;)
			pause();
	int file = open(argv[1], O_RDWR | O_CREAT, 0666);
	if (file < 0)
		return 1;
	unsigned hold_us = atoi(argv[2]) * 1000, breath_us = atoi(argv[3]) * 1000;
	while (!flock(file, LOCK_EX)) {
		usleep(hold_us);
		if (flock(file, LOCK_UN))
			return 1;
		usleep(breath_us);
	}
	return 1;
}
