/*
 * What the C loads share with lab/src/load/figure.rs: the figure (one byte appended to the file FIGURE
 * names per finished operation) and the switch (a file that is there while something is wrong).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int ops_fd = -1;


static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((unused)) static void ops_open(void)
{
	const char *path = getenv("FIGURE");
	if (path)
		ops_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

__attribute__((unused)) static void ops_done(void)
{
	if (ops_fd >= 0 && write(ops_fd, ".", 1) < 0)
		perror("FIGURE");
}

static void rest(double seconds)
{
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* Sleeps, computes or writes and syncs `path` for `seconds`. */
__attribute__((unused)) static void pass(const char *how, double seconds, const char *path)
{
	double until = now() + seconds;
	if (!strcmp(how, "sleep")) {
		rest(seconds);
	} else if (!strcmp(how, "compute")) {
		volatile uint64_t x = 88172645463325252ull;
		while (now() < until)
			for (int i = 0; i < 2000; i++)
				x = x * 6364136223846793005ull + 1442695040888963407ull;
	} else {
		static char block[4096];
		int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
		if (fd < 0) {
			perror(path);
			exit(1);
		}
		while (now() < until)
			if (write(fd, block, sizeof block) < 0 || fdatasync(fd)) {
				perror(path);
				exit(1);
			}
		close(fd);
	}
}

/* The number in the switch file, or `otherwise` while it is not there. */
__attribute__((unused)) static double switched(const char *path, double otherwise)
{
	char text[32];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return otherwise;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return atof(text);
}
