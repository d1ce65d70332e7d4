# dm-cache in front of a slow disk: what is read in turn is four times as large as the cache, and most of the fast
# disk is unused. Asked of a command, so that nobody else moves the counters between the two readings.
modprobe null_blk nr_devices=0
mount -t configfs configfs /sys/kernel/config 2>/dev/null
null_disk() { # name, MiB, keeps what is written, nanoseconds of a request
    folder=/sys/kernel/config/nullb/$1
    mkdir "$folder"
    echo "$2" >"$folder/size"
    echo "$3" >"$folder/memory_backed"
    echo 2 >"$folder/irqmode"
    echo "$4" >"$folder/completion_nsec"
    echo 1 >"$folder/power"
}
null_disk nullb0 640 0 20000000
null_disk nullb1 256 0 200000
null_disk nullb2 16 1 10000
modprobe dm-cache-smq
export DM_DISABLE_UDEV=1
dmsetup create fast --table "0 32768 linear /dev/nullb1 0"
dmsetup create cached --table "0 1310720 cache /dev/nullb2 /dev/mapper/fast /dev/nullb0 64 1 writethrough smq 0"
# A block that is written whole moves into a cache that has room.
dd if=/dev/zero of=/dev/mapper/cached bs=32k count=1024 oflag=direct
counts() { dmsetup status cached | awk '{ print $8 + $10, $9 + $11 }'; }
before=$(counts)
ask run -- $load direct --path /dev/mapper/cached --mib 64 --threads 4 --count 800
dmsetup status
set -- $before $(counts)
hits=$(($3 - $1)) misses=$(($4 - $2))
effect "$hits hits $misses misses"
figure "hits" $hits 0
figure "misses" $misses 0
figure "share of hits" "$(awk "BEGIN { print 100 * $hits / ($hits + $misses) }")" 0.01
figure "size of the cache" $((32768 * 512)) 0
figure "part of nullb1 that nothing uses" $((240 << 20)) 0
dmsetup remove cached
dmsetup remove fast
rmdir /sys/kernel/config/nullb/nullb*
modprobe -r null_blk
