/*
 * buffers KEEP MIB: a server in C that takes a buffer of MIB from malloc for each request, fills it and frees it; KEEP 1:
 * takes it once.
 *
 * In C, because it is glibc's malloc that maps what is above 32 MiB anew each time, and that can be told not to.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **words)
{
    char head[16] = "figure01";
    if (count != 3)
        return 2;
    int keep = atoi(words[1]);
    size_t size = (size_t)atoi(words[2]) << 20;
    int file = open(getenv("FIGURE"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(file, head, sizeof head) != sizeof head)
        return 1;
    volatile uint64_t *map = mmap(NULL, sizeof head, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    volatile char *buffer = NULL;
    for (;;) {
        if (buffer == NULL)
            buffer = malloc(size);
        if (buffer == NULL)
            return 1;
        for (size_t at = 0; at < size; at += 4096)
            buffer[at] = 1;
        map[1]++;
        if (!keep) {
            free((void *)buffer);
            buffer = NULL;
        }
    }
}
