# Free memory in single pages, by a holder that gave back every other one: whoever asks for huge pages moves the rest
# out of the way. The printed way out has it not wait for them.
fragment() {
    rm -f /tmp/held
    $load pieces --leave-mib 64 --ready /tmp/held & holder=$!
    for _ in $(seq 60); do [ -e /tmp/held ] && break; sleep 1; done
}
stalls() { sed -n 's/^compact_stall //p' /proc/vmstat; }
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
echo madvise >/sys/kernel/mm/transparent_hugepage/defrag
fragment
stalled=$(stalls)
before=$($load huge-pages --mib 400)
stalled=$(($(stalls) - stalled))
# A few are none: the kernel gave up at once and took small pages.
[ "$stalled" -ge 20 ] || stalled=0
effect "$stalled stalls, $(grep -E '^thp_fault' /proc/vmstat | tr '\n' ' ')"
finish $holder
fragment
ask run -- $load huge-pages --mib 400
finish $holder
way_out
fragment
cured "$before $($load huge-pages --mib 400)"
finish $holder
