#include "compressors/numbers/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <climits>

#include "compressors/numbers/codec_threads.h"

namespace longhaul {
namespace {

// a b mod P: polynomials over GF(2), coefficient of x^0 in bit 31.
constexpr uint32_t MultiplyModP(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a >> 31) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return product;
}

// kPowers[i] = x^(8 * 2^i) mod P.
constexpr std::array<uint32_t, 64> MakePowers() {
  std::array<uint32_t, 64> powers{};
  powers[0] = 0x80000000u >> 8;
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = MultiplyModP(powers[i - 1], powers[i - 1]);
  return powers;
}
constexpr std::array<uint32_t, 64> kPowers = MakePowers();

// x^(8 bytes) mod P: what appending so many zero bytes multiplies a CRC with.
uint32_t ShiftBy(size_t bytes) {
  uint32_t shift = 0x80000000u;  // 1
  for (size_t i = 0; bytes >> i != 0; ++i) {
    if ((bytes >> i & 1) != 0) shift = MultiplyModP(shift, kPowers[i]);
  }
  return shift;
}

}  // namespace

uint32_t Crc32cAlone(std::span<const std::byte> bytes, uint32_t crc) {
  crc = ~crc;
  while (!bytes.empty()) {
    const size_t n = std::min<size_t>(bytes.size(), INT_MAX);  // what it takes at once
    // It reads alone, though its type does not say so.
    auto* const at = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    crc = crc32_iscsi(at, static_cast<int>(n), crc);
    bytes = bytes.subspan(n);
  }
  return ~crc;
}

uint32_t Crc32cCombine(uint32_t a, uint32_t b, size_t b_bytes) {
  return MultiplyModP(a, ShiftBy(b_bytes)) ^ b;
}

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  constexpr size_t kLeast = size_t{512} << 10;  // bytes worth another thread
  const Slices slices(bytes.size(), kLeast);
  CodecThreads& threads = CodecThreads::Process();
  if (slices.count() < 2 || threads.count() < 2) return Crc32cAlone(bytes, crc);
  uint32_t sums[Slices::kMost];
  threads.Run(slices.count(), [&](size_t i) {
    const size_t first = slices.first(i);
    sums[i] = Crc32cAlone(bytes.subspan(first, slices.last(i) - first), i == 0 ? crc : 0);
  });
  const uint32_t shift = ShiftBy(slices.length);
  for (size_t i = 1; i < slices.count(); ++i) {
    const size_t length = slices.last(i) - slices.first(i);
    sums[i] ^= MultiplyModP(sums[i - 1], length == slices.length ? shift : ShiftBy(length));
  }
  return sums[slices.count() - 1];
}

}  // namespace longhaul
