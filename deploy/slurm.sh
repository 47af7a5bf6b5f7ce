#!/bin/bash
# A scheduler, workers and a job as one Slurm job, in a folder that all nodes share:
#   sbatch deploy/slurm.sh jobs/nightly.toml --run-date "$(date --utc --date=yesterday +%F)"
# The date is given on submission, for a job may wait until the next day, or go on there.
#SBATCH --job-name=distsvc
#SBATCH --ntasks=6
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# One task is the scheduler's, one the driver's, which is this script's own; the others are workers.
set -u
restarts=5 pause=10minutes

# Other users reach the ports of the nodes: TLS with a key of this job's own lets none of them in.
folder=$PWD/.distsvc-$SLURM_JOB_ID
file=$folder/scheduler.json
(umask 077 && mkdir -p "$folder" && openssl req -x509 -newkey ec -nodes -days 30 -subj /CN=distsvc \
    -pkeyopt ec_paramgen_curve:prime256v1 -keyout "$folder/key" -out "$folder/cert") || exit 77
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE=$folder/cert
for role in SCHEDULER WORKER CLIENT; do
    export DASK_DISTRIBUTED__COMM__TLS__${role}__CERT="$folder/cert"
    export DASK_DISTRIBUTED__COMM__TLS__${role}__KEY="$folder/key"
done
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true
unset DASK_SCHEDULER_ADDRESS # it would come before the file
rm -f "$file"
# Workers keep pieces of memory of up to 32 MB for the next use; Dask would have them give them back.
export MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=67108864

srun --exact --nodes=1 --ntasks=1 \
    dask scheduler --protocol tls --port 0 --scheduler-file "$file" \
    --no-dashboard --dashboard-address 127.0.0.1:0 &
scheduler=$!
srun --exact --ntasks=$((SLURM_NTASKS - 2)) --kill-on-bad-exit=0 \
    dask worker --protocol tls --nthreads 1 --scheduler-file "$file" \
    --memory-limit "${SLURM_MEM_PER_CPU}MiB" --local-directory "${TMPDIR:-/tmp}" \
    --no-dashboard --dashboard-address 127.0.0.1:0 --death-timeout 120s &
workers=$!
for _ in {1..120}; do [ -s "$file" ] || sleep 1; done

# Slurm sends USR1 two minutes before the time is over, and TERM on scancel. Either ends the job,
# but only the first starts it again.
again=false
distsvc run "$@" --scheduler-file "$file" --require-tls &
job=$!
trap 'again=true; kill -TERM "$job"' USR1
trap 'kill -TERM "$job"' TERM
wait "$job"
code=$?
while kill -0 "$job" 2>/dev/null; do # a signal ends wait before the job has ended
    wait "$job"
    code=$?
done
trap '' TERM
kill "$scheduler" "$workers" 2>/dev/null
wait
rm -rf "$folder"

[ "$code" -eq 75 ] && again=true
[ "$code" -eq 0 ] && again=false
if $again && [ "${SLURM_RESTART_COUNT:-0}" -lt "$restarts" ]; then
    scontrol requeue "$SLURM_JOB_ID" &&
        scontrol update JobId="$SLURM_JOB_ID" StartTime=now+$pause &&
        trap - TERM && sleep 60 # until Slurm ends this script
fi
[ "$code" -eq 99 ] && exit 0 # a skipped night is a success
exit "$code"
