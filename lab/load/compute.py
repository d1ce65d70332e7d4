# compute.py PROCESSES: worker processes that compute without a pause.
import multiprocessing, os, sys


def work():
    done = open(os.environ["FIGURE"], "ab", buffering=0)
    while True:
        sum(i * i for i in range(20000))
        done.write(b".")


workers = [multiprocessing.Process(target=work) for _ in range(int(sys.argv[1]))]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
