# dd_write.sh FILE BLOCK: a shell job that dumps through the page cache, 16 MiB a process, never waiting for the disk itself.
while :; do
    dd if=/dev/zero of="$1" bs="$2" count=$((16777216 / $2)) seek=$((at * (16777216 / $2))) conv=notrunc 2>/dev/null
    at=$(((at + 1) % 4))
    printf . >>"$FIGURE"
done
