# A program has an isolated CPU to itself, and the tick interrupts it there all the same: no nohz_full was given at boot.
timer() { sed -n 's/^ *LOC: *[0-9]* *\([0-9]*\).*/\1/p' /proc/interrupts; } # of CPU 1
taskset -c 1 sh -c 'while :; do :; done' & victim=$!
sleep 2
ticks=$(timer)
look
ticks=$(($(timer) - ticks))
# The look lasts for 4 s, and begins some time after it is asked for.
effect "$((ticks / 4)) interrupts a second on CPU $(cat /sys/devices/system/cpu/isolated)"
figure "interrupts of the CPU's own timer" $((ticks / 5)) $((ticks / 10))
finish $victim
