/*
 * A server on a unix socket whose answers need a mutex that its flusher thread holds while it
 * writes and syncs a file: client -> socket -> server -> futex -> flusher -> disk.
 *
 * usage: chain SOCKET FILE WRITES GAP_MS FLUSHER SWITCH
 * It writes and syncs while the switch is there; without it, it only appends to the page cache.
 */
#include "ops.h"

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static const char *path;
static const char *wrong;
static int writes;
static double gap;

static void *flush(void *unused)
{
	static char block[4096];
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);

	if (fd < 0) {
		perror(path);
		exit(1);
	}
	for (;;) {
		int sync_wanted = switched(wrong, 0) > 0;

		pthread_mutex_lock(&table);
		for (int i = 0; i < writes; i++)
			if (write(fd, block, sizeof block) < 0 || (sync_wanted && fdatasync(fd)))
				perror(path);
		pthread_mutex_unlock(&table);
		rest(gap);
	}
	return unused;
}

static void *serve(void *argument)
{
	int fd = (int)(intptr_t)argument;
	char question[64];

	pthread_setname_np(pthread_self(), "conn");
	while (read(fd, question, sizeof question) > 0) {
		pthread_mutex_lock(&table);
		pthread_mutex_unlock(&table);
		if (write(fd, "done\n", 5) != 5)
			break;
	}
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	pthread_t t;
	int fd;

	if (argc < 7)
		return 2;
	path = argv[2];
	writes = atoi(argv[3]);
	gap = atof(argv[4]) / 1e3;
	wrong = argv[6];
	snprintf(name.sun_path, sizeof name.sun_path, "%s", argv[1]);
	unlink(argv[1]);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, 64)) {
		perror(argv[1]);
		return 1;
	}
	if (pthread_create(&t, NULL, flush, NULL))
		return 1;
	pthread_setname_np(t, argv[5]);
	for (;;) {
		int c = accept(fd, NULL, NULL);
		if (c >= 0 && pthread_create(&t, NULL, serve, (void *)(intptr_t)c))
			return 1;
	}
}
