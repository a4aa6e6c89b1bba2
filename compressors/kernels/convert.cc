#include "compressors/kernels/convert.h"

#include <cstring>

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

template <DType kFrom, DType kTo>
bool Convert(const std::byte* in, size_t n, std::byte* out) {
  uint32_t top = 0;
  for (size_t i = 0; i < n; ++i) {
    const float x = LoadElement(in, kFrom, i);
    const uint32_t abs = BitsOf(x) & kAbsMask;
    top = abs > top ? abs : top;
    StoreElement(x, out, kTo, i);
  }
  return top < kInfBits;
}

template <DType kType>
bool Copy(const std::byte* in, size_t n, std::byte* out) {
  uint32_t top = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t abs = BitsOf(LoadElement(in, kType, i)) & kAbsMask;
    top = abs > top ? abs : top;
  }
  std::memcpy(out, in, n * BytesPerElement(kType));
  return top < kInfBits;
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

const ConvertTable& ScalarConverters() {
  using enum DType;
  static constexpr ConvertTable table = {{
      {Copy<kF32>, Convert<kF32, kBF16>, Convert<kF32, kF16>},
      {Convert<kBF16, kF32>, Copy<kBF16>, Convert<kBF16, kF16>},
      {Convert<kF16, kF32>, Convert<kF16, kBF16>, Copy<kF16>},
  }};
  return table;
}

ConvertFn Converter(Isa isa, DType from, DType to) {
  const ConvertTable& table = isa == Isa::kAvx512 ? Avx512Converters()
                              : isa == Isa::kAvx2 ? Avx2Converters()
                                                  : ScalarConverters();
  return table[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

}  // namespace longhaul
