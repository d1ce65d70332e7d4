# pool.py THREADS JOBS-PER-SECOND: a thread pool in Python that mostly waits for work.
import concurrent.futures, os, sys, time

done = open(os.environ["FIGURE"], "ab", buffering=0)


def job():
    sum(range(1000))
    done.write(b".")


with concurrent.futures.ThreadPoolExecutor(int(sys.argv[1])) as pool:
    while True:
        pool.submit(job)
        time.sleep(1 / float(sys.argv[2]))
