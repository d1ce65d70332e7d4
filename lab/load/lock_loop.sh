#!/bin/sh
# Takes a file lock with flock(1) again and again: lock_loop.sh FILE PAUSE_S [ROUNDS]
rounds=${3:-1000000000}
while [ "$rounds" -gt 0 ]; do
    flock "$1" true
    printf . >>"${FIGURE:-/dev/null}"
    rounds=$((rounds - 1))
    sleep "$2"
done
