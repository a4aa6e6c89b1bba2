#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

// A model too large for a node, cut into `out.stages` stages: PP-Group DiLoCo for two groups or
// more, one pipeline over the WAN otherwise (section 3). Wants stages, parameters and payload_bits;
// fills times, steps, tokens and C_raw = 6 P_a D (wall clock, so the bubble is inside).
void SimulatePipeline(const Scenario& scenario, Outcome& out);

// What crosses a boundary in one step, bits each way, compressed.
struct BoundaryBits {
  double forward, backward;
};
BoundaryBits BitsOfStep(const Scenario& scenario, const Outcome& out);

// ceil(x - 1e-9 max(1,|x|)): 6.000000000000001 stages are 6. Clamped to 1..2^62.
int64_t GuardedCeil(double x);

// Training state per parameter in bytes: FP16 16, FP8 14, FP4 13 (weights and gradients at the
// precision, FP32 master and two moments).
double StateBytesPerParameter(Precision precision);
// Bits of one transmitted value before compression: 16, 8, 4.
double BitsPerValue(Precision precision);

// The model of sections 3 to 6 of simulator.md. Total for any scenario within the reader's bounds;
// what had to fall back stands in the outcome's warnings. Decision order: one node holds the model:
// flat or hierarchical; expert parallelism brings it under V: the same; two pipeline groups or
// more: PP-Group; else one pipeline over the WAN.
Outcome Simulate(const Scenario& scenario);

// Mean rate of exchanges, bit/s, one direction; and the share of an exchange that is RTT.
double MeanSyncRate(const Outcome& outcome);
double LatencyShare(const Scenario& scenario, const Outcome& outcome);
// FLOP that count over the peak of all nodes for T_w: 6 P_a D/(N F T_w/eta). Hardware FLOP
// utilisation is this over 0.8.
double GlobalMfu(const Scenario& scenario, const Outcome& outcome);

enum class Target { kLocal, kQuality, kRaw };
double ValueOf(const Outcome& outcome, Target target);

// The fewest nodes, counted up from one, at which the target value is >= `at_least` exactly; none
// up to `most`. Every count is tried: groups and fall-backs make the value jump down as well as up.
// `adjust`: what is computed in place of the scenario at each count.
std::optional<int64_t> FewestNodes(
    Scenario scenario, Target target, double at_least, int64_t most,
    const std::function<Scenario(const Scenario&)>& adjust = nullptr);

// The finaliser of SplitMix64.
inline uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace longhaul::simulator
