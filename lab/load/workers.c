/*
 * workers.c SWITCH WORKERS: processes of one program that add numbers, each by itself or, while the switch is there, by a
 * process for each sum that runs no program.
 *
 * Either way they are busy all the time: only how the work is done differs.
 */
#include "ops.h"
#include <signal.h>
#include <sys/wait.h>

static volatile unsigned long sum;

static void add(void)
{
	for (unsigned long n = 0; n < 20000; n++)
		sum += n * sum + 7;
}

static int work(const char *by_processes)
{
	for (;;) {
		if (access(by_processes, F_OK)) {
			add();
		} else {
			pid_t child = fork();

			if (child < 0)
				return 1;
			if (!child) {
				add();
				_exit(0);
			}
			if (waitpid(child, NULL, 0) != child)
				return 1;
		}
		ops_done();
	}
}

int main(int count, char **words)
{
	if (count != 3)
		return 2;
	ops_open();
	for (int at = 0; at < atoi(words[2]); at++) {
		pid_t worker = fork();

		if (worker < 0)
			return 1;
		if (!worker) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			return work(words[1]);
		}
	}
	wait(NULL);
	return 1;
}
