#include "experiments/spec/slowdowns.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace longhaul {
namespace {

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();
constexpr double kFrameBits = 8 * 1514;  // of a segment

}  // namespace

Wire Slowdown::On(Wire wire) const {
  if (rate_bit_per_s > 0) wire.busy_s = wire.segments * kFrameBits / rate_bit_per_s;
  if (one_way_delay_s >= 0) wire.delay_s = one_way_delay_s;
  return wire;
}

void Slowdown::On(PipelineCosts* costs) const {
  for (size_t s = 0; s < costs->stages.size(); ++s) {
    if (stage >= 0 && static_cast<size_t>(stage) != s) continue;
    PipelineCosts::Stage& own = costs->stages[s];
    for (double* seconds : {&own.forward_s, &own.backward_s, &own.input_gradient_s,
                            &own.weight_gradient_s, &costs->ranks[s].step_s}) {
      *seconds *= slow;
    }
  }
  if (from < 0) return;
  const bool forward = to > from;
  if (std::abs(to - from) == 1) {
    Wire& wire =
        (forward ? costs->activations : costs->gradients)[static_cast<size_t>(std::min(from, to))];
    wire = On(wire);
  }
  if (costs->tied && std::abs(to - from) + 1 == static_cast<int64_t>(costs->stages.size())) {
    Wire& wire = forward ? costs->tied->to_last : costs->tied->to_first;
    wire = On(wire);
  }
}

Slowdowns::Slowdowns(const std::vector<Fault>& drawn, int64_t stages, bool tied_head,
                     const StepSeconds& step_s)
    : stages_(stages), tied_head_(tied_head) {
  for (const Fault& f : drawn) {
    if (f.what == FaultKind::kSlow) {
      const int64_t last = f.for_steps > 0 ? f.at_step + f.for_steps - 1 : kToTheEnd;
      inside_[f.where.group].push_back({.first = f.at_step,
                                        .last = last,
                                        .slowdown = {.stage = f.where.stage, .slow = f.factor}});
    }
    if (f.where.kind != FaultPlace::Kind::kLink) continue;
    AddLink(f, f.where.from, f.where.to, step_s);
    if (f.where.both_ways) AddLink(f, f.where.to, f.where.from, step_s);
  }
}

void Slowdowns::AddLink(const Fault& f, int64_t from, int64_t to, const StepSeconds& step_s) {
  const int64_t group = from / stages_;
  const bool inside = group == to / stages_;
  const int64_t apart = std::abs(to - from);
  const bool ends = tied_head_ && apart == stages_ - 1;
  // No message takes a link between other ranks.
  if (inside ? apart != 1 && !ends : apart % stages_ != 0) return;
  Spell spell{.first = f.at_step, .last = kToTheEnd};
  if (f.what == FaultKind::kLinkDown) {
    spell.last = f.at_step;
    const double steps = static_cast<double>(std::max<int64_t>(1, f.for_steps));
    spell.down_s = f.for_s > 0 ? f.for_s : steps * step_s(group, {});
  }
  Slowdown& slowdown = spell.slowdown;
  slowdown.from = inside ? from % stages_ : from;
  slowdown.to = inside ? to % stages_ : to;
  if (f.what == FaultKind::kLinkRate) slowdown.rate_bit_per_s = f.rate_mbit * 1e6;
  if (f.what == FaultKind::kLinkDelay) slowdown.one_way_delay_s = f.delay_ms / 1e3;
  if (f.what != FaultKind::kLinkDown && f.for_steps > 0) spell.last = f.at_step + f.for_steps - 1;
  if (f.what != FaultKind::kLinkDown && f.for_s > 0) {
    const double hindered_s = inside ? step_s(group, {slowdown}) : step_s(group, {});
    spell.last = f.at_step + static_cast<int64_t>(std::ceil(f.for_s / hindered_s)) - 1;
  }
  (inside ? inside_[group] : between_).push_back(spell);
}

void Slowdowns::Slow(int64_t group, double factor) {
  inside_[group].push_back({.first = 1, .last = kToTheEnd, .slowdown = {.slow = factor}});
}

const std::vector<Slowdowns::Spell>& Slowdowns::Inside(int64_t group) const {
  static const std::vector<Spell> kNone;
  const auto at = inside_.find(group);
  return at == inside_.end() ? kNone : at->second;
}

std::vector<Slowdown> Slowdowns::InStep(int64_t group, int64_t step) const {
  std::vector<Slowdown> now;
  for (const Spell& spell : Inside(group)) {
    const bool holds = spell.first <= step && spell.last >= step;
    if (holds && spell.down_s == 0) now.push_back(spell.slowdown);
  }
  return now;
}

}  // namespace longhaul
