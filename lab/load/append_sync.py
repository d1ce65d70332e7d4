# append_sync.py FILE SIZE: an event log in Python that puts every record on the disk.
import os, sys

path, size = sys.argv[1], int(sys.argv[2])
done = open(os.environ["FIGURE"], "ab", buffering=0)
while True:
    with open(path, "ab", buffering=0) as log:
        while log.tell() < 4 << 20:
            log.write(b"e" * (size - 1) + b"\n")
            os.fsync(log.fileno())
            done.write(b".")
    os.truncate(path, 0)
