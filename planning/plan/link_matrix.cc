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

std::string Text(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? found->get<std::string>() : "";
}

bool IsFalse(const json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_boolean() && !found->get<bool>();
}

// What a file has where a figure is wanted: "is null".
std::string ShownFigure(const json& from, const char* table, const char* key) {
  const auto found = from.find(table);
  if (found == from.end()) return "is missing";
  if (!found->is_object() || !found->contains(key)) return "has no figure";
  return "is " + Shown((*found)[key].dump());
}

// What `path` is in a probe, behind "path a > b": why it is none, and what there is to say of it.
struct ReadPathResult {
  std::string why_none, note;
};
ReadPathResult ReadPath(const json& from, PathSpec& path) {
  const std::string why = Text(from, "why");
  if (Text(from, "carrier") == "down") {
    return {
        "was down when it was probed; bring it up (longhaul net set .. carrier=up), probe again",
        ""};
  }
  const std::optional<double> rtt = Number(from, "rtt", "median_ms"),
                              received = Number(from, "rtt", "received");
  if (received && *received == 0) return {"answered no echo: it loses everything", ""};
  if (!rtt || !(*rtt > 0)) {
    return {fmt::format("has no round trip: rtt.median_ms {}; {}",
                        ShownFigure(from, "rtt", "median_ms"),
                        why.empty() ? "probe it again" : "the probe says: " + why),
            ""};
  }
  path.delay = absl::Milliseconds(*rtt / 2);
  const std::optional<double> lost = Number(from, "datagrams", "loss");
  path.loss_prob = lost ? *lost : Number(from, "loss").value_or(0);
  if (!(path.loss_prob >= 0 && path.loss_prob < 1)) {
    return {"loses everything: no message arrives", ""};
  }
  const std::optional<double> goodput = Number(from, "goodput", "mbit"),
                              nominal = Number(from, "rate_mbit");
  if (from.contains("goodput") && !goodput) {
    return {
        fmt::format("was given no rate: goodput.mbit {}; probe it again, or leave goodput out for "
                    "rate_mbit",
                    ShownFigure(from, "goodput", "mbit")),
        ""};
  }
  if (!goodput && !from.contains("rate_mbit")) {
    return {"has neither goodput.mbit nor rate_mbit; a link without a limit has rate_mbit null",
            ""};
  }
  ReadPathResult result;
  if (IsFalse(from, "in_bounds")) {
    result.note = "was out of bounds when it was probed" + (why.empty() ? "" : ": " + why);
  } else if (!goodput) {
    result.note =
        nominal ? fmt::format("has no measured rate: its nominal {:g} Mbit/s is taken", *nominal)
                : "has no rate, measured or nominal: it counts as without a limit";
  }
  const std::optional<double> mbit = goodput ? std::optional(*goodput * kWireFactor) : nominal;
  if (!mbit) return result;
  if (!(*mbit > 0) || *mbit > 1e6) return {fmt::format("has {:g} Mbit/s", *mbit), ""};
  path.rate = Mbit(*mbit);
  if (const std::optional<double> queue = Number(from, "queue_packets"); queue && *queue >= 1) {
    path.queue = QueueDepth{QueueDepth::Unit::kPackets, *queue};
  }
  return result;
}

}  // namespace

absl::StatusOr<Topology> ParseProbe(std::string_view text, const std::string& where, int nodes,
                                    std::vector<std::string>* notes) {
  const auto refuse = [&where](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", where, why));
  };
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return refuse("no JSON, or a number too large for it");
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
    const ReadPathResult read = ReadPath(from, path);
    if (!read.why_none.empty()) {
      return refuse(fmt::format("path {} > {} {}", a, b, read.why_none));
    }
    if (!read.note.empty()) notes->push_back(fmt::format("path {} > {} {}", a, b, read.note));
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
  // Not Validate: nobody looks these names up, so that a node may be "10.1.2.3".
  for (const PathSpec& path : out.paths) {
    if (absl::Status s = ValidatePath(out, path); !s.ok()) return refuse(std::string(s.message()));
  }
  return out;
}

absl::StatusOr<Topology> ReadLinkMatrix(const std::string& links, int nodes,
                                        std::vector<std::string>* notes) {
  if (!links.ends_with(".json")) return MeshNamed(links, nodes);
  const absl::StatusOr<std::string> text = ReadTextFile(links);
  if (!text.ok()) return text.status();
  return ParseProbe(*text, links, nodes, notes);
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
