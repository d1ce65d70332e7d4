# A client that polls two descriptors, for a server on this host that takes its time.
cat >/tmp/pricing <<'END'
#!/usr/bin/python3
import socket, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("/tmp/pricing.socket")
listener.listen()
client, _ = listener.accept()
while client.recv(64):
    time.sleep(0.4)
    client.sendall(b"price")
END
cat >/tmp/frontend <<'END'
#!/usr/bin/python3
import os, select, socket
server = socket.socket(socket.AF_UNIX)
server.connect("/tmp/pricing.socket")
wake_up, ours = os.pipe()
poll = select.poll()
poll.register(wake_up, select.POLLIN)
poll.register(server, select.POLLIN)
while True:
    server.sendall(b"question")
    poll.poll(30000)
    server.recv(64)
END
chmod +x /tmp/pricing /tmp/frontend
/tmp/pricing & server=$!
until [ -S /tmp/pricing.socket ]; do sleep 0.2; done
sleep 1
/tmp/frontend & client=$!
sleep 3
effect "$(grep -c '^7 ' /proc/$client/syscall) in poll"
look
finish $server $client
