/*
 * calls.c SWITCH: adds numbers, by itself or, while the switch is there, by a shell for each sum.
 *
 * Either way it is busy all the time: only how the work is done differs. Must not: end with its shell's failures unnoticed.
 */
#include "ops.h"

int main(int count, char **words)
{
	volatile unsigned long sum = 0;

	if (count < 2)
		return 2;
	ops_open();
	for (;;) {
		if (!access(words[1], F_OK)) {
			if (system("exec /usr/bin/expr 2 + 2 >/dev/null"))
				return 1;
		} else {
			for (unsigned long n = 0; n < 100000; n++)
				sum += n * sum + 7;
		}
		ops_done();
	}
}
