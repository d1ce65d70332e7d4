# A file lock that somebody keeps.
flock -o /tmp/held sleep 300 & holder=$!
sleep 1
flock /tmp/held true & waiter=$!
sleep 1
effect "$(grep -c -- '->' /proc/locks) waiting"
look
finish $holder $waiter
