#!/usr/bin/env python3
"""Answers each question once all of it is there: whole_questions.py ADDRESS PORT"""
import socket
import sys
import threading


def serve(client):
    questions = client.makefile("rb")
    while len(questions.read(16)) == 16:
        client.sendall(b"answer")


listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
