#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "netem/kernel/posix.h"
#include "netem/kernel/scheduling.h"
#include "netem/probes/probe.h"
#include "netem/probes/verify_bounds.h"
#include "netem/topology/access_lines.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr absl::Duration kPingInterval = absl::Milliseconds(10);
constexpr absl::Duration kEmptyLook = absl::Milliseconds(10);
// What probes may load the machine with at a time; more and they would disturb one another.
constexpr BitsPerSecond kProbeBudget = Gbit(1);
constexpr double kInitialWindowPackets = 10;
constexpr BitsPerSecond kFastestLossProbe = Mbit(50);

void InParallel(size_t count, const std::function<void(size_t)>& work) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

// Slow start doubles the window each round trip; a few more for the handshake and to settle. On a
// slow line the first window alone takes its time.
absl::Duration RampTime(const Topology& topology, const PathSpec& path, BitsPerSecond rate) {
  const absl::Duration rtt = NominalRtt(topology, path);
  const double bdp_packets =
      rate.value * absl::ToDoubleSeconds(rtt) / (8 * static_cast<double>(FrameBytes(topology.mtu)));
  return rtt * (std::ceil(std::log2(std::max(1.0, bdp_packets / kInitialWindowPackets))) + 3) +
         TimeOfFrames(rate, topology.mtu, kInitialWindowPackets);
}

bool Manages(const QueueManagement& aqm) { return aqm.kind != QueueManagement::Kind::kDropTail; }

class Verification {
 public:
  Verification(const Emulator& emulator, const VerifyOptions& options)
      : emulator_(emulator), topology_(emulator.topology()), options_(options) {}

  absl::StatusOr<std::vector<PathVerdict>> Run() {
    RETURN_IF_ERROR(ChoosePaths());
    verdicts_.resize(paths_.size());
    errors_.resize(paths_.size());
    for (const auto& batch : EchoBatches()) {
      InParallel(batch.size(), [&](size_t k) { MeasureRtt(batch[k]); });
    }
    Repeat([&](size_t i) { MeasureRtt(i); }, [&](size_t i) { return RttComplaint(i); });
    if (options_.measure_rate) {
      for (const auto& batch : RateBatches()) {
        InParallel(batch.size(), [&](size_t k) { MeasureRate(batch[k]); });
        WaitUntilEmpty(batch);
      }
      const auto measure = [&](size_t i) {
        MeasureRate(i);
        WaitUntilEmpty({i});
      };
      Repeat(measure, [&](size_t i) { return RateComplaint(i); });
    }
    if (options_.loss_datagrams > 0) {
      for (size_t i = 0; i < paths_.size(); ++i) MeasureLoss(i);
      Repeat([&](size_t i) { MeasureLoss(i); }, [&](size_t i) { return LossComplaint(i); });
    }
    return Judge();
  }

 private:
  absl::Status ChoosePaths() {
    for (const PathSpec& path : topology_.paths) {
      const bool wanted =
          options_.pairs.empty() || std::count(options_.pairs.begin(), options_.pairs.end(),
                                               std::pair(path.from, path.to)) > 0;
      if (wanted) paths_.push_back(&path);
    }
    if (!options_.pairs.empty() && paths_.size() != options_.pairs.size()) {
      return absl::InvalidArgumentError("verify: a pair has no path in this topology");
    }
    return absl::OkStatus();
  }

  void MeasureRtt(size_t i) {
    const PathSpec& path = *paths_[i];
    if (FindPath(topology_, path.to, path.from) == nullptr) return;  // one way: nothing comes back
    auto rtt = ProbeRtt(emulator_, path.from, path.to, options_.pings,
                        std::max(kPingInterval, 2 * EchoTime(path)), options_.ip);
    errors_[i] = rtt.status();
    if (rtt.ok()) verdicts_[i].rtt = *rtt;
  }

  void MeasureRate(size_t i) {
    const PathSpec& path = *paths_[i];
    const auto rate = NominalRate(topology_, path);
    if (!rate || !errors_[i].ok()) return;
    const auto measure = MeasuringTime(*rate, topology_.mtu, options_.rate_measure);
    if (!measure) {
      verdicts_[i].not_judged =
          fmt::format("the rate is too slow to judge: a full frame takes {:.3g} s at {:g} Mbit/s",
                      absl::ToDoubleSeconds(TimeOfFrames(*rate, topology_.mtu, 1)), InMbit(*rate));
      return;
    }
    const bool both_ways = FindPath(topology_, path.to, path.from) != nullptr;
    // A managed queue is kept short, so that one TCP flow does not fill the link; nor one whose
    // rate changes.
    const bool tcp = both_ways && MeanLoss(path) == 0 && !IsManaged(path) && !path.rate_trace &&
                     RampTime(topology_, path, *rate) <= options_.rate_warm_up;
    auto sample = absl::StatusOr<RateSample>(absl::UnknownError("not run"));
    if (tcp) {
      // The rate is judged by what fills a queue: BBR leaves 2 to 4 % unused.
      for (const char* control : {"cubic", "reno"}) {
        sample = ProbeRate(emulator_, path.from, path.to, options_.rate_warm_up, *measure, control,
                           options_.ip);
        if (!absl::IsFailedPrecondition(sample.status())) break;
      }
    } else {
      sample = ProbeUdpRate(emulator_, path.from, path.to, absl::Milliseconds(100), *measure,
                            options_.ip);
    }
    errors_[i] = sample.status();
    if (sample.ok()) verdicts_[i].rate = *sample;
  }

  bool IsManaged(const PathSpec& path) const {
    const AccessSpec* up = UplinkOf(topology_, path);
    const AccessSpec* down = DownlinkOf(topology_, path);
    return Manages(path.aqm) || (up != nullptr && Manages(up->aqm)) ||
           (down != nullptr && Manages(down->aqm));
  }

  void MeasureLoss(size_t i) {
    const PathSpec& path = *paths_[i];
    if (!errors_[i].ok()) return;
    const BitsPerSecond nominal = NominalRate(topology_, path).value_or(kFastestLossProbe);
    const BitsPerSecond rate = std::min(BitsPerSecond{nominal.value / 2}, kFastestLossProbe);
    const auto in_a_second =
        static_cast<int64_t>(1 / absl::ToDoubleSeconds(TimeOfFrames(rate, topology_.mtu, 1)));
    auto sample =
        ProbeLoss(emulator_, path.from, path.to,
                  std::clamp<int64_t>(in_a_second, 1, options_.loss_datagrams), rate, options_.ip);
    errors_[i] = sample.status();
    if (sample.ok()) verdicts_[i].loss = *sample;
  }

  std::string RttComplaint(size_t i) const {
    return ComplainOfRtt(topology_, options_, *paths_[i], verdicts_[i].rtt);
  }
  std::string RateComplaint(size_t i) const {
    const auto& rate = verdicts_[i].rate;
    return rate ? ComplainOfRate(topology_, options_, *paths_[i], *rate) : "";
  }
  std::string LossComplaint(size_t i) const {
    const auto& loss = verdicts_[i].loss;
    return loss ? ComplainOfLoss(*paths_[i], *loss) : "";
  }

  // What a full delay line and full queues need to empty.
  absl::Duration DrainTime(const PathSpec& path) const {
    return path.delay + 3 * path.jitter + FullQueuesTime(topology_, path) +
           MostTraceWait(topology_, path.from, path.to);
  }

  // Until the paths of a batch hold nothing any more; where the emulator does not count what waits
  // before lines, as long as that may take.
  void WaitUntilEmpty(const std::vector<size_t>& batch) const {
    absl::Duration longest = absl::ZeroDuration();
    bool counted = true;
    for (const size_t i : batch) {
      const PathSpec& path = *paths_[i];
      longest = std::max(longest, DrainTime(path));
      counted = counted &&
                (emulator_.kind() == EmulatorKind::kTap ||
                 (UplinkOf(topology_, path) == nullptr && DownlinkOf(topology_, path) == nullptr));
    }
    const absl::Time latest = MonotonicNow() + longest;
    for (int empty = 0; empty < 2 && MonotonicNow() < latest;) {
      absl::SleepFor(std::min(kEmptyLook, latest - MonotonicNow()));
      empty = counted && HoldNothing(batch) ? empty + 1 : 0;
    }
  }

  bool HoldNothing(const std::vector<size_t>& batch) const {
    return std::all_of(batch.begin(), batch.end(), [this](size_t i) {
      for (const auto& [from, to] :
           {std::pair(paths_[i]->from, paths_[i]->to), {paths_[i]->to, paths_[i]->from}}) {
        if (FindPath(topology_, from, to) == nullptr) continue;
        const auto counters = emulator_.counters(from, to);
        if (!counters.ok() || counters->held_bytes > 0) return false;
      }
      return true;
    });
  }

  // Of an echo or its reply on the slowest line that it crosses.
  absl::Duration EchoTime(const PathSpec& path) const {
    absl::Duration longest = absl::ZeroDuration();
    for (const PathSpec* way : {&path, FindPath(topology_, path.to, path.from)}) {
      const auto rate =
          way == nullptr ? std::optional<BitsPerSecond>() : NominalRate(topology_, *way);
      if (rate)
        longest = std::max(longest, absl::Seconds(8 * EchoFrameBytes(options_.ip) / rate->value));
    }
    return longest;
  }

  // Lines that a rate probe of this path loads; the way back counts, for the acknowledgements.
  std::set<std::string> Lines(const PathSpec& path) const {
    std::set<std::string> lines = {
        fmt::format("{} {}", std::min(path.from, path.to), std::max(path.from, path.to))};
    for (int node : {path.from, path.to}) {
      const auto line = LineOf(topology_, node);
      if (line && !InOneSite(topology_, path.from, path.to)) {
        lines.insert(fmt::format("access {}", *line));
      }
    }
    return lines;
  }

  struct Batch {
    std::vector<size_t> members;
    std::set<std::string> lines;
    double load = 0;
  };
  // Into the first batch with which it shares no line, and which stays within what probes may load.
  static void AddTo(std::vector<Batch>& batches, size_t member, const std::set<std::string>& lines,
                    double load) {
    auto fits = std::find_if(batches.begin(), batches.end(), [&](const Batch& batch) {
      return batch.load + load <= kProbeBudget.value &&
             std::none_of(lines.begin(), lines.end(),
                          [&](const std::string& line) { return batch.lines.contains(line); });
    });
    if (fits == batches.end()) fits = batches.insert(batches.end(), Batch{});
    fits->members.push_back(member);
    fits->lines.insert(lines.begin(), lines.end());
    fits->load += load;
  }
  static std::vector<std::vector<size_t>> MembersOf(std::vector<Batch> batches) {
    std::vector<std::vector<size_t>> members;
    for (Batch& batch : batches) members.push_back(std::move(batch.members));
    return members;
  }

  std::vector<std::vector<size_t>> RateBatches() const {
    std::vector<Batch> batches;
    for (size_t i = 0; i < paths_.size(); ++i) {
      const auto rate = NominalRate(topology_, *paths_[i]);
      if (rate) AddTo(batches, i, Lines(*paths_[i]), rate->value);
    }
    return MembersOf(std::move(batches));
  }

  // Echoes of as many paths as cross a line meet there when they are sent at once: all together,
  // where that is less than what a round trip may be late; else those of one line after another.
  std::vector<std::vector<size_t>> EchoBatches() const {
    std::map<std::string, int> crossing;
    for (const PathSpec* path : paths_) {
      for (const std::string& line : Lines(*path)) ++crossing[line];
    }
    std::vector<size_t> together;
    std::vector<Batch> apart;
    for (size_t i = 0; i < paths_.size(); ++i) {
      const std::set<std::string> lines = Lines(*paths_[i]);
      int most = 0;
      for (const std::string& line : lines) most = std::max(most, crossing.at(line));
      if (most * EchoTime(*paths_[i]) <= options_.rtt_tolerance) {
        together.push_back(i);
      } else {
        AddTo(apart, i, lines, 0);
      }
    }
    std::vector<std::vector<size_t>> batches = MembersOf(std::move(apart));
    if (!together.empty()) batches.push_back(std::move(together));
    return batches;
  }

  // Measures again, alone, what is out of bounds.
  void Repeat(const std::function<void(size_t)>& measure,
              const std::function<std::string(size_t)>& complaint) {
    for (int attempt = 1; attempt < options_.attempts; ++attempt) {
      for (size_t i = 0; i < paths_.size(); ++i) {
        if (!complaint(i).empty()) measure(i);
      }
    }
  }

  // A slow link costs no machine anything; other traffic on it costs the link.
  std::string_view WhatToDo(const PathSpec& path) const {
    constexpr BitsPerSecond kSlow = Mbit(1);
    const auto rate = NominalRate(topology_, path);
    if (rate && *rate <= kSlow) {
      return "Other traffic on it may be why, or a machine that is busy for long: stop that, and "
             "probe again";
    }
    return "The machine may be too busy for it: stop other work, or choose a slower profile";
  }

  absl::StatusOr<std::vector<PathVerdict>> Judge() {
    for (size_t i = 0; i < paths_.size(); ++i) {
      PathVerdict& verdict = verdicts_[i];
      verdict.from = paths_[i]->from;
      verdict.to = paths_[i]->to;
      auto counters = emulator_.counters(verdict.from, verdict.to);
      if (!counters.ok()) return counters.status();
      verdict.counters = *counters;
      std::string why = errors_[i].ok() ? RttComplaint(i) : std::string(errors_[i].message());
      if (why.empty()) why = RateComplaint(i);
      if (why.empty()) why = LossComplaint(i);
      verdict.ok = why.empty();
      if (verdict.ok) continue;
      verdict.why = fmt::format("link {} > {}: {}. {}", topology_.nodes[verdict.from].name,
                                topology_.nodes[verdict.to].name, why, WhatToDo(*paths_[i]));
    }
    return verdicts_;
  }

  const Emulator& emulator_;
  const Topology& topology_;
  const VerifyOptions& options_;
  std::vector<const PathSpec*> paths_;
  std::vector<PathVerdict> verdicts_;
  std::vector<absl::Status> errors_;
};

}  // namespace

absl::StatusOr<std::vector<PathVerdict>> VerifyLinks(const Emulator& emulator,
                                                     const VerifyOptions& options) {
  RETURN_IF_ERROR(emulator.health());
  // In a thread of its own, ahead of other work where that is allowed: a sender that waits for a
  // core would read as a slow link. The probes' threads inherit it; the caller stays as it is.
  absl::StatusOr<std::vector<PathVerdict>> verdicts = absl::UnknownError("not run");
  std::thread([&] {
    EnterRealTime(RealTime::kProbe);
    verdicts = Verification(emulator, options).Run();
  }).join();
  return verdicts;
}

}  // namespace longhaul
