#!/bin/sh
# Five checks of a stack that is up: it answers, it has its schema, a job is taken, its run is in the history, metrics are
# there. Ends at the first that fails.
set -eu
. "$(dirname -- "$0")/stack.sh"
tries=120

ask() {
    curl --silent --show-error --fail --noproxy '*' --max-time 30 "$@"
}

value_of() {
    sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"
}

passed() {
    echo "ok   $1"
}

failed() {
    echo "FAIL $1" >&2
    exit 1
}

enter
ask "$api/healthz" >/dev/null && ask "$api/readyz" >/dev/null || failed "1 the stack is up"
passed "1 the stack is up: $api"

"$root/run" scheduler schema >/dev/null || failed "2 the schema is applied"
passed "2 the schema is applied: keyspace $CASSANDRA_KEYSPACE"

created=$(ask "$jobs" -H 'Content-Type: application/json' \
    -d '{"schedule": "now", "payload": {}, "max_duration_seconds": 60}') || failed "3 a job is taken"
job=$(echo "$created" | value_of job_id)
[ -n "$job" ] || failed "3 a job is taken: $created"
passed "3 a job is taken: $job"

until ask "$jobs/$job/runs" | grep -q '"status": *"completed"'; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || failed "4 its run is in the history: $(ask "$jobs/$job")"
    sleep 0.5
done
passed "4 its run is in the history, completed"

# The worker has the metrics of its runs and locks; the REST interface has its own.
worker=$(sed -n 's/^scheduler worker is ready at //p' "$said" | tail -n 1)
metrics=$(ask "$worker/metrics") || failed "5 metrics are there"
for name in jobs_processed_total lwt_latency_seconds_count; do
    echo "$metrics" | grep -q "^$name" || failed "5 metrics are there: no $name"
done
passed "5 metrics are there: $worker/metrics"
