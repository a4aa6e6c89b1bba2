#include "netem/lab_control/path_change.h"

#include <fmt/format.h>

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

absl::Status SetQueue(std::string_view value, PathSpec& path) {
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

absl::Status SetBurstLoss(std::string_view value, PathSpec& path) {
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

absl::Status SetRate(std::string_view value, PathSpec& path) {
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

absl::Status SetShare(std::string_view key, std::string_view value, double& share) {
  const auto read = ReadShare(key, value);
  if (read.ok()) share = *read;
  return read.status();
}

absl::Status SetLoss(std::string_view value, PathSpec& path) {
  if (auto s = SetShare("loss", value, path.loss_prob); !s.ok()) return s;
  path.burst_loss.reset();
  return absl::OkStatus();
}

absl::Status SetShape(std::string_view value, PathSpec& path) {
  if (value != "normal" && value != "uniform") {
    return BadValue("jitter_shape", value, "normal or uniform");
  }
  path.jitter_shape = value == "normal" ? JitterShape::kNormal : JitterShape::kUniform;
  return absl::OkStatus();
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

absl::Status SetManagement(std::string_view value, PathSpec& path) {
  const auto kind = QueueManagementNamed(value);
  if (!kind) return BadValue("aqm", value, "droptail, codel or fq_codel");
  path.aqm.kind = *kind;
  if (*kind == QueueManagement::Kind::kDropTail) path.aqm.ecn = false;
  return absl::OkStatus();
}

absl::Status SetEcn(std::string_view value, PathSpec& path) {
  if (value != "on" && value != "off") return BadValue("ecn", value, "on or off");
  path.aqm.ecn = value == "on";
  return absl::OkStatus();
}

absl::Status SetJitterOrder(std::string_view value, PathSpec& path) {
  if (value != "keep" && value != "free") return BadValue("jitter_order", value, "keep or free");
  path.jitter_order = value == "free" ? JitterOrder::kFree : JitterOrder::kKeep;
  return absl::OkStatus();
}

absl::Status SetCarrier(std::string_view value, PathChange& change) {
  if (value != "up" && value != "down") return BadValue("carrier", value, "up or down");
  change.carrier = value == "up" ? Carrier::kUp : Carrier::kDown;
  return absl::OkStatus();
}

absl::Status Assign(std::string_view key, std::string_view value, int mtu, PathChange& change) {
  PathSpec& path = change.path;
  if (key == "rate") return SetRate(value, path);
  if (key == "delay") return SetTime(key, value, path.delay);
  if (key == "rtt") {
    auto s = SetTime(key, value, path.delay);
    path.delay /= 2;
    return s;
  }
  if (key == "jitter") return SetTime(key, value, path.jitter);
  if (key == "jitter_shape") return SetShape(value, path);
  if (key == "rate_trace") return SetTrace(value, mtu, path);
  if (key == "aqm") return SetManagement(value, path);
  if (key == "ecn") return SetEcn(value, path);
  if (key == "aqm_target") return SetTime(key, value, path.aqm.target);
  if (key == "aqm_interval") return SetTime(key, value, path.aqm.interval);
  if (key == "jitter_order") return SetJitterOrder(value, path);
  if (key == "loss") return SetLoss(value, path);
  if (key == "reorder") return SetShare(key, value, path.reorder_prob);
  if (key == "duplicate") return SetShare(key, value, path.duplicate_prob);
  if (key == "corrupt") return SetShare(key, value, path.corrupt_prob);
  if (key == "burst_loss") return SetBurstLoss(value, path);
  if (key == "queue") return SetQueue(value, path);
  if (key == "carrier") return SetCarrier(value, change);
  if (key == "outage") {
    absl::Duration time;
    if (auto s = SetTime(key, value, time); !s.ok()) return s;
    if (time <= absl::ZeroDuration()) return BadValue(key, value, "more than 0");
    change.outage = time;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("unknown key '{}'; known: rate rate_trace delay rtt jitter jitter_shape "
                  "jitter_order loss burst_loss reorder duplicate corrupt queue aqm ecn aqm_target "
                  "aqm_interval carrier outage",
                  key));
}

}  // namespace

absl::StatusOr<std::vector<std::pair<int, int>>> SelectPaths(const Topology& topology,
                                                             std::string_view selector) {
  const size_t arrow = selector.find('>');
  if (arrow == std::string_view::npos) {
    return absl::InvalidArgumentError(
        fmt::format("path '{}': want 'a>b', or 'a<>b' for both directions", selector));
  }
  const bool both = arrow > 0 && selector[arrow - 1] == '<';
  const std::string_view from = selector.substr(0, both ? arrow - 1 : arrow);
  const std::string_view to = selector.substr(arrow + 1);
  for (std::string_view end : {from, to}) {
    bool known = end == "*";
    for (const NodeSpec& node : topology.nodes) known = known || node.name == end;
    if (!known) return absl::NotFoundError(fmt::format("no node '{}' in this lab", end));
  }
  const auto is = [&](int node, std::string_view name) {
    return name == "*" || topology.nodes[node].name == name;
  };
  std::vector<std::pair<int, int>> pairs;
  for (const PathSpec& path : topology.paths) {
    if ((is(path.from, from) && is(path.to, to)) ||
        (both && is(path.from, to) && is(path.to, from))) {
      pairs.emplace_back(path.from, path.to);
    }
  }
  if (pairs.empty()) {
    return absl::NotFoundError(fmt::format("no path '{}' in this lab", selector));
  }
  return pairs;
}

absl::StatusOr<PathChange> ApplyAssignments(const PathSpec& path,
                                            const std::vector<std::string>& assignments, int mtu) {
  PathChange change{.path = path};
  for (const std::string& word : assignments) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(fmt::format("'{}': want KEY=VALUE", word));
    }
    const std::string_view text = word;
    if (auto s = Assign(text.substr(0, equals), text.substr(equals + 1), mtu, change); !s.ok())
      return s;
  }
  return change;
}

absl::Status CheckSchedule(const Topology& topology) {
  Topology now = topology;
  for (const ScheduledChange& change : topology.changes) {
    const auto wrong = [&](const absl::Status& why) {
      return absl::Status(why.code(), fmt::format("{}:{}: {}", topology.profile, change.line,
                                                  std::string(why.message())));
    };
    if (change.figures.empty()) {
      return wrong(absl::InvalidArgumentError("'set': want KEY=VALUE words, as `net set` takes"));
    }
    const auto pairs = SelectPaths(now, change.path);
    if (!pairs.ok()) return wrong(pairs.status());
    for (const auto& [from, to] : *pairs) {
      const auto changed = ApplyAssignments(*FindPath(now, from, to), change.figures, now.mtu);
      if (!changed.ok()) return wrong(changed.status());
      auto next = WithPath(now, changed->path);
      if (!next.ok()) return wrong(next.status());
      now = *std::move(next);
    }
  }
  return absl::OkStatus();
}

}  // namespace longhaul
