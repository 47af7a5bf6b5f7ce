#!/bin/sh
# Run a job for yesterday, by UTC: distsvc-nightly JOB.toml [OPTION...], options as of distsvc run.
# It is for schedulers that know success and failure only: a skipped night (99) is a success; every
# other exit code is passed on. SIGTERM is passed to the job, which then ends with 143.
set -u

distsvc run --run-date "$(date --utc --date=yesterday +%F)" "$@" &
job=$!
trap 'kill -TERM "$job"' TERM INT
wait "$job"
code=$?
while kill -0 "$job" 2>/dev/null; do # a signal ends wait before the job has ended
    wait "$job"
    code=$?
done
[ "$code" -eq 99 ] && exit 0
exit "$code"
