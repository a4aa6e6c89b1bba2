#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compressors/frame/frame.h"
#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/crc32c.h"

// The checksum of a payload, taken of each piece while it is in the nearest cache: reading a large
// payload once more costs as much as encoding it.
namespace longhaul {

// Payloads below are summed at once, which finds them in a cache anyway.
constexpr size_t kSumInPieces = size_t{256} << 10;

// The CRC of bytes [begin, end) of a frame.
struct SummedPart {
  size_t begin = 0, end = 0;
  uint32_t crc = 0;
};

// Sums a stretch of bytes that is written, or read, from its begin to its end.
class RunningSum {
 public:
  RunningSum() = default;
  // begin: in the frame.
  explicit RunningSum(size_t begin) : begin_(begin), end_(begin) {}
  // `bytes` are those that follow what was summed so far.
  void Add(std::span<const std::byte> bytes) {
    crc_ = Crc32cAlone(bytes, crc_);
    end_ += bytes.size();
  }
  size_t end() const { return end_; }
  SummedPart part() const { return {begin_, end_, crc_}; }

 private:
  size_t begin_ = 0, end_ = 0;
  uint32_t crc_ = 0;
};

// The CRC of a frame's payload from those of its parts, in the frame's order; what lies between
// them is read here.
uint32_t PayloadCrc(std::span<const std::byte> frame, std::span<const SummedPart> parts);

// The parts of a frame of up to kSections sections, each of which the slices of the threads fill
// one after the other.
template <size_t kSections>
class SlicedSums {
 public:
  // Each slice and section is one thread's business.
  SummedPart& part(size_t section, size_t slice) { return parts_[section * Slices::kMost + slice]; }
  uint32_t Combine(std::span<const std::byte> frame) const { return PayloadCrc(frame, parts_); }

 private:
  std::array<SummedPart, kSections* Slices::kMost> parts_ = {};
};

}  // namespace longhaul
