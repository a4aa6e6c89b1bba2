#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// Which codec when: pure functions of what the caller measured. Where a choice depends on earlier
// ones, the state goes in and the next one comes out; nothing is kept here, nothing is timed, and
// equal inputs give equal answers on every rank.

// A change of codec, for the log. Every function that may change one says why.
struct CodecSwitch {
  int64_t step;
  std::string from, to;
  std::string cause;  // "bandwidth 12.1 MB/s: 4x fits the slot of 0.200 s with 20 % to spare"
};

// --- Warm-up -------------------------------------------------------------------------------------
// `gentle` before step `warmup_steps`, `strong` from then on.
std::string_view WarmUpCodec(int64_t step, int64_t warmup_steps, std::string_view gentle,
                             std::string_view strong);
// DGC: the share of elements kept in epoch e of w warm-up epochs, final^((e + 1) / (w + 1));
// `final` afterwards. DgcDensity(0.001, 0..3, 4) = 25, 6.3, 1.6, 0.4 %.
double DgcDensity(double final_density, int64_t epoch, int64_t warmup_epochs);

// --- Progressive ---------------------------------------------------------------------------------
struct ProgressiveStage {
  int64_t from_step;  // increasing
  std::string codec;
};
// The last stage that has begun; nullptr before the first.
const ProgressiveStage* ProgressiveCodec(std::span<const ProgressiveStage> stages, int64_t step);

// --- Layer-wise ----------------------------------------------------------------------------------
struct LayerNeed {
  uint64_t elements;
  double range;        // max - min, or any measure of magnitude
  double sensitivity;  // C_l: how much the loss minds an error in this layer; >= 0
};
// Bits per element for each layer, out of `bits` (increasing, 1..16), so that the sum of
// C range^2 / (2^b - 1)^2 is small and the sum of elements b / 8 is at most `budget_bytes`: starts
// with the fewest bits and spends the budget where a byte helps most (ties: the lower layer).
// nullopt when even the fewest bits exceed the budget.
std::optional<std::vector<int>> AllocateBits(std::span<const LayerNeed> layers,
                                             std::span<const int> bits, double budget_bytes);

// --- Bandwidth-aware -----------------------------------------------------------------------------
struct RatedCodec {
  std::string codec;
  double bytes;  // of one message
};
struct BandwidthSpec {
  std::vector<RatedCodec> codecs;  // best quality first, so bytes decrease
  double slot_s;                   // the compute time that a message may hide behind
  double ewma_weight = 0.2;        // of a new measurement
  double hysteresis = 0.2;         // a milder codec must fit with this share to spare
  int64_t dwell_steps = 50;        // between switches
};
struct BandwidthState {
  double bytes_per_s = 0;  // EWMA; 0 = nothing measured yet
  size_t current = 0;      // index into codecs
  int64_t since_step = 0;  // of the last switch
  friend bool operator==(const BandwidthState&, const BandwidthState&) = default;
};
// Takes in one measurement; changes the codec when another one is called for and the dwell is over.
// Chooses the best quality whose bytes / bandwidth fit the slot, the smallest when none does.
BandwidthState AdaptToBandwidth(const BandwidthSpec& spec, BandwidthState state, int64_t step,
                                double measured_bytes_per_s, std::vector<CodecSwitch>* log);

// --- Accuracy-driven -----------------------------------------------------------------------------
struct AccuracySpec {
  std::vector<std::string> codecs;  // mildest first
  double loss_budget;               // nat that the codec may cost
  double ewma_weight = 0.3;
};
struct AccuracyState {
  double loss_cost = 0;  // EWMA of loss with codec - loss without
  bool measured = false;
  size_t current = 0;
  friend bool operator==(const AccuracyState&, const AccuracyState&) = default;
};
// One held-out micro-batch with the codec on and off, same weights. Above the budget: one step
// milder; below a quarter of it: one step stronger. The average starts anew after a switch.
AccuracyState AdaptToAccuracy(const AccuracySpec& spec, AccuracyState state, int64_t step,
                              double loss_on, double loss_off, std::vector<CodecSwitch>* log);

// --- Per link ------------------------------------------------------------------------------------
// `near` between ranks of one site, `far` across sites.
std::string_view CodecOfLink(std::string_view site_a, std::string_view site_b,
                             std::string_view near, std::string_view far);

// --- Small tensors -------------------------------------------------------------------------------
// Below 4096 elements, norms and biases: not worth compressing.
constexpr uint64_t kSmallTensorElements = 4096;
constexpr bool IsWorthCompressing(uint64_t elements, bool is_norm_or_bias) {
  return elements >= kSmallTensorElements && !is_norm_or_bias;
}

}  // namespace longhaul
