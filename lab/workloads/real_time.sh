#!/bin/sh
# Starts a small job under real-time priority again and again: real_time.sh POLICY PRIORITY PAUSE_S
while :; do
    chrt "$1" "$2" true && printf . >>"${FIGURE:-/dev/null}"
    sleep "$3"
done
