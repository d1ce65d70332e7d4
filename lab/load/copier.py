# copier.py FILE CHUNK: writes its output in chunks, without a buffer; counts kibibytes.
import os, sys

chunk = b"o" * int(sys.argv[2])
done = open(os.environ["FIGURE"], "ab", buffering=0)
while True:
    with open(sys.argv[1], "wb", buffering=0) as out:
        for _ in range(1024):
            for _ in range(max(1, 1024 // len(chunk))):
                out.write(chunk)
            done.write(b"." * max(1, len(chunk) // 1024))
