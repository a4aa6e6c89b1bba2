#include "compressors/numbers/crc32c.h"

#include <array>
#include <cstring>

#include "compressors/numbers/codec_threads.h"
#include "compressors/numbers/crc32c_polynomial.h"

namespace longhaul {
namespace {

// table[0] is the classic byte table; table[k][b] is the CRC of byte b followed by k zero bytes, so
// eight look-ups consume eight bytes at once.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables t{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
    t[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) t[k][b] = (t[k - 1][b] >> 8) ^ t[0][t[k - 1][b] & 0xFF];
  }
  return t;
}
constexpr Tables kTables = MakeTables();

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

bool Folds() {
  static const bool folds = Crc32cVpclmulSupported();
  return folds;
}

}  // namespace

void Crc32cRun::Add(std::span<const std::byte> bytes) {
  if (Folds()) {
    Crc32cFold(bytes.data(), bytes.size(), folded_);
  } else {
    crc_ = Crc32cAlone(bytes, crc_);
  }
}

uint32_t Crc32cRun::value() const { return Folds() ? Crc32cOfFolded(folded_) : crc_; }

uint32_t Crc32cAlone(std::span<const std::byte> bytes, uint32_t crc) {
  static const auto best = Crc32cVpclmulSupported() ? Crc32cVpclmul
                           : Crc32cSse42Supported() ? Crc32cSse42
                                                    : Crc32cTable;
  return best(bytes.data(), bytes.size(), crc);
}

uint32_t Crc32cCombine(uint32_t a, uint32_t b, size_t b_bytes) {
  return MultiplyModP(a, ShiftBy(b_bytes)) ^ b;
}

uint32_t Crc32cTable(const std::byte* p, size_t left, uint32_t crc) {
  crc = ~crc;
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; left > 0; --left, ++p) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(*p)) & 0xFF];
  }
  return ~crc;
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
