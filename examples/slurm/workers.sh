#!/bin/bash
# One run over many hosts: a task of Slurm for every rank, S x G of them, over the cluster's own links.
#
#   sbatch --ntasks=4 --nodes=4 examples/slurm/workers.sh SPEC FOLDER
#   longhaul ingest FOLDER/events --results results/NAME      # when it has ended
#
# FOLDER is on a file system that all hosts share: the ranks' events and checkpoints. When a rank or
# its host is lost the others end, the job goes back into the queue, and the next start goes on from
# the newest checkpoint that all ranks have (the spec's checkpoint.every_steps). `ingest` makes one
# record of all starts. LONGHAUL_INTERFACE names the interface where a host has several.
#SBATCH --job-name=longhaul-workers
#SBATCH --cpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
spec=$1 folder=$2
export LONGHAUL=${LONGHAUL:-longhaul}
export WORLD_SIZE=$SLURM_NTASKS
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export MASTER_ADDR MASTER_PORT

srun --kill-on-bad-exit=1 bash -c '
  RANK=$SLURM_PROCID exec "$LONGHAUL" worker "$1" --events "$2/events" --checkpoints "$2/checkpoints" \
    ${LONGHAUL_INTERFACE:+--interface "$LONGHAUL_INTERFACE"}' worker "$spec" "$folder"
status=$?

# A spec that cannot be run would fail as often as it is started.
if [ "$status" -ne 0 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt "${LONGHAUL_RESTARTS:-3}" ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
