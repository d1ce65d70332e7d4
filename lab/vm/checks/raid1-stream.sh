# md RAID-1 of three disks that one request at a time keeps busy: a stream that reads on in order stays on one of them.
modprobe null_blk nr_devices=0
mount -t configfs configfs /sys/kernel/config 2>/dev/null
for disk in nullb0 nullb1 nullb2; do
    folder=/sys/kernel/config/nullb/$disk
    mkdir "$folder"
    echo 512 >"$folder/size"
    echo 1 >"$folder/memory_backed"
    echo 2 >"$folder/irqmode"
    echo 20000000 >"$folder/completion_nsec"
    echo 1 >"$folder/hw_queue_depth"
    echo 1 >"$folder/power"
    echo 1 >/sys/block/$disk/queue/rotational
done
modprobe raid1
mdadm --create /dev/md0 --run --assume-clean --level=1 --raid-devices=3 --bitmap=none --metadata=1.2 \
    /dev/nullb0 /dev/nullb1 /dev/nullb2
cat /proc/mdstat
echo 4096 >/sys/block/md0/queue/read_ahead_kb
(while true; do
    dd if=/dev/md0 of=/dev/null bs=1M
    echo 1 >/proc/sys/vm/drop_caches
done) & stream=$!
sleep 3
reads() { awk '{ printf "%d ", $1 }' /sys/block/nullb[012]/stat; }
before=$(reads)
look
after=$(reads)
set -- $before $after
most=$(printf '%s\n' $(($4 - $1)) $(($5 - $2)) $(($6 - $3)) | sort -n | tail -n 1)
all=$(($4 - $1 + $5 - $2 + $6 - $3))
effect "$most of $all reads on one member"
figure "members in sync" 3 0
# The stream may move to another member while it is looked at.
figure "members that do not read" 2 1
kill -KILL $stream
finish $(pidof dd)
mdadm --stop /dev/md0
rmdir /sys/kernel/config/nullb/nullb*
modprobe -r null_blk
