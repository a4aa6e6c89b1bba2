#pragma once

#include <cstddef>
#include <cstdint>

// Without Abseil: what is compiled for one instruction set includes this, and brings no code of
// others' with it (tests/architecture/isa_objects.sh).
namespace longhaul {

// Element type of a tensor; the values are those of the frame's dtype byte.
enum class DType : uint8_t { kF32 = 0, kBF16 = 1, kF16 = 2 };

constexpr size_t BytesPerElement(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// Row-major, contiguous. A vector is one row.
struct Shape {
  uint64_t rows = 0;
  uint64_t cols = 0;
  uint64_t elements() const { return rows * cols; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// Borrowed for the call; need not be aligned beyond its element size.
struct ConstTensor {
  const void* values;
  DType dtype;
  Shape shape;
};
struct Tensor {
  void* values;
  DType dtype;
  Shape shape;
  operator ConstTensor() const { return {values, dtype, shape}; }
};

}  // namespace longhaul
