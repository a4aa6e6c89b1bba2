# Sourced by the tests of examples/slurm with LONGHAUL and the source folder in $longhaul and $source: a
# controller and a node of this machine, in namespaces of their own and with no other authentication
# than being root there. Ends the test with 77, and why, where there is no Slurm. $WORK is its scratch.
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

