#include "experiments/spec/spec_changes.h"

#include <algorithm>

#include <fmt/format.h>

namespace longhaul {
namespace {

const SpecLine* LineOf(const SpecLines& lines, const std::string& path) {
  const auto found = std::find_if(lines.begin(), lines.end(),
                                  [&](const SpecLine& line) { return line.path() == path; });
  return found == lines.end() ? nullptr : &*found;
}

// Of one direction. No name of a codec has a comma, a semicolon or a space.
int64_t CrossingsOf(int64_t stages, std::string_view codecs) {
  if (codecs == "none") return 0;
  if (codecs.find(kAtBoundaries) == std::string_view::npos) return stages - 1;
  return 1 +
         std::count_if(codecs.begin(), codecs.end(), [](char c) { return c == ',' || c == ';'; });
}

}  // namespace

std::vector<SpecChange> SpecChanges(const RunSpec& from, const RunSpec& to) {
  const SpecLines before = LinesOf(from), after = LinesOf(to);
  std::vector<SpecChange> changes;
  for (const SpecLine& line : before) {
    const SpecLine* now = LineOf(after, line.path());
    if (now != nullptr && now->value == line.value) continue;
    changes.push_back({line.path(), line.value, now == nullptr ? "-" : now->value});
  }
  for (const SpecLine& line : after) {
    if (LineOf(before, line.path()) == nullptr) changes.push_back({line.path(), "-", line.value});
  }
  std::erase_if(changes,
                [](const SpecChange& change) { return MeaningOf(change) == Change::kPaired; });
  return changes;
}

std::vector<SpecChange> ChangesBesideCodecs(const RunSpec& from, const RunSpec& to) {
  std::vector<SpecChange> changes = SpecChanges(from, to);
  std::erase_if(changes,
                [](const SpecChange& change) { return MeaningOf(change) == Change::kBooked; });
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

Change MeaningOf(const SpecChange& change) {
  for (const std::string_view table : {"boundary.cuts.", "boundary.policy."}) {
    if (change.key.starts_with(table)) return Change::kBooked;
  }
  for (const SpecKey& key : SpecKeys()) {
    if (key.path() == change.key) return key.change;
  }
  return Change::kOther;
}

}  // namespace longhaul
