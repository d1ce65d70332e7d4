# dd_write.sh FILE BLOCK: a shell job that dumps through the page cache, never waiting for the disk itself.
while :; do
    dd if=/dev/zero of="$1" bs="$2" count=4 seek=$((at * 4)) conv=notrunc 2>/dev/null
    at=$(((at + 1) % (67108864 / ($2 * 4))))
    printf . >>"$FIGURE"
done
