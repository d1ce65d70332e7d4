/*
 * Holds an fcntl lock on a range of a file, owned by the process or by the open file description.
 *
 * usage: holdlock FILE posix|ofd|flock START LENGTH HOLD_MS GAP_MS
 * A gap of 0 holds once and ends; otherwise it is taken again and again.
 */
#include "ops.h"
#include <sys/file.h>

int main(int argc, char **argv)
{
	if (argc < 7)
		return 2;
	ops_open();
	for (;;) {
		struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET,
				       .l_start = atol(argv[3]), .l_len = atol(argv[4]) };
		int fd = open(argv[1], O_RDWR | O_CREAT, 0644), rc;

		if (!strcmp(argv[2], "flock"))
			rc = flock(fd, LOCK_EX);
		else
			rc = fcntl(fd, !strcmp(argv[2], "ofd") ? F_OFD_SETLKW : F_SETLKW, &range);
		if (rc) {
			perror(argv[1]);
			return 1;
		}
		ops_done();
		rest(atof(argv[5]) / 1e3);
		close(fd);
		if (atof(argv[6]) <= 0)
			return 0;
		rest(atof(argv[6]) / 1e3);
	}
}
