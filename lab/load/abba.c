/*
 * Two threads that take two mutexes in opposite order. While the switch is there they meet in
 * the middle and never part; without it both take them in the same order.
 *
 * usage: abba NAME1 NAME2 SWITCH
 */
#include "ops.h"

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t journal = PTHREAD_MUTEX_INITIALIZER;
static const char *wrong;

static void transfer(pthread_mutex_t *first, pthread_mutex_t *second, double think)
{
	pthread_mutex_lock(first);
	rest(think);
	pthread_mutex_lock(second);
	rest(0.001);
	pthread_mutex_unlock(second);
	pthread_mutex_unlock(first);
	ops_done();
	rest(0.01);
}

static void *debit(void *unused)
{
	for (;;)
		transfer(&accounts, &journal, switched(wrong, 0) > 0 ? 0.2 : 0.001);
	return unused;
}

static void *credit(void *unused)
{
	for (;;)
		if (switched(wrong, 0) > 0)
			transfer(&journal, &accounts, 0.2);
		else
			transfer(&accounts, &journal, 0.001);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t a, b;

	if (argc < 4)
		return 2;
	wrong = argv[3];
	ops_open();
	if (pthread_create(&a, NULL, debit, NULL) || pthread_create(&b, NULL, credit, NULL))
		return 1;
	pthread_setname_np(a, argv[1]);
	pthread_setname_np(b, argv[2]);
	return pthread_join(a, NULL);
}
