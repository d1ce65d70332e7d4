# Free memory in single pages, by a holder that gave back every other one: whoever asks for huge pages moves the rest
# out of the way. The printed way out has it not wait for them.
cat >/tmp/hold.py <<'PY'
import mmap, time
free = next(int(l.split()[1]) for l in open("/proc/meminfo") if l.startswith("MemAvailable")) * 1024
memory = mmap.mmap(-1, free - (192 << 20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(memory), 1 << 16):
    memory[at:at + (1 << 16)] = bytes(1 << 16)
for at in range(0, len(memory), 8192):
    memory.madvise(mmap.MADV_DONTNEED, at, 4096)
open("/tmp/held", "w").close()
time.sleep(600)
PY
cat >/tmp/huge.py <<'PY'
import mmap, time
begun = time.monotonic()
memory = mmap.mmap(-1, 320 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_HUGEPAGE)
some = b"x" * (1 << 16)
for at in range(0, len(memory), 1 << 16):
    memory[at:at + (1 << 16)] = some
print(int(1000 * (time.monotonic() - begun)))
PY
fragment() {
    rm -f /tmp/held
    python3 /tmp/hold.py & holder=$!
    for _ in $(seq 60); do [ -e /tmp/held ] && break; sleep 1; done
}
stalls() { sed -n 's/^compact_stall //p' /proc/vmstat; }
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
echo madvise >/sys/kernel/mm/transparent_hugepage/defrag
fragment
stalled=$(stalls)
before=$(python3 /tmp/huge.py)
effect "$(($(stalls) - stalled)) stalls"
finish $holder
fragment
ask run -- python3 /tmp/huge.py
finish $holder
way_out
fragment
cured "$before $(python3 /tmp/huge.py)"
finish $holder
