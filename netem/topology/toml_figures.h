#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "netem/topology/figure_text.h"
#include "netem/topology/path_figure_table.h"
#include "netem/topology/toml_fields.h"
#include "netem/topology/topology.h"

namespace longhaul {

// Reads the figures of paths and access lines; as TomlFields, for .cc files of readers only.
class TomlFigures : protected TomlFields {
 protected:
  using TomlFields::TomlFields;

  inline static const std::set<std::string_view> kFigureKeys = [] {
    std::set<std::string_view> keys = {"profile"};
    for (const PathFigure& figure : PathFigureTable()) {
      keys.insert(figure.keys.begin(), figure.keys.end());
    }
    return keys;
  }();

  inline static const std::set<std::string_view> kAccessKeys = {"name",
                                                                "up_mbit",
                                                                "down_mbit",
                                                                "access_queue_packets",
                                                                "access_queue_ms",
                                                                "access_queue_bytes",
                                                                "access_queue_bdp",
                                                                "access_aqm",
                                                                "access_ecn",
                                                                "access_aqm_target_ms",
                                                                "access_aqm_interval_ms"};

  // up_mbit and down_mbit, and how deep their queues are.
  std::optional<AccessSpec> Access(const toml::table& t) {
    const auto up = Number(t, "up_mbit"), down = Number(t, "down_mbit");
    if (up.has_value() != down.has_value()) {
      Fail(t, "an access line needs both up_mbit and down_mbit");
    }
    const auto queue = Queue(t, "access_queue");
    if (queue && !up) Fail(t, "an access queue needs up_mbit and down_mbit");
    const QueueManagement aqm = Management(t, "access_");
    if (t.contains("access_aqm") && !up) Fail(t, "access_aqm needs up_mbit and down_mbit");
    if (!up || !down) return std::nullopt;
    return AccessSpec{Mbit(*up), Mbit(*down), queue, aqm};
  }

  // Of the queue before a rate; `prefix` is "" or "access_".
  QueueManagement Management(const toml::table& t, const std::string& prefix) {
    QueueManagement aqm;
    if (const auto name = Text(t, prefix + "aqm")) {
      const auto kind = QueueManagementNamed(*name);
      if (!kind) {
        Fail(*t.get(prefix + "aqm"),
             fmt::format("'{}aqm' is \"droptail\", \"codel\" or \"fq_codel\"", prefix));
      }
      aqm.kind = kind.value_or(aqm.kind);
    }
    aqm.ecn = Flag(t, prefix + "ecn");
    if (const auto ms = Number(t, prefix + "aqm_target_ms")) aqm.target = absl::Milliseconds(*ms);
    if (const auto ms = Number(t, prefix + "aqm_interval_ms")) {
      aqm.interval = absl::Milliseconds(*ms);
    }
    if (aqm.kind == QueueManagement::Kind::kDropTail) {
      for (const char* key : {"aqm_target_ms", "aqm_interval_ms"}) {
        const toml::node* node = t.get(prefix + key);
        if (node != nullptr) Fail(*node, fmt::format("'{}{}' without {}aqm", prefix, key, prefix));
      }
    }
    return aqm;
  }

  std::optional<QueueDepth> Queue(const toml::table& t, const std::string& prefix) {
    using Unit = QueueDepth::Unit;
    std::optional<QueueDepth> queue;
    for (const auto& [unit, suffix] : {std::pair{Unit::kPackets, "_packets"},
                                       {Unit::kMilliseconds, "_ms"},
                                       {Unit::kBytes, "_bytes"},
                                       {Unit::kBdp, "_bdp"}}) {
      const auto amount = Number(t, prefix + suffix);
      if (!amount) continue;
      if (queue) Fail(t, fmt::format("{} is given in two units", prefix));
      queue = QueueDepth{unit, *amount};
    }
    return queue;
  }

  enum class DelayFrom { kTable, kMatrix };  // of a table without a profile

  // A path with a profile's figures and what the table says instead.
  PathSpec Figures(const toml::table& t, std::string_view profile_key,
                   DelayFrom delay_from = DelayFrom::kTable) {
    PathSpec path{.from = 0,
                  .to = 0,
                  .rate = std::nullopt,
                  .delay = absl::ZeroDuration(),
                  .jitter = absl::ZeroDuration()};
    const auto profile = Text(t, profile_key);
    if (profile) {
      auto known = UniformTopology(*profile, 2);
      if (!known.ok()) {
        Fail(*t.get(profile_key), std::string(known.status().message()));
        return path;
      }
      path = known->paths[0];
    }
    ReadRate(t, path);
    const auto rtt = Number(t, "rtt_ms"), delay = Number(t, "delay_ms");
    if (rtt && delay) Fail(t, "rtt_ms and delay_ms are both given; a delay is half an RTT");
    if (rtt) path.delay = absl::Milliseconds(*rtt) / 2;
    if (delay) path.delay = absl::Milliseconds(*delay);
    if (!profile && !rtt && !delay && profile_key == "profile" && delay_from == DelayFrom::kTable) {
      Fail(t, "a path needs a profile, rtt_ms or delay_ms");
    }
    ReadImpairment(t, path);
    path.queue = Queue(t, "queue");
    path.aqm = Management(t, "");
    return path;
  }

  // A number, or "none".
  void ReadRate(const toml::table& t, PathSpec& path) {
    const toml::node* node = t.get("rate_mbit");
    if (node == nullptr || in_matrices_.contains("rate_mbit")) return;
    if (node->value<std::string>() == "none") {
      path.rate = std::nullopt;
    } else if (const auto rate = Number(t, "rate_mbit")) {
      path.rate = Mbit(*rate);
      if (*rate == 0)
        Fail(*node, "'rate_mbit' is 0: want more, or \"none\" for no rate of its own");
    }
  }

  // A probability below 1, or text such as "1%". What is 1 or more may be meant in percent.
  std::optional<double> Share(const toml::table& t, std::string_view key) {
    const toml::node* node = t.get(key);
    if (in_matrices_.contains(key)) return std::nullopt;
    if (node != nullptr && node->is_string()) {
      const auto share = ReadShare(key, node->value<std::string>().value_or(""));
      if (share.ok()) return *share;
      Fail(*node, std::string(share.status().message()));
      return std::nullopt;
    }
    const auto number = Number(t, key);
    if (!number || *number < 1 || std::isnan(*number)) return number;
    Fail(*node, fmt::format("'{0}' is {1:g}: write \"{1:g}%\"{2}", key, *number,
                            *number == 1 ? ", or \"100%\" for all of them" : ""));
    return std::nullopt;
  }

  void ReadImpairment(const toml::table& t, PathSpec& path) {
    if (const auto jitter = Number(t, "jitter_ms")) path.jitter = absl::Milliseconds(*jitter);
    if (const auto shape = Text(t, "jitter_shape")) {
      if (*shape != "normal" && *shape != "uniform") {
        Fail(*t.get("jitter_shape"), "jitter_shape is \"normal\" or \"uniform\"");
      }
      path.jitter_shape = *shape == "uniform" ? JitterShape::kUniform : JitterShape::kNormal;
    }
    if (const auto order = Text(t, "jitter_order")) {
      if (*order != "keep" && *order != "free") {
        Fail(*t.get("jitter_order"), "jitter_order is \"keep\" or \"free\"");
      }
      path.jitter_order = *order == "free" ? JitterOrder::kFree : JitterOrder::kKeep;
    }
    for (const PathFigure& figure : PathFigureTable()) {
      if (figure.share == nullptr) continue;
      if (const auto share = Share(t, figure.keys[0])) figure.share(path) = *share;
    }
    const toml::node* burst = t.get("burst_loss");
    if (burst == nullptr) return;
    const toml::array* values = burst->as_array();
    if (values == nullptr || values->size() != 4 || !values->is_homogeneous<double>()) {
      Fail(*burst, "burst_loss wants four numbers with a point: [0.01, 0.3, 1.0, 0.0]");
      return;
    }
    const auto at = [&](size_t i) { return values->get(i)->value<double>().value_or(0); };
    path.burst_loss = BurstLoss{at(0), at(1), at(2), at(3)};
  }
};

}  // namespace longhaul
