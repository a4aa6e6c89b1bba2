#include "compressors/index_coding.h"

#include <bit>
#include <cstring>

namespace longhaul {
namespace {

constexpr size_t kChunksPerOffset = 16;
constexpr uint32_t kMaxRice = 15;

int FixedBits(size_t chunk) { return std::bit_width(chunk - 1); }
size_t OffsetBytes(size_t chunks) {
  return 4 * ((chunks + kChunksPerOffset - 1) / kChunksPerOffset);
}

// Bits LSB first into zeroed bytes.
class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}
  void Put(uint32_t value, int bits) {
    for (int b = 0; b < bits; ++b, ++at_) {
      out_[at_ / 8] |= static_cast<std::byte>((value >> b & 1) << (at_ % 8));
    }
  }
  void Ones(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) Put(1, 1);
  }
  size_t at() const { return at_; }

 private:
  std::byte* out_;
  size_t at_ = 0;
};

class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> in) : in_(in) {}
  // False at the end of the bytes.
  bool Get(int bits, uint32_t& value) {
    value = 0;
    if (at_ + static_cast<size_t>(bits) > 8 * in_.size()) return false;
    for (int b = 0; b < bits; ++b, ++at_) {
      value |= (static_cast<uint32_t>(in_[at_ / 8]) >> (at_ % 8) & 1) << b;
    }
    return true;
  }
  // Counts one-bits up to the next zero; false when there are more than `limit` or no zero.
  bool Unary(uint32_t limit, uint32_t& count) {
    uint32_t bit = 0;
    for (count = 0; count <= limit; ++count) {
      if (!Get(1, bit)) return false;
      if (bit == 0) return true;
    }
    return false;
  }
  size_t at() const { return at_; }

 private:
  std::span<const std::byte> in_;
  size_t at_ = 0;
};

// Calls visit(gap) for every index of every chunk.
template <typename Visit>
void ForEachGap(std::span<const ChunkShape> chunks, std::span<const uint32_t> indices,
                Visit visit) {
  size_t at = 0;
  for (const ChunkShape& c : chunks) {
    uint32_t next = 0;  // the smallest index that may come
    for (size_t i = 0; i < c.kept; ++i, ++at) {
      visit(indices[at] - next);
      next = indices[at] + 1;
    }
  }
}

size_t BitmapBytes(std::span<const ChunkShape> chunks) {
  size_t bits = 0;
  for (const ChunkShape& c : chunks) bits += c.length;
  return (bits + 7) / 8;
}

bool ReadRice(uint32_t rice, std::span<const ChunkShape> chunks, std::span<const std::byte> in,
              std::span<uint32_t> indices) {
  const size_t table = OffsetBytes(chunks.size());
  if (rice > kMaxRice || in.size() < table) return false;
  BitReader bits(in.subspan(table));
  size_t at = 0;
  for (size_t j = 0; j < chunks.size(); ++j) {
    if (j % kChunksPerOffset == 0) {
      uint32_t offset;
      std::memcpy(&offset, in.data() + 4 * (j / kChunksPerOffset), 4);
      if (offset != static_cast<uint32_t>(bits.at())) return false;
    }
    size_t next = 0;
    for (size_t i = 0; i < chunks[j].kept; ++i) {
      uint32_t high, low;
      if (!bits.Unary(static_cast<uint32_t>(chunks[j].length >> rice), high)) return false;
      if (!bits.Get(static_cast<int>(rice), low)) return false;
      next += (static_cast<size_t>(high) << rice) + low;
      if (next >= chunks[j].length) return false;
      indices[at++] = static_cast<uint32_t>(next++);
    }
  }
  return (bits.at() + 7) / 8 == in.size() - table;
}

bool ReadFixed(size_t chunk, std::span<const ChunkShape> chunks, std::span<const std::byte> in,
               std::span<uint32_t> indices) {
  BitReader bits(in);
  size_t at = 0;
  for (const ChunkShape& c : chunks) {
    size_t next = 0;
    for (size_t i = 0; i < c.kept; ++i) {
      uint32_t index;
      if (!bits.Get(FixedBits(chunk), index) || index < next || index >= c.length) return false;
      next = index + 1;
      indices[at++] = index;
    }
  }
  return (bits.at() + 7) / 8 == in.size();
}

bool ReadBitmap(std::span<const ChunkShape> chunks, std::span<const std::byte> in,
                std::span<uint32_t> indices) {
  BitReader bits(in);
  size_t at = 0;
  for (const ChunkShape& c : chunks) {
    size_t kept = 0;
    for (size_t i = 0; i < c.length; ++i) {
      uint32_t bit;
      if (!bits.Get(1, bit)) return false;
      if (bit == 0) continue;
      if (++kept > c.kept) return false;
      indices[at++] = static_cast<uint32_t>(i);
    }
    if (kept != c.kept) return false;
  }
  return (bits.at() + 7) / 8 == in.size();
}

}  // namespace

IndexPlan PlanIndices(std::span<const ChunkShape> chunks, size_t chunk,
                      std::span<const uint32_t> indices) {
  IndexPlan best = {IndexCoding::kFixed, 0, (indices.size() * FixedBits(chunk) + 7) / 8};
  // Bits of Rice with every r at once: one pass over the gaps.
  uint64_t rice_bits[kMaxRice + 1] = {};
  ForEachGap(chunks, indices, [&rice_bits](uint32_t gap) {
    for (uint32_t r = 0; r <= kMaxRice; ++r) rice_bits[r] += (gap >> r) + 1 + r;
  });
  uint32_t rice = 0;
  for (uint32_t r = 1; r <= kMaxRice; ++r) {
    if (rice_bits[r] < rice_bits[rice]) rice = r;
  }
  // Offsets are u32.
  const size_t rice_bytes = OffsetBytes(chunks.size()) + (rice_bits[rice] + 7) / 8;
  if (rice_bits[rice] <= UINT32_MAX && rice_bytes < best.bytes) {
    best = {IndexCoding::kRice, rice, rice_bytes};
  }
  if (const size_t bytes = BitmapBytes(chunks); bytes < best.bytes) {
    best = {IndexCoding::kBitmap, 0, bytes};
  }
  return best;
}

void WriteIndices(const IndexPlan& plan, std::span<const ChunkShape> chunks, size_t chunk,
                  std::span<const uint32_t> indices, std::span<std::byte> out) {
  std::memset(out.data(), 0, plan.bytes);
  const size_t table = plan.coding == IndexCoding::kRice ? OffsetBytes(chunks.size()) : 0;
  BitWriter bits(out.data() + table);
  size_t at = 0;
  for (size_t j = 0; j < chunks.size(); ++j) {
    if (table != 0 && j % kChunksPerOffset == 0) {
      const auto offset = static_cast<uint32_t>(bits.at());
      std::memcpy(out.data() + 4 * (j / kChunksPerOffset), &offset, 4);
    }
    uint32_t next = 0;
    for (size_t i = 0; i < chunks[j].kept; ++i, ++at) {
      const uint32_t index = indices[at], gap = index - next;
      if (plan.coding == IndexCoding::kFixed) bits.Put(index, FixedBits(chunk));
      if (plan.coding == IndexCoding::kRice) {
        bits.Ones(gap >> plan.rice);
        bits.Put(0, 1);
        bits.Put(gap & ((1u << plan.rice) - 1), static_cast<int>(plan.rice));
      }
      if (plan.coding == IndexCoding::kBitmap) {
        for (uint32_t g = 0; g < gap; ++g) bits.Put(0, 1);
        bits.Put(1, 1);
      }
      next = index + 1;
    }
    if (plan.coding == IndexCoding::kBitmap) {
      for (size_t i = next; i < chunks[j].length; ++i) bits.Put(0, 1);
    }
  }
}

bool ReadIndices(IndexCoding coding, uint32_t rice, std::span<const ChunkShape> chunks,
                 size_t chunk, std::span<const std::byte> in, std::span<uint32_t> indices) {
  switch (coding) {
    case IndexCoding::kFixed:
      return ReadFixed(chunk, chunks, in, indices);
    case IndexCoding::kRice:
      return ReadRice(rice, chunks, in, indices);
    case IndexCoding::kBitmap:
      return ReadBitmap(chunks, in, indices);
  }
  return false;
}

}  // namespace longhaul
