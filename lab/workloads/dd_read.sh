# dd_read.sh FILE BLOCK: a shell job that reads a file with dd, past the page cache, again and again.
[ -s "$1" ] || dd if=/dev/zero of="$1" bs=1M count=16 conv=fsync 2>/dev/null
while :; do
    dd if="$1" of=/dev/null bs="$2" count=10 iflag=direct skip=$(($(date +%N | sed 's/^0*//;s/^$/0/') % 100)) 2>/dev/null
    printf . >>"$FIGURE"
done
