# A program has an isolated CPU to itself, and the tick interrupts it there all the same: no nohz_full was given at boot.
timer() { sed -n 's/^ *LOC: *[0-9]* *\([0-9]*\).*/\1/p' /proc/interrupts; } # of CPU 1
taskset -c 1 sh -c 'while :; do :; done' & victim=$!
sleep 2
before=$(timer) begun=$(cut -d ' ' -f 1 /proc/uptime)
look
rate=$(echo "$before $begun $(timer) $(cut -d ' ' -f 1 /proc/uptime)" | awk '{ printf "%d", ($3 - $1) / ($4 - $2) }')
effect "$rate interrupts a second on CPU $(cat /sys/devices/system/cpu/isolated)"
# The guest's stretch is longer than the look, by the time that holdup takes to begin and to answer.
figure "interrupts of the CPU's own timer" "$rate" $((rate / 5))
finish $victim
