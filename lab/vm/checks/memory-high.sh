# cgroup v2's memory.high, with memory that cannot be written back.
group report
echo 48M >/sys/fs/cgroup/report/memory.high
within report python3 -c '
import time
held = []
while True:
    held.append(bytearray(1 << 20))
    if len(held) > 96:
        held.clear()'
sleep 4
effect "$(grep -w high /sys/fs/cgroup/report/memory.events)"
look
finish $victim
