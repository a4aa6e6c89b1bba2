#include "compressors/numbers/bit_pack.h"

#include <array>
#include <cstring>
#include <utility>

namespace longhaul {
namespace {

// Eight codes of k bits, one per byte -> the low 8k bits; and back.
uint64_t Squeeze(uint64_t w, int k) {
  w = (w & 0x00FF00FF00FF00FF) | (w >> 8 & 0x00FF00FF00FF00FF) << k;
  w = (w & 0x0000FFFF0000FFFF) | (w >> 16 & 0x0000FFFF0000FFFF) << 2 * k;
  return (w & 0x00000000FFFFFFFF) | w >> 32 << 4 * k;
}
uint64_t Spread(uint64_t w, int k) {
  const auto low = [](int bits) { return (uint64_t{1} << bits) - 1; };
  w = (w & low(4 * k)) | (w >> 4 * k & low(4 * k)) << 32;
  const uint64_t two = low(2 * k) * 0x0000000100000001;
  w = (w & two) | (w >> 2 * k & two) << 16;
  const uint64_t one = low(k) * 0x0001000100010001;
  return (w & one) | (w >> k & one) << 8;
}

// The width is a constant inside, so that a group of eight codes is a few instructions.
template <int kBits>
void Pack(std::span<const uint8_t> codes, std::byte* out) {
  size_t i = 0;
  for (; i + 8 <= codes.size(); i += 8, out += kBits) {
    uint64_t word;
    std::memcpy(&word, codes.data() + i, 8);
    word = Squeeze(word, kBits);
    std::memcpy(out, &word, kBits);
  }
  if (i == codes.size()) return;
  uint64_t word = 0;
  std::memcpy(&word, codes.data() + i, codes.size() - i);
  word = Squeeze(word, kBits);
  std::memcpy(out, &word, PackedBytes(codes.size() - i, kBits));
}

template <int kBits>
void Unpack(const std::byte* in, std::span<uint8_t> codes) {
  size_t i = 0;
  for (; i + 8 <= codes.size(); i += 8, in += kBits) {
    uint64_t word = 0;
    std::memcpy(&word, in, kBits);
    word = Spread(word, kBits);
    std::memcpy(codes.data() + i, &word, 8);
  }
  if (i == codes.size()) return;
  uint64_t word = 0;
  std::memcpy(&word, in, PackedBytes(codes.size() - i, kBits));
  word = Spread(word, kBits);
  std::memcpy(codes.data() + i, &word, codes.size() - i);
}

template <size_t... kIndex>
constexpr auto Packers(std::index_sequence<kIndex...>) {
  return std::array{Pack<static_cast<int>(kIndex) + 1>...};
}
template <size_t... kIndex>
constexpr auto Unpackers(std::index_sequence<kIndex...>) {
  return std::array{Unpack<static_cast<int>(kIndex) + 1>...};
}

}  // namespace

void PackBits(std::span<const uint8_t> codes, int bits, std::span<std::byte> out) {
  static constexpr auto pack = Packers(std::make_index_sequence<8>());
  pack[static_cast<size_t>(bits - 1)](codes, out.data());
}

void UnpackBits(std::span<const std::byte> in, int bits, std::span<uint8_t> codes) {
  static constexpr auto unpack = Unpackers(std::make_index_sequence<8>());
  unpack[static_cast<size_t>(bits - 1)](in.data(), codes);
}

}  // namespace longhaul
