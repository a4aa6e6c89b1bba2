#include "planning/plan/link_matrix.h"

#include <cmath>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/spec/link_time.h"
#include "netem/topology/text_file.h"
#include "netem/topology/toml_tree.h"
#include "netem/topology/topology_file.h"

namespace longhaul::plan {
namespace {

using nlohmann::json;

std::optional<double> Number(const json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> Number(const json& from, const char* table, const char* key) {
  const auto found = from.find(table);
  return found == from.end() || !found->is_object() ? std::nullopt : Number(*found, key);
}

// One path of a probe; why it is none.
std::string ReadPath(const json& from, PathSpec& path) {
  const std::optional<double> rtt = Number(from, "rtt", "median_ms"),
                              received = Number(from, "rtt", "received");
  if (!rtt || *rtt < 0) return "has no rtt.median_ms";
  if (received && *received == 0) return "answered no echo: it loses everything";
  path.delay = absl::Milliseconds(*rtt / 2);
  const std::optional<double> lost = Number(from, "datagrams", "loss");
  path.loss_prob = lost ? *lost : Number(from, "loss").value_or(0);
  if (!(path.loss_prob >= 0 && path.loss_prob < 1)) return "loses everything: no message arrives";
  const std::optional<double> goodput = Number(from, "goodput", "mbit");
  const std::optional<double> mbit =
      goodput ? std::optional(*goodput * kWireFactor) : Number(from, "rate_mbit");
  if (!mbit) return "";  // no rate: it has no limit
  if (!(*mbit > 0) || *mbit > 1e6) return fmt::format("has {:g} Mbit/s", *mbit);
  path.rate = Mbit(*mbit);
  if (const std::optional<double> queue = Number(from, "queue_packets"); queue && *queue >= 1) {
    path.queue = QueueDepth{QueueDepth::Unit::kPackets, *queue};
  }
  return "";
}

}  // namespace

absl::StatusOr<Topology> ParseProbe(std::string_view text, const std::string& where, int nodes) {
  const auto refuse = [&where](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", where, why));
  };
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool probed = document.is_object() && document.contains("paths") &&
                      document["paths"].is_array() && !document["paths"].empty();
  if (!probed) return refuse("not what 'longhaul net probe LAB --json' writes: no 'paths'");
  Topology out{.profile = where, .nodes = {}, .paths = {}};
  std::map<std::string, int> numbers;
  std::map<std::pair<int, int>, PathSpec> paths;
  const auto number_of = [&](const std::string& name) {
    const auto [at, fresh] = numbers.try_emplace(name, static_cast<int>(numbers.size()));
    if (fresh) out.nodes.push_back({.name = name, .access = std::nullopt});
    return at->second;
  };
  for (const json& from : document["paths"]) {
    if (!from.is_object() || !from.contains("from") || !from["from"].is_string() ||
        !from.contains("to") || !from["to"].is_string()) {
      return refuse("a path without 'from' and 'to'");
    }
    const std::string a = from["from"], b = from["to"];
    if (a == b) return refuse(fmt::format("path {} > {} leads to itself", a, b));
    const int first = number_of(a), second = number_of(b);
    PathSpec path{.from = first,
                  .to = second,
                  .rate = std::nullopt,
                  .delay = absl::ZeroDuration(),
                  .jitter = absl::ZeroDuration()};
    if (const std::string why = ReadPath(from, path); !why.empty()) {
      return refuse(fmt::format("path {} > {} {}", a, b, why));
    }
    if (!paths.emplace(std::pair(path.from, path.to), path).second) {
      return refuse(fmt::format("path {} > {} stands there twice", a, b));
    }
  }
  if (static_cast<int>(out.nodes.size()) != nodes) {
    return refuse(
        fmt::format("has {} nodes; the run has {} workers (ranks of a group times groups)",
                    out.nodes.size(), nodes));
  }
  for (int a = 0; a < nodes; ++a) {
    for (int b = 0; b < nodes; ++b) {
      if (a == b) continue;
      const auto found = paths.find({a, b});
      if (found == paths.end()) {
        return refuse(
            fmt::format("no path {} > {}; probe them all", out.nodes[a].name, out.nodes[b].name));
      }
      out.paths.push_back(found->second);
    }
  }
  if (absl::Status s = Validate(out); !s.ok()) return refuse(std::string(s.message()));
  return out;
}

absl::StatusOr<Topology> ReadLinkMatrix(const std::string& links, int nodes) {
  if (!links.ends_with(".json")) return MeshNamed(links, nodes);
  const absl::StatusOr<std::string> text = ReadTextFile(links);
  if (!text.ok()) return text.status();
  return ParseProbe(*text, links, nodes);
}

std::string TopologyToml(const Topology& links) {
  std::string text;
  for (const NodeSpec& node : links.nodes) {
    text += fmt::format("[[node]]\nname = {}\n", TomlQuote(node.name));
  }
  for (const PathSpec& path : links.paths) {
    text += fmt::format("[[path]]\nfrom = {}\nto = {}\ndelay_ms = {}\n",
                        TomlQuote(links.nodes[static_cast<size_t>(path.from)].name),
                        TomlQuote(links.nodes[static_cast<size_t>(path.to)].name),
                        TomlNumber(absl::ToDoubleMilliseconds(path.delay)));
    if (path.rate) {
      text += fmt::format("rate_mbit = {}\n", TomlNumber(InMbit(*path.rate)));
      if (path.queue && path.queue->unit == QueueDepth::Unit::kPackets) {
        text += fmt::format("queue_packets = {:.0f}\n", path.queue->amount);
      }
    }
  }
  return text;
}

}  // namespace longhaul::plan
