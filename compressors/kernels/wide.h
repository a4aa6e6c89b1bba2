#pragma once

#include <cstddef>
#include <cstdint>

#include "compressors/kernels/kernels.h"
#include "compressors/kernels/prefetch.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {

// Writing past the caches. A line that is stored in the ordinary way is read from memory first; for
// an output that no cache would keep anyway that is a third to a half of the traffic.

// Outputs from here on go past the caches: they would drive out everything else.
constexpr size_t kStreamedBytes = size_t{16} << 20;

// Orders what was streamed before what this thread does next; once per thread and output.
inline void FinishStreaming() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

// Whether floats may be read and written where `values` points; a caller's tensor may lie anywhere.
inline bool AlignedForFloat(const void* values) {
  return reinterpret_cast<uintptr_t>(values) % alignof(float) == 0;
}

// A tensor read as fp32, piece by piece. Not owning.
class WideReader {
 public:
  WideReader(ConstTensor x, const Kernels& kernels)
      : bytes_(static_cast<const std::byte*>(x.values)),
        element_bytes_(BytesPerElement(x.dtype)),
        in_place_(x.dtype == DType::kF32 && AlignedForFloat(x.values)),
        widen_(kernels.Converter(x.dtype, DType::kF32)),
        abs_max_(kernels.abs_max) {}

  // Elements [at, at + n) in row order; false when NaN or Inf is among them.
  bool Read(size_t at, size_t n, float* out) const {
    return widen_(bytes_ + at * element_bytes_, n, reinterpret_cast<std::byte*>(out));
  }
  // Whether View and Peek answer the tensor's own memory, for as many elements as are asked for.
  bool in_place() const { return in_place_; }
  // The same as Read, but aligned fp32 stays where it is; `buffer` has room for the others.
  // nullptr: NaN or Inf.
  const float* View(size_t at, size_t n, float* buffer) const {
    if (!in_place_) return Read(at, n, buffer) ? buffer : nullptr;
    const float* x = Peek(at, n, buffer);
    return abs_max_(x, n) < kInfBits ? x : nullptr;
  }
  // Fetches elements [at, at + n), which need not exist, to be read soon.
  void Prefetch(size_t at, size_t n) const {
    PrefetchLines(bytes_ + at * element_bytes_, n * element_bytes_);
  }
  // As View of elements that are known to be finite, or whose user finds out.
  const float* Peek(size_t at, size_t n, float* buffer) const {
    if (in_place_) return reinterpret_cast<const float*>(bytes_ + at * element_bytes_);
    Read(at, n, buffer);
    return buffer;
  }

 private:
  const std::byte* bytes_;
  size_t element_bytes_;
  bool in_place_;
  ConvertFn widen_;
  uint32_t (*abs_max_)(const float* x, size_t n);
};

// A tensor written from fp32, rounded to its dtype; a large one past the caches.
class NarrowWriter {
 public:
  NarrowWriter(Tensor x, const Kernels& kernels)
      : bytes_(static_cast<std::byte*>(x.values)),
        element_bytes_(BytesPerElement(x.dtype)),
        streams_(x.dtype == DType::kF32 && 4 * x.shape.elements() >= kStreamedBytes),
        in_place_(x.dtype == DType::kF32 && !streams_ && AlignedForFloat(x.values)),
        narrow_(kernels.Converter(DType::kF32, x.dtype)),
        stream_(kernels.stream) {}
  ~NarrowWriter() {
    if (streams_) FinishStreaming();
  }
  NarrowWriter(const NarrowWriter&) = delete;
  NarrowWriter& operator=(const NarrowWriter&) = delete;

  void Write(const float* values, size_t at, size_t n) const {
    const auto* from = reinterpret_cast<const std::byte*>(values);
    if (streams_) {
      stream_(from, 4 * n, bytes_ + 4 * at);
    } else {
      narrow_(from, n, bytes_ + at * element_bytes_);
    }
  }
  // Where elements from `at` on are to be computed: in their place when that is aligned fp32, small
  // enough for a cache, else in `buffer`. Done writes them from there.
  float* Target(size_t at, float* buffer) const {
    if (!in_place_) return buffer;
    return reinterpret_cast<float*>(bytes_ + at * element_bytes_);
  }
  void Done(const float* target, size_t at, size_t n) const {
    if (!in_place_) Write(target, at, n);
  }

 private:
  std::byte* bytes_;
  size_t element_bytes_;
  bool streams_, in_place_;
  ConvertFn narrow_;
  void (*stream_)(const std::byte* from, size_t bytes, std::byte* to);
};

}  // namespace longhaul
