#!/usr/bin/env python3
"""A relay for TCP: relay.py PORT FAR_ADDRESS FAR_PORT

Each connection to it has one of its own to the far side; what comes on either is written to the other at once.
"""
import asyncio
import sys

port, far, far_port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])


async def carry(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(reader, writer):
    outer_reader, outer_writer = await asyncio.open_connection(far, far_port)
    await asyncio.gather(carry(reader, outer_writer), carry(outer_reader, writer))


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()

asyncio.run(main())
