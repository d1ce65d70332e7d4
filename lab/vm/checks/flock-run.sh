# A command that waits for a file lock.
flock /tmp/held2 sleep 5 & holder=$!
sleep 1
effect "$(grep -c FLOCK /proc/locks) held"
ask run -- flock /tmp/held2 true
finish $holder
