#include "netem/topology/path_figure_table.h"

#include <fmt/format.h>

#include <string>

#include "base/status_macros.h"
#include "netem/topology/figure_text.h"
#include "netem/topology/rate_trace.h"

namespace longhaul {
namespace {

absl::Status BadValue(std::string_view key, std::string_view value, std::string_view want) {
  return absl::InvalidArgumentError(fmt::format("{}={}: want {}", key, value, want));
}

absl::Status SetTime(std::string_view key, std::string_view value, absl::Duration& time) {
  const auto read = ReadTime(key, value);
  if (read.ok()) time = *read;
  return read.status();
}

absl::Status SetQueue(std::string_view value, int /*mtu*/, PathSpec& path) {
  using Depth = QueueDepth::Unit;
  std::string unit;
  double amount = 0;
  const bool read = TakeNumber(value, amount, unit);
  if (read && unit.empty()) {
    return BadValue("queue", value,
                    fmt::format("its unit: {0}p for packets, as tc reads it, or {0}ms", value));
  }
  if (read && unit == "p")
    path.queue = QueueDepth{Depth::kPackets, amount};
  else if (read && unit == "ms")
    path.queue = QueueDepth{Depth::kMilliseconds, amount};
  else if (read && unit == "kb")
    path.queue = QueueDepth{Depth::kBytes, amount * 1000};
  else if (read && unit == "bdp")
    path.queue = QueueDepth{Depth::kBdp, amount};
  else
    return BadValue("queue", value, "a depth such as 100p, 50ms, 64kb or 0.5bdp");
  return absl::OkStatus();
}

absl::Status SetBurstLoss(std::string_view value, int /*mtu*/, PathSpec& path) {
  if (value == "none") {
    path.burst_loss.reset();
    return absl::OkStatus();
  }
  BurstLoss burst;
  std::string rest(value);
  for (double* field : {&burst.to_bad, &burst.to_good, &burst.loss_bad, &burst.loss_good}) {
    std::string after;
    const bool last = field == &burst.loss_good;
    bool read = TakeNumber(rest, *field, after);
    if (read && after.starts_with('%')) {
      *field /= 100;
      after.erase(0, 1);
    }
    read = read && (last ? after.empty() : after.starts_with(','));
    if (!read) {
      return BadValue("burst_loss", value,
                      "four probabilities such as 0.01,0.25,1,0 or 1%,25%,100%,0%, or none");
    }
    rest = last ? "" : after.substr(1);
  }
  path.burst_loss = burst;
  path.loss_prob = 0;
  return absl::OkStatus();
}

absl::Status SetRate(std::string_view value, int /*mtu*/, PathSpec& path) {
  path.rate_trace = nullptr;
  path.rate_before_trace.reset();
  if (value == "none") {
    path.rate.reset();
    return absl::OkStatus();
  }
  const auto rate = ReadRate("rate", value);
  if (rate.ok()) path.rate = *rate;
  return rate.status();
}

absl::Status SetLoss(std::string_view value, int /*mtu*/, PathSpec& path) {
  ASSIGN_OR_RETURN(const auto share, ReadShare("loss", value));
  path.loss_prob = share;
  path.burst_loss.reset();
  return absl::OkStatus();
}

// One of two words.
absl::Status Choose(std::string_view key, std::string_view value, std::string_view no,
                    std::string_view yes, bool& chosen) {
  if (value != no && value != yes) return BadValue(key, value, fmt::format("{} or {}", no, yes));
  chosen = value == yes;
  return absl::OkStatus();
}

absl::Status SetShape(std::string_view value, int /*mtu*/, PathSpec& path) {
  bool uniform = path.jitter_shape == JitterShape::kUniform;
  auto s = Choose("jitter_shape", value, "normal", "uniform", uniform);
  path.jitter_shape = uniform ? JitterShape::kUniform : JitterShape::kNormal;
  return s;
}

absl::Status SetTrace(std::string_view value, int mtu, PathSpec& path) {
  if (value == "none") {
    if (path.rate_trace != nullptr) SetRateTrace(path, nullptr, mtu);
    return absl::OkStatus();
  }
  if (value.empty()) return BadValue("rate_trace", value, "a file, or none");
  auto trace = ReadRateTrace(std::string(value));
  if (trace.ok()) SetRateTrace(path, *trace, mtu);
  return trace.status();
}

absl::Status SetManagement(std::string_view value, int /*mtu*/, PathSpec& path) {
  const auto kind = QueueManagementNamed(value);
  if (!kind) return BadValue("aqm", value, "droptail, codel or fq_codel");
  path.aqm.kind = *kind;
  if (*kind == QueueManagement::Kind::kDropTail) path.aqm.ecn = false;
  return absl::OkStatus();
}

absl::Status SetEcn(std::string_view value, int /*mtu*/, PathSpec& path) {
  bool off = !path.aqm.ecn;
  auto s = Choose("ecn", value, "on", "off", off);
  path.aqm.ecn = !off;
  return s;
}

absl::Status SetJitterOrder(std::string_view value, int /*mtu*/, PathSpec& path) {
  bool free = path.jitter_order == JitterOrder::kFree;
  auto s = Choose("jitter_order", value, "keep", "free", free);
  path.jitter_order = free ? JitterOrder::kFree : JitterOrder::kKeep;
  return s;
}

using Value = std::string_view;
absl::Status SetDelay(Value value, int, PathSpec& p) { return SetTime("delay", value, p.delay); }
absl::Status SetJitter(Value value, int, PathSpec& p) { return SetTime("jitter", value, p.jitter); }
absl::Status SetTarget(Value value, int, PathSpec& p) {
  return SetTime("aqm_target", value, p.aqm.target);
}
absl::Status SetInterval(Value value, int, PathSpec& p) {
  return SetTime("aqm_interval", value, p.aqm.interval);
}
absl::Status SetRtt(Value value, int, PathSpec& p) {
  auto s = SetTime("rtt", value, p.delay);
  if (s.ok()) p.delay /= 2;
  return s;
}

template <double RareEvents::*kField>
double& Rare(PathSpec& path) {
  return path.rare.*kField;
}
constexpr double& (*kNoShare)(PathSpec&) = nullptr;

}  // namespace

const std::vector<PathFigure>& PathFigureTable() {
  // clang-format off
  static const std::vector<PathFigure> table = {
      {"rate", "50mbit", {"rate_mbit"}, ": rate", SetRate, kNoShare,
       "Rate of every path, such as 50mbit; or none"},
      {"rate_trace", "FILE", {"rate_trace"}, ": rate", SetTrace, kNoShare, "",
       "the kernel's netem has no rate that follows a trace",
       [](const PathSpec& path) { return path.rate_trace != nullptr; }},
      {"delay", "20ms", {"delay_ms"}, ": delay", SetDelay, kNoShare, "One-way delay, such as 20ms"},
      {"rtt", "40ms", {"rtt_ms"}, ": delay", SetRtt, kNoShare, "Round trip time, such as 40ms"},
      {"jitter", "2ms", {"jitter_ms"}, ": jitter", SetJitter, kNoShare, "One-way jitter, such as 2ms"},
      {"jitter_shape", "normal|uniform", {"jitter_shape"}, ": jitter_shape", SetShape},
      {"jitter_order", "keep|free", {"jitter_order"}, ": jitter_order", SetJitterOrder},
      {"loss", "1%", {"loss"}, ": loss", SetLoss,
       [](PathSpec& path) -> double& { return path.loss_prob; }, "Share of packets that are lost, such as 1%"},
      {"burst_loss", "1%,25%,100%,0%", {"burst_loss"}, ": burst loss", SetBurstLoss},
      {"reorder", "1%", {"reorder"}, ": reorder", nullptr, Rare<&RareEvents::reorder_prob>, "", "",
       nullptr, "there is nothing to be early against"},
      // netem puts a copy into the root of its device, where other paths' frames are, and newer
      // kernels refuse it beside another netem.
      {"duplicate", "1%", {"duplicate"}, ": duplicate", nullptr, Rare<&RareEvents::duplicate_prob>,
       "", "the kernel's netem cannot do it on one path of many"},
      {"corrupt", "0.1%", {"corrupt"}, ": corrupt", nullptr, Rare<&RareEvents::corrupt_prob>},
      {"queue", "100p|50ms|64kb|0.5bdp", {"queue_packets", "queue_ms", "queue_bytes", "queue_bdp"},
       ": queue", SetQueue, kNoShare, "Depth of the queue, such as 100p, 50ms, 64kb or 0.5bdp"},
      {"aqm", "droptail|codel|fq_codel", {"aqm"}, ": aqm", SetManagement, kNoShare,
       "Management of the queue: droptail, codel or fq_codel",
       "netem must not stand above a managed queue; give the access line access_aqm",
       [](const PathSpec& path) { return path.aqm.kind != QueueManagement::Kind::kDropTail; }},
      {"ecn", "on|off", {"ecn"}, ": ecn", SetEcn, kNoShare,
       "With on: mark packets (CE) in place of drops by aqm"},
      {"aqm_target", "5ms", {"aqm_target_ms"}, ": aqm_target", SetTarget},
      {"aqm_interval", "100ms", {"aqm_interval_ms"}, ": aqm_interval", SetInterval}};
  // clang-format on
  return table;
}

const PathFigure* PathFigureOf(std::string_view word) {
  for (const PathFigure& figure : PathFigureTable()) {
    if (figure.word == word) return &figure;
  }
  return nullptr;
}

absl::Status SetFigure(const PathFigure& figure, std::string_view value, int mtu, PathSpec& path) {
  if (figure.set != nullptr) return figure.set(value, mtu, path);
  const auto share = ReadShare(figure.word, value);
  if (share.ok()) figure.share(path) = *share;
  return share.status();
}

}  // namespace longhaul
