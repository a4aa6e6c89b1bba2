#!/usr/bin/env bash
# Who may read a clock. Below the top `now` is passed in, so that a test or a simulated clock can be handed over: codecs,
# the trainer, planning and all that specs, records and reports say read none. Usage: clocks.sh REPO
cd "${1:?usage: clocks.sh REPO}" || exit 2
reads='absl::Now\b|clock_gettime|(steady|system|high_resolution)_clock|gettimeofday|\btime\((nullptr|NULL|0)\)|__rdtsc|GetCurrentTimeNanos|MonotonicClock\('
# Commands, labs and processes; what hands the clock down (in_process, worker); what measures links, transports and
# time-outs; the hour of a record.
may='^(experiments/(command/|launch/|run/|elastic/)|experiments/train/(in_process|worker|run_loop|stillness|temporary_folder)\.cc|experiments/record/record_life\.cc|netem/|plugin/(core/(clock|node|loopback/hub)\.|backend/|swarm/))'
# Of those that may, the rooms that are arithmetic.
never='^(netem/(topology|queues)/|plugin/swarm/transfer_time|plugin/core/(packet|coding|counter_table))'
found=$(grep -rnE "$reads" --include='*.cc' --include='*.h' --include='*.cu' --include='*.cuh' compressors netem plugin \
  pp_group experiments planning | grep -vE '^[^:]+:[0-9]+: *//' | grep -vE "$may")
found+=$(grep -rnE "$reads" --include='*.cc' --include='*.h' netem plugin | grep -vE '^[^:]+:[0-9]+: *//' | grep -E "$never")
if [ -n "$found" ]; then
  echo "$found"
  echo "^ these read a clock by themselves: take the time as an argument, or a std::function that tells it"
  exit 1
fi
echo "no clock is read below the top"
