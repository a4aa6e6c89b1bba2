#include "pp_group/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/escaping.h"

namespace longhaul {
namespace {

constexpr size_t kBlock = 64;  // bytes

// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t BigEndian(const std::byte* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return __builtin_bswap32(word);
}

void Compress(const std::byte* block, std::array<uint32_t, 8>* state) {
  std::array<uint32_t, 64> w;
  for (int i = 0; i < 16; ++i) w[i] = BigEndian(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = *state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) (*state)[i] += add[i];
}

}  // namespace

void Sha256::Add(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (rest_bytes_ == 0 && bytes.size() >= kBlock) {
      Compress(bytes.data(), &state_);
      bytes = bytes.subspan(kBlock);
      continue;
    }
    const size_t taken = std::min(kBlock - rest_bytes_, bytes.size());
    std::memcpy(rest_.data() + rest_bytes_, bytes.data(), taken);
    rest_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (rest_bytes_ < kBlock) continue;
    Compress(rest_.data(), &state_);
    rest_bytes_ = 0;
  }
}

std::string Sha256::Hex() {
  // The rest, a one bit, zeros, and the length in bits: one block or two.
  std::fill(rest_.begin() + rest_bytes_, rest_.end(), std::byte{0});
  rest_[rest_bytes_] = std::byte{0x80};
  const size_t blocks = rest_bytes_ + 1 + 8 <= kBlock ? 1 : 2;
  const uint64_t length = __builtin_bswap64(bytes_ * 8);
  std::memcpy(rest_.data() + kBlock * blocks - 8, &length, sizeof length);
  for (size_t i = 0; i < blocks; ++i) Compress(rest_.data() + kBlock * i, &state_);
  std::string digest;
  for (uint32_t word : state_) {
    for (int shift = 24; shift >= 0; shift -= 8) digest.push_back(static_cast<char>(word >> shift));
  }
  return absl::BytesToHexString(digest);
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Add(bytes);
  return hash.Hex();
}

}  // namespace longhaul
