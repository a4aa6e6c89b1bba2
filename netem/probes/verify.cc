#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include "netem/kernel/scheduling.h"
#include "netem/probes/probe.h"
#include "netem/probes/verify_bounds.h"
#include "netem/topology/access_lines.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

constexpr absl::Duration kPingInterval = absl::Milliseconds(10);
// What probes may load the machine with at a time; more and they would disturb one another.
constexpr BitsPerSecond kProbeBudget = Gbit(1);
constexpr double kInitialWindowPackets = 10;
constexpr BitsPerSecond kFastestLossProbe = Mbit(50);

void InParallel(size_t count, const std::function<void(size_t)>& work) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

// Slow start doubles the window each round trip; a few more for the handshake and to settle.
absl::Duration RampTime(const Topology& topology, const PathSpec& path, BitsPerSecond rate) {
  const absl::Duration rtt = NominalRtt(topology, path);
  const double bdp_packets =
      rate.value * absl::ToDoubleSeconds(rtt) / (8 * static_cast<double>(FrameBytes(topology.mtu)));
  return rtt * (std::ceil(std::log2(std::max(1.0, bdp_packets / kInitialWindowPackets))) + 3);
}

bool Manages(const QueueManagement& aqm) { return aqm.kind != QueueManagement::Kind::kDropTail; }

class Verification {
 public:
  Verification(const Emulator& emulator, const VerifyOptions& options)
      : emulator_(emulator), topology_(emulator.topology()), options_(options) {}

  absl::StatusOr<std::vector<PathVerdict>> Run() {
    if (auto s = ChoosePaths(); !s.ok()) return s;
    verdicts_.resize(paths_.size());
    errors_.resize(paths_.size());
    InParallel(paths_.size(), [&](size_t i) { MeasureRtt(i); });
    Repeat([&](size_t i) { MeasureRtt(i); }, [&](size_t i) { return RttComplaint(i); });
    if (options_.measure_rate) {
      for (const auto& batch : RateBatches()) {
        InParallel(batch.size(), [&](size_t k) { MeasureRate(batch[k]); });
        absl::SleepFor(DrainTime());
      }
      const auto measure = [&](size_t i) {
        MeasureRate(i);
        absl::SleepFor(DrainTime());
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
    auto rtt = ProbeRtt(emulator_, path.from, path.to, options_.pings, kPingInterval);
    errors_[i] = rtt.status();
    if (rtt.ok()) verdicts_[i].rtt = *rtt;
  }

  void MeasureRate(size_t i) {
    const PathSpec& path = *paths_[i];
    const auto rate = NominalRate(topology_, path);
    if (!rate || !errors_[i].ok()) return;
    const bool both_ways = FindPath(topology_, path.to, path.from) != nullptr;
    // A managed queue is kept short, so that one TCP flow does not fill the link; nor one whose
    // rate changes.
    const bool tcp = both_ways && MeanLoss(path) == 0 && !IsManaged(path) && !path.rate_trace &&
                     RampTime(topology_, path, *rate) <= options_.rate_warm_up;
    auto sample = absl::StatusOr<RateSample>(absl::UnknownError("not run"));
    if (tcp) {
      // The rate is judged by what fills a queue: BBR leaves 2 to 4 % unused.
      for (const char* control : {"cubic", "reno"}) {
        sample = ProbeRate(emulator_, path.from, path.to, options_.rate_warm_up,
                           options_.rate_measure, control);
        if (!absl::IsFailedPrecondition(sample.status())) break;
      }
    } else {
      sample = ProbeUdpRate(emulator_, path.from, path.to, absl::Milliseconds(100),
                            options_.rate_measure);
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
        static_cast<int64_t>(rate.value / (8 * static_cast<double>(FrameBytes(topology_.mtu))));
    auto sample = ProbeLoss(emulator_, path.from, path.to,
                            std::clamp<int64_t>(in_a_second, 1, options_.loss_datagrams), rate);
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

  // What a full delay line and a full queue need to empty.
  absl::Duration DrainTime() const {
    absl::Duration longest = absl::ZeroDuration();
    for (const PathSpec* path : paths_) {
      const absl::Duration queue = std::max(path->queue_bdp, 1.0) * NominalRtt(topology_, *path);
      longest = std::max(longest, path->delay + 3 * path->jitter + queue);
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

  std::vector<std::vector<size_t>> RateBatches() const {
    struct Batch {
      std::vector<size_t> members;
      std::set<std::string> lines;
      double load = 0;
    };
    std::vector<Batch> batches;
    for (size_t i = 0; i < paths_.size(); ++i) {
      const auto rate = NominalRate(topology_, *paths_[i]);
      if (!rate) continue;
      const std::set<std::string> lines = Lines(*paths_[i]);
      auto fits = std::find_if(batches.begin(), batches.end(), [&](const Batch& batch) {
        return batch.load + rate->value <= kProbeBudget.value &&
               std::none_of(lines.begin(), lines.end(),
                            [&](const std::string& line) { return batch.lines.contains(line); });
      });
      if (fits == batches.end()) fits = batches.insert(batches.end(), Batch{});
      fits->members.push_back(i);
      fits->lines.insert(lines.begin(), lines.end());
      fits->load += rate->value;
    }
    std::vector<std::vector<size_t>> members;
    for (Batch& batch : batches) members.push_back(std::move(batch.members));
    return members;
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
      verdict.why = fmt::format(
          "link {} > {}: {}. The machine may be too busy for it: stop other work, or choose a "
          "slower profile",
          topology_.nodes[verdict.from].name, topology_.nodes[verdict.to].name, why);
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
  if (auto s = emulator.health(); !s.ok()) return s;
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
