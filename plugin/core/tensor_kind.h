#pragma once

#include <optional>
#include <string_view>

namespace longhaul {

// What a point-to-point tensor of a pipeline is. The order of ranks tells the two apart only while
// every rank holds one stage; where a rank holds several, both kinds go from one rank to the same
// other one, and the sender must say which it is.
enum class TensorKind { kActivation, kGradient };

constexpr std::string_view ToString(TensorKind kind) {
  return kind == TensorKind::kActivation ? "activation" : "gradient";
}

// Tags that say the kind of their tensor, one channel per kind and `channel`: all from
// kFirstKindTag up to twice that, which leaves the tags below it to the program. The Python package
// names the same numbers in pipelining.py.
constexpr int kFirstKindTag = 1 << 29;
constexpr int kGradientBit = 1 << 28;

constexpr int KindTag(TensorKind kind, int channel) {  // 0 <= channel < 2^28
  return kFirstKindTag | (kind == TensorKind::kGradient ? kGradientBit : 0) | channel;
}

// Activations on channels with this bit are of one sample each: the channel is the sample's, and keeps
// one state of the codec at each end, whatever GroupOptions::ef_slots says of others. aqsgd* then sends
// what has changed since the sample came last.
constexpr int kSampleBit = 1 << 26;

constexpr bool IsSampleTag(int tag) {
  constexpr int kOthers = kGradientBit | kFirstKindTag | kSampleBit;
  return (tag & kOthers) == (kFirstKindTag | kSampleBit) && tag < 2 * kFirstKindTag;
}

// nullopt: that tag says nothing of the kind.
constexpr std::optional<TensorKind> KindOfTag(int tag) {
  if (tag < kFirstKindTag || tag >= 2 * kFirstKindTag) return std::nullopt;
  return (tag & kGradientBit) != 0 ? TensorKind::kGradient : TensorKind::kActivation;
}

}  // namespace longhaul
