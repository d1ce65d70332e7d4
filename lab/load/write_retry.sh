#!/bin/sh
# Writes a report again and again: write_retry.sh FILE PAUSE_SECONDS
# If it may not be made, it sleeps and tries again.
while true; do
	until echo "all is well" 2>/dev/null >"$1"; do
		sleep "$2"
	done
	printf . >>"${FIGURE:-/dev/null}"
	sleep 0.02
done
