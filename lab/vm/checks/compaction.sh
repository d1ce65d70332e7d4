# Free memory in single pages, by a holder that gave back every other one: whoever asks for huge pages and waits for them
# moves the rest out of the way. The printed way out has it not wait. A kernel may give up soon and take small pages: that
# proves nothing.
fragment() {
    rm -f /tmp/held
    $load pieces --leave-mib 64 --ready /tmp/held & holder=$!
    for _ in $(seq 60); do [ -e /tmp/held ] && break; sleep 1; done
}
stalls() { sed -n 's/^compact_stall //p' /proc/vmstat; }
# Stalls, not time: a guest without KVM spends more on the faults of small pages than on moving any.
stalled_by() {
    fragment
    stalled=$(stalls)
    "$@"
    stalled=$(($(stalls) - stalled))
    finish $holder
}
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
echo madvise >/sys/kernel/mm/transparent_hugepage/defrag
# After boot a kernel may have long blocks that no process got yet: the first one who asks takes those.
stalled_by $load huge-pages --mib 400
stalled_by ask run -- $load huge-pages --mib 400
before=$stalled
[ "$stalled" -ge 100 ] || stalled=0
effect "$stalled stalls"
grep -E '^(compact|thp_fault|allocstall)' /proc/vmstat
way_out
stalled_by $load huge-pages --mib 400
cured "$before $stalled stalls"
