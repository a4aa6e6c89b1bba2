#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace longhaul {

// Bits one after the other, LSB first, into bytes. Nothing beyond the last byte is touched.
class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}

  // The low `bits` bits of value, at most 32; the rest of value is zero.
  void Put(uint32_t value, int bits) {
    window_ |= uint64_t{value} << held_;
    held_ += bits;
    if (held_ < 32) return;
    std::memcpy(out_ + bytes_, &window_, 4);
    bytes_ += 4;
    window_ >>= 32;
    held_ -= 32;
  }
  // The same of any number of bits that fits, without a branch on what is held; writes eight bytes
  // from the current one on.
  void PutWide(uint64_t value, uint32_t bits) {
    window_ |= value << held_;
    held_ += static_cast<int>(bits);
    std::memcpy(out_ + bytes_, &window_, 8);
    bytes_ += static_cast<size_t>(held_) / 8;
    window_ >>= held_ & ~7;
    held_ &= 7;
  }
  bool fits_wide(uint32_t bits) const { return static_cast<uint32_t>(held_) + bits < 64; }
  void Ones(uint32_t count) {
    for (; count >= 32; count -= 32) Put(UINT32_MAX, 32);
    Put((uint32_t{1} << count) - 1, static_cast<int>(count));
  }
  void Zeros(uint32_t count) {
    for (; count >= 32; count -= 32) Put(0, 32);
    Put(0, static_cast<int>(count));
  }
  // Writes what is held back; spare bits are zero. Nothing may follow.
  void Finish() { std::memcpy(out_ + bytes_, &window_, static_cast<size_t>(held_ + 7) / 8); }

  uint64_t at() const { return 8 * bytes_ + static_cast<uint64_t>(held_); }
  size_t bytes() const { return bytes_; }  // written

 private:
  std::byte* out_;
  size_t bytes_ = 0;
  uint64_t window_ = 0;
  int held_ = 0;  // < 32
};

// The inverse, of bytes that nobody vouches for.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> in) : in_(in), end_(8 * uint64_t{in.size()}) {}

  // At most 32 bits; false at the end of the bytes.
  bool Get(int bits, uint32_t& value) {
    if (at_ + static_cast<uint64_t>(bits) > end_) return false;
    value = static_cast<uint32_t>(Peek() & ((uint64_t{1} << bits) - 1));
    at_ += static_cast<uint64_t>(bits);
    return true;
  }
  // Counts one-bits up to the next zero and passes it; false when there are more than `limit`, or
  // no zero.
  bool Unary(uint64_t limit, uint64_t& count) {
    for (count = 0;;) {
      const auto ones = static_cast<uint64_t>(std::countr_one(Peek()));
      const uint64_t seen = ones < 56 ? ones : 56;  // Peek has at least 57 bits
      count += seen;
      at_ += seen;
      if (count > limit || at_ >= end_) return false;
      if (seen < 56) break;
    }
    ++at_;
    return true;
  }
  uint64_t at() const { return at_; }
  // All bytes begun, and no bit set behind the last one read.
  bool AtEnd() const { return (at_ + 7) / 8 == in_.size() && (at_ % 8 == 0 || Peek() == 0); }

 private:
  // The next 57 bits or more; zeros behind the end.
  uint64_t Peek() const {
    uint64_t word = 0;
    const size_t byte = at_ / 8;
    if (byte + 8 <= in_.size()) {
      std::memcpy(&word, in_.data() + byte, 8);
    } else if (byte < in_.size()) {
      std::memcpy(&word, in_.data() + byte, in_.size() - byte);
    }
    return word >> (at_ % 8);
  }

  std::span<const std::byte> in_;
  const uint64_t end_;
  uint64_t at_ = 0;
};

}  // namespace longhaul
