#include "plugin/core/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

constexpr size_t kBlock = 1024;  // elements; the accumulators of a block stay in the first cache

// How one element type lies in memory (Stored) and in what it is added up (Sum).
template <typename T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum Load(Stored v) { return v; }
  static Stored Store(Sum v) { return v; }
};
struct Bf16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum Load(Stored v) { return Bf16ToF32(v); }
  static Stored Store(Sum v) { return F32ToBf16(v); }
};
struct F16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum Load(Stored v) { return F16ToF32(v); }
  static Stored Store(Sum v) {
    // The clamping conversion keeps Inf finite; a sum that overflows must show.
    if (std::fabs(v) >= 65520.0f) return v > 0 ? 0x7C00 : 0xFC00;
    return F32ToF16Clamped(v);
  }
};
struct Logical {
  using Stored = uint8_t;
  using Sum = uint8_t;
  static Sum Load(Stored v) { return v != 0; }
  static Stored Store(Sum v) { return v; }
};

template <typename T>
T Smaller(T a, T b) {
  return b < a || b != b ? b : a;  // a NaN wins
}
template <typename T>
T Larger(T a, T b) {
  return a < b || b != b ? b : a;
}

template <typename Type, typename To = Type, typename Combine>
void Fold(std::span<const std::byte* const> sources, size_t count, std::byte* out, double scale,
          Combine combine) {
  using Stored = typename Type::Stored;
  using Sum = typename Type::Sum;
  std::array<Stored, kBlock> in;
  std::array<Sum, kBlock> sum;
  for (size_t start = 0; start < count; start += kBlock) {
    const size_t n = std::min(kBlock, count - start);
    for (size_t s = 0; s < sources.size(); ++s) {
      std::memcpy(in.data(), sources[s] + start * sizeof(Stored), n * sizeof(Stored));
      if (s == 0) {
        for (size_t i = 0; i < n; ++i) sum[i] = Type::Load(in[i]);
      } else {
        for (size_t i = 0; i < n; ++i) sum[i] = combine(sum[i], Type::Load(in[i]));
      }
    }
    if constexpr (!std::is_integral_v<Sum>) {
      // Division, not multiplication by a rounded reciprocal.
      using Real = decltype(std::abs(Sum{}));
      if (scale != 1) {
        for (size_t i = 0; i < n; ++i) sum[i] = sum[i] / static_cast<Real>(scale);
      }
    }
    std::array<typename To::Stored, kBlock> stored;
    for (size_t i = 0; i < n; ++i) stored[i] = To::Store(sum[i]);
    std::memcpy(out + start * sizeof(stored[0]), stored.data(), n * sizeof(stored[0]));
  }
}

template <typename Type>
void Arithmetic(ReduceOp op, std::span<const std::byte* const> sources, size_t count,
                std::byte* out) {
  using Sum = typename Type::Sum;
  const auto fold = [&](double scale, auto combine) {
    Fold<Type>(sources, count, out, scale, combine);
  };
  const auto ranks = static_cast<double>(sources.size());
  switch (op) {
    case ReduceOp::kSum:
      return fold(1, [](Sum a, Sum b) { return static_cast<Sum>(a + b); });
    case ReduceOp::kAvg:
      return fold(ranks, [](Sum a, Sum b) { return static_cast<Sum>(a + b); });
    case ReduceOp::kProduct:
      return fold(1, [](Sum a, Sum b) { return static_cast<Sum>(a * b); });
    default:
      break;
  }
  if constexpr (std::is_arithmetic_v<Sum>) {
    if (op == ReduceOp::kMin) return fold(1, Smaller<Sum>);
    if (op == ReduceOp::kMax) return fold(1, Larger<Sum>);
  }
  if constexpr (std::is_integral_v<Sum>) {
    if (op == ReduceOp::kBAnd) return fold(1, [](Sum a, Sum b) { return Sum(a & b); });
    if (op == ReduceOp::kBOr) return fold(1, [](Sum a, Sum b) { return Sum(a | b); });
    if (op == ReduceOp::kBXor) return fold(1, [](Sum a, Sum b) { return Sum(a ^ b); });
  }
}

// Sums and products of two's complement integers are those of the unsigned ones; order is not.
template <typename Signed>
void Integer(ReduceOp op, std::span<const std::byte* const> sources, size_t count, std::byte* out) {
  // Through 64 bits: a product of two promoted 16-bit values would overflow int.
  using Wide = std::make_unsigned_t<Signed>;
  if (op == ReduceOp::kProduct) {
    return Fold<Plain<Wide>>(sources, count, out, 1, [](Wide a, Wide b) {
      return static_cast<Wide>(uint64_t{a} * uint64_t{b});
    });
  }
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
    return Arithmetic<Plain<Signed>>(op, sources, count, out);
  }
  Arithmetic<Plain<Wide>>(op, sources, count, out);
}

void Boolean(ReduceOp op, std::span<const std::byte* const> sources, size_t count, std::byte* out) {
  if (op == ReduceOp::kSum || op == ReduceOp::kMax) op = ReduceOp::kBOr;
  if (op == ReduceOp::kProduct || op == ReduceOp::kMin) op = ReduceOp::kBAnd;
  Arithmetic<Logical>(op, sources, count, out);
}

// What stores f32 as that type.
template <typename Use>
void WithFloat(ElementType type, Use use) {
  switch (type) {
    case ElementType::kBF16:
      return use(Bf16{});
    case ElementType::kF16:
      return use(F16{});
    default:
      return use(Plain<float>{});
  }
}

}  // namespace

void SumFloats(ElementType from, std::span<const std::byte* const> sources, size_t count,
               double divisor, ElementType to, std::byte* out) {
  WithFloat(from, [&](auto in) {
    WithFloat(to, [&](auto stored) {
      Fold<decltype(in), decltype(stored)>(sources, count, out, divisor,
                                           [](float a, float b) { return a + b; });
    });
  });
}

absl::Status CheckReduce(ElementType type, ReduceOp op) {
  const bool only_bytes = type >= ElementType::kF8E4M3;
  const bool complex = type == ElementType::kComplex64 || type == ElementType::kComplex128;
  const bool real = type <= ElementType::kF64;
  const bool bitwise = op == ReduceOp::kBAnd || op == ReduceOp::kBOr || op == ReduceOp::kBXor;
  const bool ordered = op == ReduceOp::kMin || op == ReduceOp::kMax;
  const bool bad = only_bytes ? true
                   : real     ? bitwise
                   : complex  ? bitwise || ordered
                              : op == ReduceOp::kAvg;
  if (!bad) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("reduce: no {} of {}", ToString(op), ToString(type)));
}

void ReduceInOrder(ElementType type, ReduceOp op, std::span<const std::byte* const> sources,
                   size_t count, std::byte* out) {
  switch (type) {
    case ElementType::kF32:
      return Arithmetic<Plain<float>>(op, sources, count, out);
    case ElementType::kBF16:
      return Arithmetic<Bf16>(op, sources, count, out);
    case ElementType::kF16:
      return Arithmetic<F16>(op, sources, count, out);
    case ElementType::kF64:
      return Arithmetic<Plain<double>>(op, sources, count, out);
    case ElementType::kI8:
      return Integer<int8_t>(op, sources, count, out);
    case ElementType::kU8:
      return Arithmetic<Plain<uint8_t>>(op, sources, count, out);
    case ElementType::kI16:
      return Integer<int16_t>(op, sources, count, out);
    case ElementType::kI32:
      return Integer<int32_t>(op, sources, count, out);
    case ElementType::kI64:
      return Integer<int64_t>(op, sources, count, out);
    case ElementType::kBool:
      return Boolean(op, sources, count, out);
    case ElementType::kU16:
      return Integer<uint16_t>(op, sources, count, out);
    case ElementType::kU32:
      return Integer<uint32_t>(op, sources, count, out);
    case ElementType::kU64:
      return Integer<uint64_t>(op, sources, count, out);
    case ElementType::kF8E4M3:
    case ElementType::kF8E5M2:
    case ElementType::kF8E4M3Fnuz:
    case ElementType::kF8E5M2Fnuz:
    case ElementType::kF8E8M0:
      return;  // CheckReduce refuses them
    case ElementType::kComplex64:
      return Arithmetic<Plain<std::complex<float>>>(op, sources, count, out);
    case ElementType::kComplex128:
      return Arithmetic<Plain<std::complex<double>>>(op, sources, count, out);
  }
}

}  // namespace longhaul
