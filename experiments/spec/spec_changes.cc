#include "experiments/spec/spec_changes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace longhaul {
namespace {

constexpr std::string_view kBooked[] = {"schedule.stages", "schedule.cuts", "boundary.forward",
                                        "boundary.backward", "boundary.mask_gradients"};
constexpr std::string_view kBookedTable = "boundary.cuts.", kBookedPolicy = "boundary.policy.";
constexpr std::string_view kWarmUp = "boundary.warmup_steps";

bool Booked(const SpecChange& change) {
  return change.key.starts_with(kBookedTable) || change.key.starts_with(kBookedPolicy) ||
         change.key == kWarmUp ||
         std::find(std::begin(kBooked), std::end(kBooked), change.key) != std::end(kBooked);
}

struct Key {
  std::string path, value;
};

// The program's own TOML has one "[table]", "[[table]]" or "key = value" a line. The tables of an
// array are told apart by their place in it: "fault[0].what".
std::vector<Key> Keys(std::string_view toml) {
  std::vector<Key> keys;
  std::string table;
  std::map<std::string, int> met;
  for (size_t at = 0; at < toml.size();) {
    const size_t end = std::min(toml.find('\n', at), toml.size());
    const std::string_view line = toml.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("[[")) {
      const std::string array(line.substr(2, line.find(']') - 2));
      table = fmt::format("{}[{}].", array, met[array]++);
    } else if (line.starts_with('[')) {
      table = std::string(line.substr(1, line.find(']') - 1)) + ".";
    } else if (const size_t equals = line.find(" = "); equals != std::string_view::npos) {
      keys.push_back(
          {table + std::string(line.substr(0, equals)), std::string(line.substr(equals + 3))});
    }
  }
  return keys;
}

std::optional<std::string> ValueOf(const std::vector<Key>& keys, const std::string& path) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.path == path; });
  if (found == keys.end()) return std::nullopt;
  return found->value;
}

// Of one direction. No name of a codec has a comma, a semicolon or a space.
int64_t CrossingsOf(int64_t stages, std::string_view codecs) {
  if (codecs == "none") return 0;
  if (codecs.find(kAtBoundaries) == std::string_view::npos) return stages - 1;
  return 1 +
         std::count_if(codecs.begin(), codecs.end(), [](char c) { return c == ',' || c == ';'; });
}

}  // namespace

std::vector<SpecChange> SpecChanges(std::string_view from, std::string_view to) {
  const std::vector<Key> before = Keys(from), after = Keys(to);
  std::vector<SpecChange> changes;
  for (const auto& [path, value] : before) {
    const std::string now = ValueOf(after, path).value_or("-");
    if (path != "seed" && now != value) changes.push_back({path, value, now});
  }
  for (const auto& [path, value] : after) {
    if (path != "seed" && !ValueOf(before, path)) changes.push_back({path, "-", value});
  }
  return changes;
}

std::vector<SpecChange> ChangesBesideCodecs(std::string_view from, std::string_view to) {
  std::vector<SpecChange> changes = SpecChanges(from, to);
  std::erase_if(changes, Booked);
  return changes;
}

std::string ToString(const std::vector<SpecChange>& changes) {
  std::string text;
  for (const SpecChange& change : changes) {
    text +=
        fmt::format("{}{} {} > {}", text.empty() ? "" : ", ", change.key, change.from, change.to);
  }
  return text;
}

int64_t CompressedCrossings(int64_t stages, std::string_view forward, std::string_view backward) {
  return CrossingsOf(stages, forward) + CrossingsOf(stages, backward);
}

bool IsOuterCellKey(std::string_view key) {
  constexpr std::string_view kKeys[] = {
      "outer.groups",       "outer.algorithm",   "outer.inner_steps",      "outer.lr",
      "outer.momentum",     "outer.codec",       "outer.fragments",        "outer.overlap_steps",
      "outer.mix",          "outer.mean",        "outer.cluster_groups",   "outer.global_every",
      "outer.warmup_steps", "outer.lr_schedule", "outer.lr_warmup_rounds", "outer.global_codec",
      "train.optimizer",    "train.batch_rows",  "train.microbatches"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

}  // namespace longhaul
