#!/bin/sh
# Stop the services and their servers; their data is gone with them.
set -eu
. "$(dirname -- "$0")/stack.sh"
if ! runs; then
    echo "the stack is not up"
    exit 0
fi
kill -TERM "$(cat "$pid")"
while runs; do
    sleep 0.2
done
rm -f "$pid"
echo "the stack is down; its log is in $errors"
