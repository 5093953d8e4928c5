# Sourced by the scripts beside it: where the stack keeps what it says, and how commands find it.
root=$(CDPATH= cd -- "$(dirname -- "$0")/../../.." && pwd)
place=${SCHEDULER_STACK:-$root/.scheduler-stack}
said=$place/up.out errors=$place/up.errors pid=$place/up.pid

# Whether the process that start.sh has started is there; another one may have its number by now.
runs() {
    [ -f "$pid" ] && tr '\0' ' ' <"/proc/$(cat "$pid")/cmdline" 2>/dev/null | grep -q ' scheduler up --rig'
}

# The variables that `up` has printed lead every command to the servers of the stack.
enter() {
    runs || { echo "the stack is not up: run scripts/start.sh" >&2; exit 1; }
    eval "$(grep -e '^export ' -e '^unset ' "$said")"
    jobs=$(sed -n 's/^jobs are taken at //p' "$said")
    api=${jobs%/jobs}
}
