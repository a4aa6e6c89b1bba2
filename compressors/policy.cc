#include "compressors/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>

namespace longhaul {
namespace {

// Mean squared error of b bits over a range, times what the loss makes of it.
double Harm(const LayerNeed& layer, int bits) {
  const double levels = std::exp2(bits) - 1;
  return layer.sensitivity * layer.range * layer.range / (levels * levels);
}

void Log(std::vector<CodecSwitch>* log, CodecSwitch change) {
  if (log != nullptr) log->push_back(std::move(change));
}

}  // namespace

std::string_view WarmUpCodec(int64_t step, int64_t warmup_steps, std::string_view gentle,
                             std::string_view strong) {
  return step < warmup_steps ? gentle : strong;
}

double DgcDensity(double final_density, int64_t epoch, int64_t warmup_epochs) {
  if (epoch >= warmup_epochs) return final_density;
  return std::pow(final_density,
                  static_cast<double>(epoch + 1) / static_cast<double>(warmup_epochs + 1));
}

const ProgressiveStage* ProgressiveCodec(std::span<const ProgressiveStage> stages, int64_t step) {
  const ProgressiveStage* begun = nullptr;
  for (const ProgressiveStage& stage : stages) {
    if (stage.from_step <= step) begun = &stage;
  }
  return begun;
}

std::optional<std::vector<int>> AllocateBits(std::span<const LayerNeed> layers,
                                             std::span<const int> bits, double budget_bytes) {
  if (bits.empty()) return std::nullopt;
  const auto bytes = [&](size_t l, size_t b) {
    return static_cast<double>(layers[l].elements) * bits[b] / 8;
  };
  double spent = 0;
  for (size_t l = 0; l < layers.size(); ++l) spent += bytes(l, 0);
  if (spent > budget_bytes) return std::nullopt;

  struct Step {
    double gain_per_byte;
    size_t layer, to;
    bool operator<(const Step& other) const {
      if (gain_per_byte != other.gain_per_byte) return gain_per_byte < other.gain_per_byte;
      return layer > other.layer;
    }
  };
  std::priority_queue<Step> steps;
  const auto offer = [&](size_t l, size_t to) {
    if (to == bits.size() || layers[l].elements == 0) return;
    const double gain = Harm(layers[l], bits[to - 1]) - Harm(layers[l], bits[to]);
    steps.push({gain / (bytes(l, to) - bytes(l, to - 1)), l, to});
  };
  std::vector<int> chosen(layers.size(), bits[0]);
  for (size_t l = 0; l < layers.size(); ++l) offer(l, 1);
  while (!steps.empty()) {
    const Step step = steps.top();
    steps.pop();
    const double cost = bytes(step.layer, step.to) - bytes(step.layer, step.to - 1);
    if (step.gain_per_byte <= 0 || spent + cost > budget_bytes) continue;  // a smaller one may fit
    spent += cost;
    chosen[step.layer] = bits[step.to];
    offer(step.layer, step.to + 1);
  }
  return chosen;
}

BandwidthState AdaptToBandwidth(const BandwidthSpec& spec, BandwidthState state, int64_t step,
                                double measured_bytes_per_s, std::vector<CodecSwitch>* log) {
  if (spec.codecs.empty() || !(measured_bytes_per_s > 0)) return state;
  state.bytes_per_s =
      state.bytes_per_s == 0
          ? measured_bytes_per_s
          : state.bytes_per_s + spec.ewma_weight * (measured_bytes_per_s - state.bytes_per_s);
  if (step - state.since_step < spec.dwell_steps) return state;
  size_t wanted = spec.codecs.size() - 1;
  for (size_t i = 0; i < spec.codecs.size(); ++i) {
    // Going milder needs room to spare, or a bandwidth at the border would switch every time.
    const double room = i < state.current ? 1 + spec.hysteresis : 1;
    if (spec.codecs[i].bytes / state.bytes_per_s * room <= spec.slot_s) {
      wanted = i;
      break;
    }
  }
  if (wanted == state.current) return state;
  Log(log, {.step = step,
            .from = spec.codecs[state.current].codec,
            .to = spec.codecs[wanted].codec,
            .cause = fmt::format("bandwidth {:.3g} MB/s: {:.0f} bytes take {:.3g} s of a slot of "
                                 "{:.3g} s",
                                 state.bytes_per_s * 1e-6, spec.codecs[wanted].bytes,
                                 spec.codecs[wanted].bytes / state.bytes_per_s, spec.slot_s)});
  state.current = wanted;
  state.since_step = step;
  return state;
}

AccuracyState AdaptToAccuracy(const AccuracySpec& spec, AccuracyState state, int64_t step,
                              double loss_on, double loss_off, std::vector<CodecSwitch>* log) {
  const double cost = loss_on - loss_off;
  if (spec.codecs.empty() || !std::isfinite(cost)) return state;
  state.loss_cost =
      state.measured ? state.loss_cost + spec.ewma_weight * (cost - state.loss_cost) : cost;
  state.measured = true;
  size_t wanted = state.current;
  if (state.loss_cost > spec.loss_budget && wanted > 0) --wanted;
  if (state.loss_cost < spec.loss_budget / 4 && wanted + 1 < spec.codecs.size()) ++wanted;
  if (wanted == state.current) return state;
  Log(log, {.step = step,
            .from = spec.codecs[state.current],
            .to = spec.codecs[wanted],
            .cause = fmt::format("the codec costs {:.3g} nat of a budget of {:.3g}",
                                 state.loss_cost, spec.loss_budget)});
  return {.loss_cost = 0, .measured = false, .current = wanted};
}

std::string_view CodecOfLink(std::string_view site_a, std::string_view site_b,
                             std::string_view near, std::string_view far) {
  return site_a == site_b ? near : far;
}

}  // namespace longhaul
