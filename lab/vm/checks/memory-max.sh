# cgroup v2's memory.max, with a working set of files twice its size.
mkdir -p /tmp/small
group cache
dd if=/dev/zero of=/tmp/image bs=1M count=100 2>/dev/null
modprobe loop
mke2fs -q -F -t ext4 /tmp/image
mount -o loop /tmp/image /tmp/small
dd if=/dev/urandom of=/tmp/small/data bs=1M count=48 2>/dev/null
sync
echo 3 >/proc/sys/vm/drop_caches
echo 24M >/sys/fs/cgroup/cache/memory.max
# Nobody's child: a shell that waits for holdup would seem to wait for it.
(within cache python3 -c '
while True:
    with open("/tmp/small/data", "rb", buffering=0) as data:
        while data.read(1 << 16):
            pass')
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    sleep 2
    grep -q '^max [1-9]' /sys/fs/cgroup/cache/memory.events && grep -qE 'refault(_file)? [1-9]' /sys/fs/cgroup/cache/memory.stat && break
done
effect "$(grep -w max /sys/fs/cgroup/cache/memory.events) $(grep -m1 -E "refault(_file)? " /sys/fs/cgroup/cache/memory.stat)"
look
finish $(cat /sys/fs/cgroup/cache/cgroup.procs)
umount /tmp/small
rm /tmp/image
