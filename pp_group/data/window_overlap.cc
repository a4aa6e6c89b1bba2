#include "pp_group/data/window_overlap.h"

#include <algorithm>
#include <bit>
#include <span>
#include <unordered_map>

namespace longhaul {
namespace {

// Sum of (id + 1) B^(n - 1 - i) modulo 2^64. Equal windows have equal hashes; others seldom.
constexpr uint64_t kB = 0x9E3779B97F4A7C15u;

uint64_t Hash(const std::vector<int64_t>& window) {
  uint64_t hash = 0;
  for (const int64_t id : window) hash = hash * kB + static_cast<uint64_t>(id) + 1;
  return hash;
}

uint64_t Power(size_t exponent) {
  uint64_t out = 1;
  for (size_t i = 0; i < exponent; ++i) out *= kB;
  return out;
}

// Windows that have not been found, by their hash. Most hashes of a text are of none of them: a bit
// for the upper part of a hash says so, of as few bits as tell nearly all, so that they stay in the
// nearest cache.
class Wanted {
 public:
  explicit Wanted(const std::vector<std::vector<int64_t>>& windows)
      : windows_(windows),
        bits_(std::bit_width(std::clamp(kBitsPerWindow * windows.size(), kFewestBits, kMostBits))),
        seen_(size_t{1} << bits_) {
    for (size_t i = 0; i < windows.size(); ++i) {
      const uint64_t hash = Hash(windows[i]);
      by_hash_.emplace(hash, i);
      seen_[hash >> (64 - bits_)] = true;
    }
  }
  bool all_found() const { return by_hash_.empty(); }

  // Strikes out the windows that the last ids of the text are; the oldest stands at ring[at].
  void Compare(uint64_t hash, const std::vector<int64_t>& ring, size_t at) {
    if (!seen_[hash >> (64 - bits_)]) return;
    for (auto [it, end] = by_hash_.equal_range(hash); it != end;) {
      const std::vector<int64_t>& window = windows_[it->second];
      const auto tail = ring.begin() + static_cast<std::ptrdiff_t>(at);
      const auto rest = window.begin() + (ring.end() - tail);
      const bool equal =
          std::equal(tail, ring.end(), window.begin()) && std::equal(ring.begin(), tail, rest);
      it = equal ? by_hash_.erase(it) : std::next(it);
    }
  }
  int64_t found() const { return static_cast<int64_t>(windows_.size() - by_hash_.size()); }

 private:
  static constexpr size_t kBitsPerWindow = 128, kFewestBits = 1 << 12, kMostBits = 1 << 22;
  const std::vector<std::vector<int64_t>>& windows_;
  const int bits_;
  std::unordered_multimap<uint64_t, size_t> by_hash_;
  std::vector<bool> seen_;
};

}  // namespace

int64_t WindowsIn(const MappedTokens& text, const std::vector<std::vector<int64_t>>& windows) {
  if (windows.empty()) return 0;
  Wanted wanted(windows);
  const size_t length = windows.front().size();
  const uint64_t leaving = Power(length);  // what the oldest id counts once another has come
  std::vector<int64_t> ring(length);
  size_t at = 0, filled = 0;
  uint64_t hash = 0;
  text.Visit([&](std::span<const uint32_t> ids) {
    if (wanted.all_found()) return;
    for (const uint32_t id : ids) {
      hash = hash * kB + id + 1;
      if (filled == length) {
        hash -= (static_cast<uint64_t>(ring[at]) + 1) * leaving;
      } else {
        ++filled;
      }
      ring[at] = id;
      at = at + 1 == length ? 0 : at + 1;
      if (filled == length) wanted.Compare(hash, ring, at);
    }
  });
  return wanted.found();
}

}  // namespace longhaul
