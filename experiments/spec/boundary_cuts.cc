#include "experiments/spec/boundary_cuts.h"

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "experiments/spec/spec_changes.h"
#include "netem/topology/table_reader.h"

namespace longhaul {
namespace {

using Cut = RunSpec::Boundary::Cut;

constexpr char kTable[] = "boundary.cuts";
constexpr std::string_view kNone = "none";

// The boundary that a key names, written as TOML writes a number.
std::optional<int64_t> BoundaryOf(const std::string& key) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), value);
  if (error != std::errc() || fmt::format("{}", value) != key) return std::nullopt;
  return value;
}

// "int8-b64 at 0, 2; bf16 at 1" of one direction.
std::string TextOf(const std::map<int64_t, Cut>& cuts, std::string Cut::*direction) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> by_codec;
  for (const auto& [boundary, codecs] : cuts) {
    const std::string& codec = codecs.*direction;
    if (codec == kNone) continue;
    auto found = by_codec.begin();
    while (found != by_codec.end() && found->first != codec) ++found;
    if (found == by_codec.end()) found = by_codec.insert(found, {codec, {}});
    found->second.push_back(boundary);
  }
  std::string text;
  for (const auto& [codec, boundaries] : by_codec) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : "; ", codec, kAtBoundaries,
                        fmt::join(boundaries, ", "));
  }
  return text.empty() ? std::string(kNone) : text;
}

}  // namespace

absl::Status CheckSubspace(const TomlValue& root, const RunSpec& spec) {
  TableReader r(root, "boundary");
  const std::optional<int64_t>& rank = spec.boundary.subspace;
  if (!rank) return r.status();
  const auto check = [&](bool holds, const std::string& want) {
    r.Check(holds, "subspace", fmt::format("= {} {}", *rank, want));
  };
  const RunSpec::Model& model = spec.model;
  check(*rank <= model.width,
        fmt::format("has more dimensions than model.width = {}", model.width));
  check(model.kind != "moe", "is made for model.kind = gpt and llama, not for moe");
  check(
      !model.tied_head,
      "with model.tied_head = true would hold the head in the subspace, too; want a head of its own");
  check(model.init.empty(), "with model.init: weights that exist do not lie in a subspace");
  check(!spec.injected(), "with measured seconds in [compute]: nothing is trained in a subspace");
  check(spec.train.device == "cpu" && spec.train.dtype == "float32",
        fmt::format("wants train.device = \"cpu\" and float32, not \"{}\" and {}",
                    spec.train.device, spec.train.dtype));
  return r.status();
}

absl::Status ReadBoundaryCuts(const TomlValue& root, const SpecNames& names, RunSpec& spec) {
  const TomlValue* found = Find(root, kTable);
  if (found == nullptr) return absl::OkStatus();
  TableReader all(root, kTable);
  if (!all.status().ok()) return all.status();
  const auto refuse = [&](const std::string& where, const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("{}: '{}' {}", where, kTable, why));
  };
  const auto& table = std::get<TomlValue::Table>(found->value);
  if (table.empty()) return refuse(found->where, "names no boundary");
  if (spec.boundary.forward != kNone || spec.boundary.backward != kNone) {
    return refuse(found->where,
                  fmt::format("stands beside boundary.forward = '{}' and boundary.backward = '{}'; "
                              "want 'none' for both: boundaries that it does not name send 'none'",
                              spec.boundary.forward, spec.boundary.backward));
  }
  for (const auto& [key, value] : table) {
    const std::optional<int64_t> boundary = BoundaryOf(key);
    if (!boundary || *boundary < 0 || *boundary > spec.schedule.stages - 2) {
      return refuse(value.where,
                    fmt::format("has '{}'; schedule.stages = {} has the boundaries 0 to {}",
                                Shown(key), spec.schedule.stages, spec.schedule.stages - 2));
    }
    TableReader r = TableReader::Of(value, fmt::format("{}.{}", kTable, key));
    Cut cut;
    r.Allow("forward", &cut.forward);
    r.Allow("backward", &cut.backward);
    if (r.status().ok()) r.Known("forward", cut.forward, names.codec);
    if (r.status().ok()) r.Known("backward", cut.backward, names.codec);
    RETURN_IF_ERROR(r.Finish());
    spec.boundary.cuts[*boundary] = cut;
  }
  return absl::OkStatus();
}

SpecLines BoundaryCutsLines(const RunSpec& spec) {
  SpecLines lines;
  for (const auto& [boundary, codecs] : spec.boundary.cuts) {
    const std::string table = fmt::format("{}.{}", kTable, boundary);
    lines.push_back({table, "forward", TomlQuote(codecs.forward)});
    lines.push_back({table, "backward", TomlQuote(codecs.backward)});
  }
  return lines;
}

Cut CodecsOf(const RunSpec& spec, int64_t boundary) {
  const auto found = spec.boundary.cuts.find(boundary);
  if (found != spec.boundary.cuts.end()) return found->second;
  Cut codecs{spec.boundary.forward, spec.boundary.backward};
  if (const auto& policy = spec.boundary.policy) {
    if (!policy->forward.empty()) codecs.forward = policy->forward.back();
    if (!policy->backward.empty()) codecs.backward = policy->backward.back();
  }
  return codecs;
}

Cut CodecText(const RunSpec& spec) {
  if (spec.boundary.cuts.empty()) {
    const auto text = [&](const std::string& fixed, const auto& choices) {
      if (!spec.boundary.policy || (*spec.boundary.policy.*choices).empty()) return fixed;
      return fmt::format("by {}: {}", spec.boundary.policy->by,
                         fmt::join(*spec.boundary.policy.*choices, ", "));
    };
    using Policy = RunSpec::Boundary::Policy;
    return {text(spec.boundary.forward, &Policy::forward),
            text(spec.boundary.backward, &Policy::backward)};
  }
  return {TextOf(spec.boundary.cuts, &Cut::forward), TextOf(spec.boundary.cuts, &Cut::backward)};
}

int64_t CompressedCrossings(const RunSpec& spec) {
  const Cut codecs = CodecText(spec);
  return CompressedCrossings(spec.schedule.stages, codecs.forward, codecs.backward);
}

}  // namespace longhaul
