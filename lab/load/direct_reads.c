/*
 * direct_reads FILE THREADS: a storage engine in C, threads that read pages with O_DIRECT.
 *
 * In C, so that names, threads and stacks are not those of the lab's own loads. Counts like every script
 * of this folder: a byte for each operation, appended to the file that $FIGURE names.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { page = 4096, pages = 4096 };
static const char *path;
static int figure;

static void *read_pages(void *seed)
{
    unsigned int state = (unsigned int)(size_t)seed + 1;
    int file = open(path, O_RDONLY | O_DIRECT);
    void *buffer = NULL;
    if (file < 0 || posix_memalign(&buffer, page, page) != 0)
        exit(1);
    for (;;) {
        if (pread(file, buffer, page, (off_t)(rand_r(&state) % pages) * page) == page)
            (void)!write(figure, ".", 1);
    }
}

int main(int count, char **words)
{
    static char block[page];
    pthread_t thread;
    if (count != 3)
        return 2;
    path = words[1];
    figure = open(getenv("FIGURE"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    memset(block, 7, sizeof block);
    for (int at = 0; at < pages; at++)
        if (pwrite(file, block, page, (off_t)at * page) != page)
            return 1;
    fsync(file);
    for (long n = 0; n < atol(words[2]); n++)
        pthread_create(&thread, NULL, read_pages, (void *)n);
    pthread_join(thread, NULL);
    return 0;
}
