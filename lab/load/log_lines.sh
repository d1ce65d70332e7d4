#!/bin/sh
# Writes lines to a pipe or terminal: log_lines.sh FILE BYTES. An operation is ten lines.
line=$(head -c "$2" /dev/zero | tr '\0' x)
exec 3>"$1"
while :; do
    i=0
    while [ $i -lt 10 ]; do
        echo "$line" >&3 || exit 0
        i=$((i + 1))
    done
    printf . >>"${FIGURE:-/dev/null}"
    sleep 0.02
done
