#include "netem/lab_control/lab_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/status_macros.h"

namespace longhaul {
namespace {

constexpr size_t kMostLateTold = 100;

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

std::optional<absl::Time> Outages::next_end() const {
  std::optional<absl::Time> next;
  for (const auto& [path, keepers] : paths_) {
    for (absl::Time end : keepers.ends) next = std::min(next.value_or(end), end);
  }
  return next;
}

std::vector<Outages::Pair> Outages::EndBy(absl::Time now) {
  std::vector<Pair> ended;
  for (auto it = paths_.begin(); it != paths_.end();) {
    Keepers& keepers = it->second;
    if (std::erase_if(keepers.ends, [&](absl::Time end) { return end <= now; }) > 0) {
      ended.push_back(it->first);
    }
    it = keepers.ends.empty() && !keepers.taken_down ? paths_.erase(it) : std::next(it);
  }
  return ended;
}

std::string LabChanges::Name(Pair path) const {
  const auto& nodes = emulator_.topology().nodes;
  return fmt::format("{} > {}", nodes[path.first].name, nodes[path.second].name);
}

int64_t LabChanges::count(Pair path) const {
  const auto found = counts_.find(path);
  return found == counts_.end() ? 0 : found->second;
}

absl::StatusOr<std::vector<LabChanges::Pair>> LabChanges::Set(const std::string& selector,
                                                              const std::vector<std::string>& words,
                                                              absl::Time now) {
  const Topology& topology = emulator_.topology();
  ASSIGN_OR_RETURN(auto pairs, SelectPaths(topology, selector));
  if (words.empty()) return absl::InvalidArgumentError("set: want KEY=VALUE");
  std::vector<PathChange> changes;
  for (const auto& [from, to] : pairs) {
    ASSIGN_OR_RETURN(auto change,
                     ApplyAssignments(*FindPath(topology, from, to), words, topology.mtu));
    RETURN_IF_ERROR(ValidatePath(topology, change.path));
    changes.push_back(std::move(change));
  }
  for (const PathChange& change : changes) {
    RETURN_IF_ERROR(Apply(change, now));
  }
  return pairs;
}

absl::Status LabChanges::Apply(const PathChange& change, absl::Time now) {
  const Pair path(change.path.from, change.path.to);
  ++counts_[path];
  RETURN_IF_ERROR(emulator_.ChangePath(change.path));
  if (change.carrier == Carrier::kDown) outages_.TakeDown(path);
  if (change.carrier == Carrier::kUp) outages_.BringUp(path);
  if (change.outage) outages_.Begin(path, now + *change.outage);
  return SyncCarrier(path);
}

absl::Status LabChanges::SyncCarrier(Pair path) {
  const bool is_down = outages_.IsDown(path);
  if (is_down == down_.contains(path)) return absl::OkStatus();
  const Carrier carrier = is_down ? Carrier::kDown : Carrier::kUp;
  RETURN_IF_ERROR(emulator_.SetCarrier(path.first, path.second, carrier));
  if (is_down) {
    down_.insert(path);
  } else {
    down_.erase(path);
  }
  return absl::OkStatus();
}

std::optional<absl::Time> LabChanges::next() const {
  std::optional<absl::Time> next = outages_.next_end();
  if (next_scheduled_ == schedule_.size()) return next;
  const absl::Time due = started_ + schedule_[next_scheduled_].at;
  return std::min(next.value_or(due), due);
}

// One after the other in the order in which they were due, also when many are due by now.
void LabChanges::RunUntil(absl::Time now) {
  for (auto due = next(); due && *due <= now; due = next()) {
    if (outages_.next_end() == due) {
      EndOutages(*due, now);
    } else {
      RunScheduled(schedule_[next_scheduled_++], now);
    }
  }
}

void LabChanges::RunScheduled(const ScheduledChange& change, absl::Time now) {
  const auto done = Set(change.path, change.figures, now);
  if (!done.ok()) {
    failure_ = fmt::format("the change of line {} failed: {}", change.line,
                           std::string(done.status().message()));
  }
  NoteLateness(fmt::format("the change of line {} ({}: {})", change.line, change.path,
                           Joined(change.figures)),
               started_ + change.at, now);
}

void LabChanges::EndOutages(absl::Time due, absl::Time now) {
  for (const Pair& path : outages_.EndBy(due)) {
    ++counts_[path];
    if (auto s = SyncCarrier(path); !s.ok()) {
      failure_ = fmt::format("the end of an outage of {} failed: {}", Name(path),
                             std::string(s.message()));
    }
    NoteLateness("the end of an outage of " + Name(path), due, now);
  }
}

void LabChanges::NoteLateness(const std::string& what, absl::Time due, absl::Time now) {
  if (now - due <= kLateChange || late_.size() == kMostLateTold) return;
  late_.push_back({what, due - started_, now - due});
  fmt::print(stderr, "{}, due {:.3f} s after the start, was made {:.3f} s late\n", what,
             absl::ToDoubleSeconds(due - started_), absl::ToDoubleSeconds(now - due));
}

}  // namespace longhaul
