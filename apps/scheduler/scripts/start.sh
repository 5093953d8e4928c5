#!/bin/sh
# Start three Cassandra nodes (one where memory is short), PostgreSQL, Prometheus, and the scheduler's services on them.
# Options are those of `headrace scheduler up`, such as --nodes 1. Stays up until scripts/stop.sh.
set -eu
. "$(dirname -- "$0")/stack.sh"
if runs; then
    echo "the stack is up already: $place"
    exit 0
fi
mkdir -p "$place"
# What is missing is installed where it can be seen.
"$root/run" scheduler up --rig --help >/dev/null
nohup "$root/run" scheduler up --rig "$@" >"$said" 2>"$errors" </dev/null &
echo $! >"$pid"
echo "starting, with its log in $errors"
# The last line that it says when everything is ready.
until grep -q '^export ORDERS_PG_DSN=' "$said"; do
    kill -0 "$(cat "$pid")" 2>/dev/null || { cat "$errors" >&2; rm -f "$pid"; exit 1; }
    sleep 0.5
done
cat "$said"
