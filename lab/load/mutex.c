/*
 * A pthread mutex that one thread, the keeper, holds for long while others want it briefly.
 * glibc keeps the owner's tid beside the futex word, unlike Rust's mutex.
 *
 * usage: mutex THREADS GAP_MS sleep|compute|io KEEPER SWITCH [FILE]
 * The switch holds the milliseconds that the keeper keeps it each time; without it, a tenth of one.
 */
#include "ops.h"

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static volatile long entries;

static void *worker(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&table);
		entries++;
		pthread_mutex_unlock(&table);
		ops_done();
		rest(0.002);
	}
	return unused;
}

struct keeper {
	double gap;
	const char *how, *path, *wrong;
};

static void *keep(void *argument)
{
	struct keeper *k = argument;
	for (;;) {
		pthread_mutex_lock(&table);
		double hold = switched(k->wrong, 0.0) / 1e3;
		if (hold > 0)
			pass(k->how, hold, k->path);
		else
			rest(1e-4);
		pthread_mutex_unlock(&table);
		rest(k->gap);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;
	char name[16];

	if (argc < 6)
		return 2;
	struct keeper k = { atof(argv[2]) / 1e3, argv[3], argc > 6 ? argv[6] : "", argv[5] };
	ops_open();
	for (int i = 0; i < atoi(argv[1]); i++) {
		if (pthread_create(&t, NULL, worker, NULL))
			return 1;
		snprintf(name, sizeof name, "worker/%u", (unsigned)i % 1000);
		pthread_setname_np(t, name);
	}
	if (pthread_create(&t, NULL, keep, &k))
		return 1;
	snprintf(name, sizeof name, "%s", argv[4]);
	pthread_setname_np(t, name);
	return pthread_join(t, NULL);
}
