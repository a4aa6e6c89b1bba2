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

}  // namespace longhaul
