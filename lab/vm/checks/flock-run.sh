# A command that waits for a file lock, which is given up only after somebody has waited for it.
flock -o /tmp/held2 sh -c "until grep -q -- '->' /proc/locks; do sleep 0.2; done; sleep 2" & holder=$!
sleep 1
effect "$(grep -c FLOCK /proc/locks) held"
ask run -- /usr/bin/flock /tmp/held2 true
finish $holder
