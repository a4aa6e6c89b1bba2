#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/record/record_rows.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// What a run's settings and data do to its figures. One line each, with the figures; empty where
// nothing is to be said.

// What makes the spread between seeds, and with it every interval, wider than it need be.

// Before training: a warm-up of under 5 % of the steps.
constexpr double kLeastWarmUpShare = kWarmUpShare;
std::vector<std::string> WarmUpAdvice(const RunSpec& spec);

// Before a run: links that are named and that nothing goes over.
std::vector<std::string> LinkAdvice(const RunSpec& spec);

// After training, from the runs' facts: a clip_norm that acted in under 5 % of all steps.
constexpr double kLeastClippedShare = 0.05;
std::vector<std::string> ClippingAdvice(std::span<const RunRow> runs);

// From the runs' facts, what makes a held-out loss another figure than that of unseen text: windows
// that are in the training text too, and a training text that is passed more than once. Each line
// once.
std::vector<std::string> DataAdvice(std::span<const RunRow> runs);

}  // namespace longhaul
