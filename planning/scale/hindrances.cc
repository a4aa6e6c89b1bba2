#include "planning/scale/hindrances.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace longhaul::scale {
namespace {

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

}  // namespace

Hindrances::Hindrances(const ScaleSpec& spec, GroupPace& pace) : spec_(spec), pace_(pace) {
  const std::vector<double>& speeds = spec.run.compute->group_speed;
  for (size_t g = 0; g < speeds.size(); ++g) {
    if (speeds[g] == 1) continue;
    inside_[static_cast<int64_t>(g)].push_back(
        {.first = 1, .last = kToTheEnd, .hindrance = {.slow = 1 / speeds[g]}});
  }
}

bool Hindrances::Add(const Fault& f) {
  switch (f.what) {
    case FaultKind::kSlow: {
      const int64_t last = f.for_steps > 0 ? f.at_step + f.for_steps - 1 : kToTheEnd;
      inside_[f.where.group].push_back({.first = f.at_step,
                                        .last = last,
                                        .hindrance = {.stage = f.where.stage, .slow = f.factor}});
      return true;
    }
    case FaultKind::kLinkDown:
    case FaultKind::kLinkRate:
    case FaultKind::kLinkDelay:
      AddLink(f, f.where.from, f.where.to);
      if (f.where.both_ways) AddLink(f, f.where.to, f.where.from);
      return true;
    case FaultKind::kDiskFull:
      return true;
    default:
      return false;
  }
}

void Hindrances::AddLink(const Fault& f, int64_t from, int64_t to) {
  const int64_t stages = spec_.run.schedule.stages;
  const bool same_group = from / stages == to / stages, same_stage = from % stages == to % stages;
  const int64_t apart = to - from;
  // No message takes a link between other ranks.
  if (same_group ? std::abs(apart) != 1 : !same_stage) return;
  Spell spell{.first = f.at_step, .last = kToTheEnd, .hindrance = {}};
  if (f.what == FaultKind::kLinkDown) {
    spell.last = f.at_step;
    spell.down_s = f.for_s > 0
                       ? f.for_s
                       : static_cast<double>(std::max<int64_t>(1, f.for_steps)) * pace_.step_s();
  }
  if (f.what == FaultKind::kLinkRate) spell.hindrance.rate_bit_per_s = f.rate_mbit * 1e6;
  if (f.what == FaultKind::kLinkDelay) spell.hindrance.one_way_delay_s = f.delay_ms / 1e3;
  if (same_group) {
    spell.hindrance.boundary = std::min(from, to) % stages;
    spell.hindrance.forward = apart > 0;
  }
  if (f.what != FaultKind::kLinkDown && f.for_steps > 0) spell.last = f.at_step + f.for_steps - 1;
  if (f.what != FaultKind::kLinkDown && f.for_s > 0) {
    const double step_s = same_group ? pace_.StepSeconds({spell.hindrance}) : pace_.step_s();
    spell.last = f.at_step + static_cast<int64_t>(std::ceil(f.for_s / step_s)) - 1;
  }
  if (same_group) {
    inside_[from / stages].push_back(spell);
  } else {
    between_.push_back(spell);
  }
}

std::optional<double> Hindrances::RoundSeconds(int64_t group, int64_t first, int64_t last) {
  const auto at = inside_.find(group);
  if (at == inside_.end()) return std::nullopt;
  std::set<int64_t> changes{first};  // steps from which another set of spells holds
  double down_s = 0;
  for (const Spell& spell : at->second) {
    if (spell.last < first || spell.first > last) continue;
    changes.insert(std::max(first, spell.first));
    if (spell.last < last) changes.insert(spell.last + 1);
    if (spell.first >= first) down_s += spell.down_s;
  }
  double seconds = down_s;
  for (auto from = changes.begin(); from != changes.end(); ++from) {
    const auto next = std::next(from);
    const int64_t until = next == changes.end() ? last + 1 : *next;
    std::vector<Hindrance> now;
    for (const Spell& spell : at->second) {
      const bool holds = spell.first <= *from && spell.last >= *from;
      if (holds && spell.down_s == 0) now.push_back(spell.hindrance);
    }
    seconds += static_cast<double>(until - *from) *
               (now.empty() ? pace_.step_s() : pace_.StepSeconds(now));
  }
  return seconds;
}

double Hindrances::ExchangeEnd(int64_t first, int64_t last, double begin_s,
                               const Connection& open) {
  double end_s = 0;
  for (const Spell& spell : between_) {
    if (spell.last < first || spell.first > last) continue;
    // Down from the beginning of its step on.
    const double up_s =
        begin_s - static_cast<double>(last + 1 - spell.first) * pace_.step_s() + spell.down_s;
    Connection path = open;
    Wire wire = spell.hindrance.On(pace_.ExchangeWire(1));
    wire.both_ways = false;  // what comes the other way is not hindered, and over long before
    const double ready_s = spell.down_s > 0 ? std::max(begin_s, up_s) : begin_s;
    end_s = std::max(end_s, Take(wire, ready_s, &path).arrived);
  }
  return end_s;
}

}  // namespace longhaul::scale
