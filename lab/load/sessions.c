/* A server with a thread for each client and one row that a session takes and keeps until it says so.
 *
 * sessions PORT: a client sends a byte and gets a byte: 'b' takes the row, 'e' gives it back, 't' does both. The row is no
 * mutex: a session that wants it waits on a condition, as databases do, so nothing outside says who has it.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given_back = PTHREAD_COND_INITIALIZER;
static int taken;

static void take(void)
{
	pthread_mutex_lock(&table);
	while (taken)
		pthread_cond_wait(&given_back, &table);
	taken = 1;
	pthread_mutex_unlock(&table);
}

static void give_back(void)
{
	pthread_mutex_lock(&table);
	taken = 0;
	pthread_cond_signal(&given_back);
	pthread_mutex_unlock(&table);
}

static void *session(void *argument)
{
	int client = (int)(intptr_t)argument, holds = 0;
	char asked;

	while (read(client, &asked, 1) == 1) {
		if (asked != 'e' && !holds)
			take();
		holds = asked == 'b';
		if (!holds)
			give_back();
		if (write(client, "k", 1) != 1)
			break;
	}
	if (holds)
		give_back();
	close(client);
	return NULL;
}

int main(int count, char **words)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (count < 2)
		return 2;
	address.sin_port = htons((uint16_t)atoi(words[1]));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 64))
		return 1;
	for (;;) {
		pthread_t thread;
		int client = accept(listener, NULL, NULL);

		if (client < 0)
			continue;
		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (pthread_create(&thread, NULL, session, (void *)(intptr_t)client))
			close(client);
		else
			pthread_detach(thread);
	}
}
