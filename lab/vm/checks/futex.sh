# A mutex that one thread keeps too long.
echo 300 >/tmp/switch
$load convoy --threads 3 --gap-us 2000 --keeper keeper --switch /tmp/switch >/dev/null 2>&1 & victim=$!
sleep 2
effect "$(cat /proc/$victim/task/*/syscall 2>/dev/null | grep -c '^202 ') in futex"
look
finish $victim
