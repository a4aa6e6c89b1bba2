#!/usr/bin/env bash
# Who may read a clock. Below the top `now` is passed in, so that a test or a simulated clock can be handed over: codecs,
# the trainer, planning and all that specs, records and reports say read none. Usage: clocks.sh REPO
cd "${1:?usage: clocks.sh REPO}" || exit 2
# Clocks by name, under whatever alias; Abseil's, the C library's and the kernel's; the processor's and a GPU's
# counters; torch's; and our own functions that read one.
reads='absl::Now\b|(GetCurrentTimeNanos|MonotonicClock|MonotonicNow)\(|(steady|system|high_resolution|utc|tai|gps|file)_clock'
reads+='|::clock::now|Clock::now|CLOCK_(MONOTONIC|REALTIME|BOOTTIME|TAI)|clock_gettime|gettimeofday|timespec_get|timerfd_gettime|getrusage'
reads+='|(^|[^A-Za-z_.>:])(std::|::)?(time\((nullptr|NULL|0|&)|clock\(\) *[-+*/;),]|ftime\(|times\(&)|rdtsc|/proc/uptime'
reads+='|clock64\(|globaltimer|cudaEventElapsedTime|c10::get(Approximate)?Time|last_write_time'
# Commands, labs and processes; what hands the clock down (in_process, worker); what measures links, transports and
# time-outs; the hour of a record.
may='^(experiments/(command/|launch/|run/|elastic/)|experiments/train/(in_process|worker|run_loop|stall_detector|temporary_folder)\.cc|experiments/record/record_life\.cc|netem/|plugin/(core/(clock|node|loopback/hub|device/cuda_runtime)\.|backend/|swarm/))'
# Of those that may, the rooms that are arithmetic.
never='^(netem/(topology|queues)/|plugin/swarm/transfer_time|plugin/core/(packet|coding|counter_table))'
while IFS= read -r line; do
  if ! grep -qE "$reads" <<<"$line"; then
    echo "this reads a clock, and is not seen: $line"
    exit 1
  fi
done <<'READS'
using Clock = std::chrono::steady_clock;
const auto t = Stopwatch::clock::now();
std::chrono::file_clock::now()
absl::Now() - begin
long now = time(nullptr);
  std::time(&now);
return ::time(NULL);
  begin = clock();
std::clock() / CLOCKS_PER_SEC
times(&spent);
syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t)
timespec_get(&t, TIME_UTC);
const uint64_t ticks = __builtin_ia32_rdtsc();
c10::getTime()
const auto begun = MonotonicNow();
auto begun = clock64();
READS
while IFS= read -r line; do
  if grep -qE "$reads" <<<"$line"; then
    echo "this reads no clock, and is taken for one: $line"
    exit 1
  fi
done <<'OTHERS'
const Clock& clock() const { return *options_.clock; }
return groups_[group].clock()[rank];
times(l.nominal_rate_bit_per_s, 1e-6)
absl::StatusOr<std::unique_ptr<SimulatedClock>> SimulatedClock::Of(spec)
absl::Time runtime(nullptr)
OTHERS
sources=(--include='*.cc' --include='*.cpp' --include='*.c' --include='*.h' --include='*.hpp' --include='*.inc' --include='*.cu' --include='*.cuh')
found=$(grep -rnE "$reads" "${sources[@]}" compressors netem plugin pp_group experiments planning |
  grep -vE '^[^:]+:[0-9]+: *//' | grep -vE "$may")
found+=$(grep -rnE "$reads" "${sources[@]}" netem plugin | grep -vE '^[^:]+:[0-9]+: *//' | grep -E "$never")
if [ -n "$found" ]; then
  echo "$found"
  echo "^ these read a clock by themselves: take the time as an argument, or a std::function that tells it"
  exit 1
fi
echo "no clock is read below the top"
