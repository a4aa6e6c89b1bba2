#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace longhaul {

// What a thread's buffer is for: two uses that may be alive at once have different names.
enum class ScratchUse : int {
  kIndices,    // of a sparse codec
  kKept,       // values of a sparse codec
  kSum,        // error feedback: x + e
  kDecoded,    // error feedback: what the receiver will see
  kWide,       // a tensor as fp32
  kWork,       // inside one family
  kCodes,      // inside one family
  kSaturated,  // a tensor without its NaN and Inf
};

// n elements that belong to the calling thread until its next call for the same use and type; their
// values are whatever they were. Grows and never shrinks, so a codec allocates in its first calls
// only.
template <typename T, ScratchUse kUse>
std::span<T> Scratch(size_t n) {
  static thread_local std::vector<T> buffer;
  if (buffer.size() < n) buffer.resize(n);
  return std::span<T>(buffer).first(n);
}

}  // namespace longhaul
