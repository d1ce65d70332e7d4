#!/usr/bin/env python3
"""A proxy for TCP: proxy.py PORT UPSTREAM_PORT SWITCH

Reads a question of a client, asks the upstream on a connection from its pool, and hands the answer back. While the file SWITCH
is there, the pool has no more connections than it says; the rest of the questions wait for one, in the order in which they came.
"""
import asyncio
import collections
import sys

port, upstream, switch = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
free, waiting = [], collections.deque()
limit, made = 1000, 0


async def follow_switch():
    global limit
    while True:
        try:
            with open(switch, encoding="ascii") as file:
                limit = int(file.read())
        except (FileNotFoundError, ValueError):
            limit = 1000
        await asyncio.sleep(0.05)


async def connection():
    """One that is free, a new one, or the next that is given back."""
    global made
    if free:
        return free.pop()
    if made < limit:
        made += 1
        return await asyncio.open_connection("127.0.0.1", upstream)
    turn = asyncio.get_running_loop().create_future()
    waiting.append(turn)
    return await turn


def give_back(pair):
    global made
    if made > limit:
        made -= 1
        pair[1].close()
    elif waiting:
        waiting.popleft().set_result(pair)
    else:
        free.append(pair)


async def serve(reader, writer):
    while question := await reader.readline():
        pair = await connection()
        pair[1].write(question)
        answer = await pair[0].readline()
        give_back(pair)
        writer.write(answer)
        await writer.drain()


async def main():
    watch = asyncio.create_task(follow_switch())
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await asyncio.gather(watch, server.serve_forever())

asyncio.run(main())
