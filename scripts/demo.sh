#!/usr/bin/env bash
# The main job on built-in data: installs and builds what it runs, then what this machine can do, a shaped
# run against its prediction and against the same run in one process, a campaign that prices a boundary
# crossing, the report; at the end what each took. Goes on where an earlier call was stopped.
# Usage: scripts/demo.sh [results folder]
set -euo pipefail
cd "$(dirname "$0")/.."
results=${1:-results/demo}
longhaul=build/longhaul
shaped=experiments/specs/shaped.toml
mkdir -p "$results"

title() { printf '\n== %s\n' "$*"; }

took=()
since=0
lap() { took+=("$(printf '%5d s  %s' $((SECONDS - since)) "$1")"); since=$SECONDS; }

scripts/setup.sh build
lap "install"
# Where there is an engine already it is brought up to date: `longhaul` starts it.
if [ -e build/longhaul-engine ]; then scripts/build.sh longhaul_commands; else scripts/build.sh longhaul_demo; fi
lap "compile, on $(nproc) cores"

# A part that ended well is not run again; its log says what it printed. One that did not, such as a
# run whose links a busy machine bent, is told at the end, and the next `make demo` tries it again.
failed=()
part() {  # name, command...
  local name=$1; shift
  if [ -e "$results/$name.done" ]; then
    echo "$name: done before, see $results/$name.log"
  elif "$@" 2>&1 | tee "$results/$name.log"; then
    touch "$results/$name.done"
  else
    failed+=("$name")
  fi
}

title "(a) this machine"
$longhaul doctor --brief

if $longhaul doctor --lab >"$results/lab.log" 2>&1; then
  title "(b) PP-Group DiLoCo, 2 groups x 2 stages on continental-us: uncompressed"
  part shaped-none $longhaul run $shaped --results "$results/shaped" \
    --arm none --set boundary.forward=none --set boundary.backward=none
  title "(b) the same with 4-bit activations and 8-bit gradients"
  part shaped-int4 $longhaul run $shaped --results "$results/shaped" --arm default-pair
  title "(b) the same in one process, without any network: are the bits equal?"
  part loopback-int4 $longhaul run $shaped --results "$results/shaped" --arm one-process \
    --set net.transport=loopback
  $longhaul compare "$results/shaped" default-pair one-process || failed+=(compare)
else
  title "(b) left out: this machine cannot shape links"
  cat "$results/lab.log"
fi

lap "shaped runs"

title "(c) what does a crossing cost? 8-block byte GPT, S = 4 and 8, three paired seeds"
# Three of the spec's seeds, four of its points on the reference curve and one control: what tells S = 8
# from 0.995 in three minutes.
$longhaul measure experiments/specs/smoke.toml --results "$results/smoke" --accept-unresolved \
  --set 'campaign.seeds=[1, 2, 3]' --set 'campaign.budgets=[0.5, 0.7, 1.0, 1.1]' \
  --set 'campaign.control_budgets=[0.85]'

lap "campaign"

title "(d) reports"
if [ -e "$results/shaped/longhaul.sqlite" ]; then
  echo "links as probed, bytes as counted, step times, a loss curve per arm:"
  $longhaul report "$results/shaped"
fi
echo "q per crossing against the assumed 0.995, and what it does to a planner's conclusions:"
$longhaul report "$results/smoke"
printf '\ntook:\n'
printf '%s\n' "${took[@]}"
if [ ${#failed[@]} -gt 0 ]; then
  echo "not as it should be: ${failed[*]} (see above, or $results/NAME.log); make demo tries again"
  exit 1
fi
