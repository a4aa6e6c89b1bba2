#!/bin/bash
# A campaign as an array of Slurm jobs, one run each:
#
#   longhaul measure SPEC --list                     # ids 0 to N - 1
#   sbatch --array=0-$((N - 1))%8 examples/slurm/array.sh SPEC RECORDS
#   longhaul merge results/NAME RECORDS              # when the array has ended
#   longhaul measure SPEC --results results/NAME     # the tables; trains what is missing
#
# Every run has a record of its own under RECORDS, so that no two jobs write one file. Slurm sends
# SIGTERM 120 s before a job's time is over: the run writes a checkpoint and ends with status 75,
# the job goes back into the queue and then goes on from there. An array that was killed is
# submitted again as it was: runs that have ended end at once.
#SBATCH --job-name=longhaul
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
spec=$1 records=$2
longhaul=${LONGHAUL:-longhaul}

# B:TERM reaches this shell alone.
"$longhaul" measure "$spec" --run "$SLURM_ARRAY_TASK_ID" --records "$records" --quiet &
run=$!
trap 'kill -TERM "$run" 2>/dev/null' TERM
wait "$run"
status=$?
# The trap interrupts the wait.
while kill -0 "$run" 2>/dev/null; do wait "$run"; status=$?; done

if [ "$status" -eq 75 ]; then
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit "$status"
