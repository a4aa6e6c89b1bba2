#pragma once

#include "compressors/convert.h"

namespace longhaul {

// A tensor read as fp32, piece by piece. Not owning.
class WideReader {
 public:
  WideReader(ConstTensor x, Isa isa)
      : bytes_(static_cast<const std::byte*>(x.values)),
        element_bytes_(BytesPerElement(x.dtype)),
        widen_(Converter(isa, x.dtype, DType::kF32)) {}

  // Elements [at, at + n) in row order; false when NaN or Inf is among them.
  bool Read(size_t at, size_t n, float* out) const {
    return widen_(bytes_ + at * element_bytes_, n, reinterpret_cast<std::byte*>(out));
  }

 private:
  const std::byte* bytes_;
  size_t element_bytes_;
  ConvertFn widen_;
};

// A tensor written from fp32, rounded to its dtype.
class NarrowWriter {
 public:
  NarrowWriter(Tensor x, Isa isa)
      : bytes_(static_cast<std::byte*>(x.values)),
        element_bytes_(BytesPerElement(x.dtype)),
        narrow_(Converter(isa, DType::kF32, x.dtype)) {}

  void Write(const float* values, size_t at, size_t n) const {
    narrow_(reinterpret_cast<const std::byte*>(values), n, bytes_ + at * element_bytes_);
  }

 private:
  std::byte* bytes_;
  size_t element_bytes_;
  ConvertFn narrow_;
};

}  // namespace longhaul
