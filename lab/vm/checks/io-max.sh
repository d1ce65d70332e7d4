# cgroup v2's io.max.
modprobe null_blk nr_devices=1 gs=1 gb=1 queue_mode=2 memory_backed=0
group journal
echo "$(cat /sys/block/nullb0/dev) wiops=25" >/sys/fs/cgroup/journal/io.max
within journal dd if=/dev/zero of=/dev/nullb0 bs=4096 count=100000 oflag=direct
sleep 2
before=$(awk '{print $5}' /sys/block/nullb0/stat)
sleep 2
effect "$((($(awk '{print $5}' /sys/block/nullb0/stat) - before) / 2)) writes/s"
look
finish $victim
modprobe -r null_blk
