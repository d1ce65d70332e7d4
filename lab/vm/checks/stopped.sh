# A process that was stopped and not continued.
$load compute --threads 1 --work-us 900 --rest-us 4000 >/dev/null & victim=$!
sleep 1
kill -STOP $victim
sleep 1
effect "state $(sed -n 's/^State:.*\([A-Za-z]\) .*/\1/p' /proc/$victim/status)"
look -p $victim
finish $victim
