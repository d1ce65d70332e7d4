#!/bin/sh
# Starts a small job under real-time priority again and again: real_time.sh POLICY PRIORITY PAUSE_S [TIMES]
left=${4:-0}
while :; do
    chrt "$1" "$2" true && printf . >>"${FIGURE:-/dev/null}"
    left=$((left - 1))
    [ "$left" -eq 0 ] && exit 0
    sleep "$3"
done
