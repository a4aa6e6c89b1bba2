#include "compressors/kernels/convert.h"

#include <algorithm>
#include <cstring>

#include "compressors/kernels/wide.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

template <typename T>
T Load(const std::byte* in, size_t i) {
  T v;
  std::memcpy(&v, in + i * sizeof(T), sizeof(T));
  return v;
}
template <typename T>
void Store(T v, std::byte* out, size_t i) {
  std::memcpy(out + i * sizeof(T), &v, sizeof(T));
}

}  // namespace

float LoadElement(const std::byte* in, DType dtype, size_t i) {
  switch (dtype) {
    case DType::kF32:
      return Load<float>(in, i);
    case DType::kBF16:
      return Bf16ToF32(Load<uint16_t>(in, i));
    case DType::kF16:
      return F16ToF32(Load<uint16_t>(in, i));
  }
  return 0;
}

void StoreElement(float value, std::byte* out, DType dtype, size_t i) {
  switch (dtype) {
    case DType::kF32:
      return Store(value, out, i);
    case DType::kBF16:
      return Store(F32ToBf16Clamped(value), out, i);
    case DType::kF16:
      return Store(F32ToF16Clamped(value), out, i);
  }
}

uint32_t LargestBits(ConstTensor x) {
  constexpr size_t kPiece = 2048;  // elements
  const Kernels& kernels = KernelsOf(BestIsa());
  const WideReader reader(x, kernels);
  float buffer[kPiece];
  uint32_t largest = 0;
  for (size_t at = 0; at < x.shape.elements(); at += kPiece) {
    const size_t n = std::min(kPiece, x.shape.elements() - at);
    largest = std::max(largest, kernels.abs_max(reader.Peek(at, n, buffer), n));
  }
  return largest;
}

}  // namespace longhaul
