#!/bin/sh
# Apply the schema. start.sh has done so already, and doing it again changes nothing.
set -eu
. "$(dirname -- "$0")/stack.sh"
enter
"$root/run" scheduler schema
