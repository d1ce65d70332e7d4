/*
 * stamps ZONE: a logger in C that formats a local time stamp per line; ZONE - leaves TZ to the environment, which in
 * the lab has none.
 *
 * In C, because it is libc's own handling of an unset TZ that costs: other languages bring their own.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words)
{
    char head[16] = "figure01", line[64];
    struct tm parts;
    if (count != 2)
        return 2;
    if (strcmp(words[1], "-") != 0)
        setenv("TZ", words[1], 1);
    int file = open(getenv("FIGURE"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(file, head, sizeof head) != sizeof head)
        return 1;
    volatile uint64_t *map = mmap(NULL, sizeof head, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    for (;;) {
        time_t now = time(NULL);
        parts = *localtime(&now);
        strftime(line, sizeof line, "%F %T", &parts);
        map[1]++;
    }
}
