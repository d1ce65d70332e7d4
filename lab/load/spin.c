/*
 * Threads that take turns with a lock of their own: whoever does not get it yields the CPU and tries again.
 *
 * usage: spin THREADS SWITCH
 * The switch holds the microseconds that each keeps the lock; without it, five.
 */
#include "ops.h"
#include <sched.h>

static char taken;

static void *turns(void *argument)
{
	const char *wrong = argument;
	for (;;) {
		double hold = switched(wrong, 5.0) / 1e6;
		while (__atomic_test_and_set(&taken, __ATOMIC_ACQUIRE))
			sched_yield();
		pass("compute", hold, "");
		__atomic_clear(&taken, __ATOMIC_RELEASE);
		ops_done();
		rest(0.002);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;

	if (argc < 3)
		return 2;
	ops_open();
	for (int i = 0; i < atoi(argv[1]); i++)
		if (pthread_create(&t, NULL, turns, argv[2]))
			return 1;
	return pthread_join(t, NULL);
}
