#!/bin/sh
# Starts programs one after the other, each in namespaces of its own, as a container's runtime does: start_containers.sh [COUNT]
left=${1:-1000000000}
while [ "$left" -gt 0 ]; do
    unshare --fork --pid --mount --net --mount-proc true
    printf . >>"${FIGURE:-/dev/null}"
    left=$((left - 1))
done
