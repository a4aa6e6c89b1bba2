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

// nullopt: that tag says nothing of the kind.
constexpr std::optional<TensorKind> KindOfTag(int tag) {
  if (tag < kFirstKindTag || tag >= 2 * kFirstKindTag) return std::nullopt;
  return (tag & kGradientBit) != 0 ? TensorKind::kGradient : TensorKind::kActivation;
}

}  // namespace longhaul
