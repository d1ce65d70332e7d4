# cgroup v2's cpu.max.
group webshop
echo "20000 100000" >/sys/fs/cgroup/webshop/cpu.max
within webshop $load compute --threads 1 --work-us 900
sleep 3
effect "$(grep nr_throttled /sys/fs/cgroup/webshop/cpu.stat)"
look
finish $victim
