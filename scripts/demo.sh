#!/usr/bin/env bash
# The main job on built-in data: installs and builds what it runs, then what this machine can do, a shaped
# run against its prediction and against the same run in one process, a campaign that prices a boundary
# crossing, the reports. Ends with one screen: the campaign's table, what it says, the two reports. Each
# part writes its whole output to RESULTS/NAME.log. Goes on where an earlier call was stopped.
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

# A part that ended well is not run again. One that did not, such as a run whose links a busy machine
# bent, is named at the end, and the next `make demo` tries it again.
failed=()
part() {  # name, words for a reader, command...
  local name=$1 words=$2; shift 2
  if [ -e "$results/$name.done" ]; then
    echo "  $words: done before ($results/$name.log)"
  elif "$@" >"$results/$name.log" 2>&1; then
    touch "$results/$name.done"
    echo "  $words: done ($results/$name.log)"
  else
    failed+=("$name")
    echo "  $words: FAILED: $(tail -n 1 "$results/$name.log")"
  fi
}

title "(a) this machine"
$longhaul doctor --brief

if $longhaul doctor --lab >"$results/lab.log" 2>&1; then
  title "(b) PP-Group DiLoCo, 2 groups x 2 stages on continental-us (100 Mbit/s, 65 ms)"
  part shaped-none "without compression" $longhaul run $shaped --results "$results/shaped" \
    --arm none --set boundary.forward=none --set boundary.backward=none
  part shaped-int4 "4-bit activations, 8-bit gradients" \
    $longhaul run $shaped --results "$results/shaped" --arm default-pair
  part loopback-int4 "the same in one process" $longhaul run $shaped --results "$results/shaped" \
    --arm one-process --set net.transport=loopback
  $longhaul compare "$results/shaped" default-pair one-process >"$results/compare.log" 2>&1 \
    || failed+=(compare)
  tail -n 1 "$results/compare.log"
else
  title "(b) skipped: this machine cannot shape links"
  tail -n 1 "$results/lab.log"
fi

lap "shaped runs"

title "(c) what does a boundary cost? 8-block byte GPT, S = 4 and 8, three paired seeds"
# Three of the spec's seeds, four of its points on the reference curve and one control: what separates
# S = 8 from 0.995 in minutes. The points branch off one run a seed.
$longhaul measure experiments/specs/smoke.toml --results "$results/smoke" --accept-unresolved \
  --set 'campaign.seeds=[1, 2, 3]' --set 'campaign.budgets=[0.5, 0.7, 1.0, 1.1]' \
  --set 'campaign.control_budgets=[0.85]' --set train.schedule=wsd

lap "campaign"

echo
if [ -e "$results/shaped/longhaul.sqlite" ]; then
  echo "links, bytes and step times: $($longhaul report "$results/shaped")"
fi
echo "what a boundary costs:       $($longhaul report "$results/smoke")"
printf '%s;' "${took[@]}" | tr -s ' ' | sed 's/^ /took /; s/;$/\n/'
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed steps: ${failed[*]} (see $results/NAME.log); make demo tries them again"
  exit 1
fi
