# read_again.py FILE MIB: an analysis in Python that reads its input over and over.
import os, sys

path, blocks = sys.argv[1], int(sys.argv[2]) * 4
if not os.path.exists(path) or os.path.getsize(path) < blocks << 18:
    with open(path, "wb") as out:
        for _ in range(blocks):
            out.write(b"d" * (1 << 18))
        os.fsync(out.fileno())
done = open(os.environ["FIGURE"], "ab", buffering=0)
while True:
    with open(path, "rb", buffering=0) as data:
        while data.read(1 << 18):
            done.write(b".")
