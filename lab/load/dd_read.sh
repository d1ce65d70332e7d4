# dd_read.sh FILE BLOCK: a shell job that reads a file with dd, past the page cache, again and again.
[ -s "$1" ] || dd if=/dev/zero of="$1" bs=1M count=16 conv=fsync 2>/dev/null
while :; do
    dd if="$1" of=/dev/null bs="$2" count=25 iflag=direct skip="${at:-0}" 2>/dev/null
    at=$(((at + 37) % 100))
    printf . >>"$FIGURE"
done
