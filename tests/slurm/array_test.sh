#!/bin/bash
# examples/slurm/array.sh on a real Slurm: a controller and a node of this machine, in namespaces of
# their own and with no other authentication than being root there. A job that is told to end comes
# back and goes on; the merged tables are those of one machine.
# Usage: array_test.sh LONGHAUL SOURCE_FOLDER. Exit status 77: skipped, and why.
set -eu
longhaul=$1 source=$2
for program in slurmctld slurmd sbatch scontrol squeue unshare ip; do
  command -v "$program" >/dev/null || { echo "skipped: no $program (Debian: slurm-wlm)"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: slurmd wants to be root"; exit 77; }

if [ "${IN_NAMESPACES:-}" != yes ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  IN_NAMESPACES=yes WORK=$work unshare --mount --pid --net --uts --fork --mount-proc \
    "$0" "$longhaul" "$source"
  exit
fi

fail() { echo "FAILED: $*"; tail -n 30 "$WORK"/*.log || true; exit 1; }
eventually() {  # SECONDS COMMAND...
  local left=$(($1 * 5)); shift
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1)); [ "$left" -gt 0 ] || return 1
    sleep 0.2
  done
}

# A node needs an address that is no loopback one.
hostname farm
ip link set lo up
ip link add farm0 type dummy 2>/dev/null || ip link add farm0 type veth peer name farm1
ip addr add 10.77.0.1/24 dev farm0
ip link set farm0 up
printf '127.0.0.1 localhost\n10.77.0.1 farm\n' >"$WORK/hosts"
mount --bind "$WORK/hosts" /etc/hosts
mkdir "$WORK/state" "$WORK/spool"
cat >"$WORK/slurm.conf" <<CONF
ClusterName=farm
SlurmctldHost=farm(10.77.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation=$WORK/state
SlurmdSpoolDir=$WORK/spool
SlurmctldPidFile=$WORK/slurmctld.pid
SlurmdPidFile=$WORK/slurmd.pid
ReturnToService=2
KillWait=60
MinJobAge=600
# A job that is put back waits two minutes otherwise.
SchedulerParameters=sched_interval=1,bf_interval=1,requeue_delay=0
JobRequeue=1
NodeName=farm NodeAddr=10.77.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=farm Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
export SLURM_CONF=$WORK/slurm.conf LONGHAUL=$longhaul
slurmctld -D >"$WORK/slurmctld.log" 2>&1 &
slurmd -D >"$WORK/slurmd.log" 2>&1 &
eventually 30 sh -c 'sinfo -h -o %t | grep -q idle' || fail "the node does not come up"

spec=$source/tests/slurm/campaign.toml
runs=$("$longhaul" measure "$spec" --list | wc -l)
job=$(cd "$WORK" && sbatch --parsable --array="0-$((runs - 1))%2" --output="$WORK/job-%a.log" \
  "$source/examples/slurm/array.sh" "$spec" "$WORK/records")
# One that runs is told to end, as Slurm does before its time is over.
last=$((runs - 1))
eventually 120 test -e "$WORK/records/000$last/longhaul.sqlite" || fail "run $last does not start"
sleep 2
scancel --signal=TERM --batch "${job}_$last" || true
eventually 240 sh -c '[ -z "$(squeue -h -o %i)" ]' || fail "the array does not end"

"$longhaul" merge "$WORK/merged" "$WORK/records" || fail "merge"
tables() { "$longhaul" measure "$spec" --results "$1" --accept-unresolved --quiet | sed '/^record: /d'; }
tables "$WORK/merged" >"$WORK/merged.txt" || fail "tables of the merged record"
tables "$WORK/one" >"$WORK/one.txt" || fail "tables of one machine"
diff "$WORK/merged.txt" "$WORK/one.txt" || fail "the tables differ"
restarts=$(scontrol show job "${job}_$last" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p' | head -1)
[ "${restarts:-0}" -ge 1 ] || fail "run $last was not put back into the queue"
echo "PASSED: $runs runs as an array, run $last put back $restarts time(s), equal tables"
