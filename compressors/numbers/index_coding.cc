#include "compressors/numbers/index_coding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>

#include "compressors/numbers/bit_stream.h"
#include "compressors/numbers/small_floats.h"

namespace longhaul {
namespace {

constexpr size_t kChunksPerOffset = 16;
constexpr uint32_t kMaxRice = 15;

int FixedBits(const ChunkGrid& grid) { return static_cast<int>(std::bit_width(grid.chunk - 1)); }

size_t OffsetBytes(const ChunkGrid& grid) {
  return 4 * ((grid.chunks() + kChunksPerOffset - 1) / kChunksPerOffset);
}

void WriteFixed(const ChunkGrid& grid, std::span<const uint32_t> indices, std::byte* out) {
  BitWriter bits(out);
  for (uint32_t index : indices) bits.Put(index, FixedBits(grid));
  bits.Finish();
}

// A gap's code: ones, a zero, and the low bits. Only of fewer than 16 ones.
struct RiceCode {
  RiceCode(uint32_t gap, uint32_t rice)
      : ones(gap >> rice),
        bits(ones + 1 + rice),
        value(((uint64_t{1} << (ones & 31)) - 1) | uint64_t{gap & ((uint32_t{1} << rice) - 1)}
                                                       << ((ones + 1) & 31)) {}
  bool is_short() const { return ones < 16; }
  uint32_t ones, bits;
  uint64_t value;
};

LONGHAUL_INLINE void PutRice(uint32_t gap, uint32_t rice, BitWriter& bits) {
  const RiceCode code(gap, rice);
  if (code.is_short()) {
    bits.Put(static_cast<uint32_t>(code.value), static_cast<int>(code.bits));
  } else {
    bits.Ones(code.ones);
    bits.Put((gap & ((uint32_t{1} << rice) - 1)) << 1, static_cast<int>(rice) + 1);
  }
}

// The codes of one chunk's indices, four at once. room: bytes that the writer may fill in all.
LONGHAUL_INLINE void PutChunk(std::span<const uint32_t> indices, uint32_t rice, size_t room,
                              BitWriter& writer) {
  BitWriter bits = writer;  // in registers
  uint32_t next = 0;        // the smallest index that may come
  size_t i = 0;
  for (; i + 4 <= indices.size() && bits.bytes() + 8 <= room; i += 4) {
    const uint32_t* index = indices.data() + i;
    const RiceCode a(index[0] - next, rice), b(index[1] - index[0] - 1, rice),
        c(index[2] - index[1] - 1, rice), d(index[3] - index[2] - 1, rice);
    const uint32_t ab = a.bits + b.bits, cd = c.bits + d.bits;
    const bool are_short = (a.ones | b.ones | c.ones | d.ones) < 16;
    if (are_short && bits.fits_wide(ab + cd)) {
      bits.PutWide(a.value | b.value << a.bits | (c.value | d.value << c.bits) << ab, ab + cd);
    } else {
      for (int j = 0; j < 4; ++j) {
        PutRice(index[j] - next, rice, bits);
        next = index[j] + 1;
      }
    }
    next = index[3] + 1;
  }
  for (; i < indices.size(); ++i) {
    PutRice(indices[i] - next, rice, bits);
    next = indices[i] + 1;
  }
  writer = bits;
}

using PutChunkFunction = void (*)(std::span<const uint32_t>, uint32_t, size_t, BitWriter&);
void PutChunkAnywhere(std::span<const uint32_t> indices, uint32_t rice, size_t room,
                      BitWriter& bits) {
  PutChunk(indices, rice, room, bits);
}
#if defined(__x86_64__)
// Shifts by any register, of which a code has nine: a quarter faster.
[[gnu::target("bmi,bmi2")]] void PutChunkBmi2(std::span<const uint32_t> indices, uint32_t rice,
                                              size_t room, BitWriter& bits) {
  PutChunk(indices, rice, room, bits);
}
PutChunkFunction ChoosePutChunk() {
  return __builtin_cpu_supports("bmi2") ? PutChunkBmi2 : PutChunkAnywhere;
}
#else
PutChunkFunction ChoosePutChunk() { return PutChunkAnywhere; }
#endif

void WriteRice(const IndexPlan& plan, const ChunkGrid& grid, std::span<const uint32_t> indices,
               std::byte* out) {
  static const PutChunkFunction put_chunk = ChoosePutChunk();
  const size_t table = OffsetBytes(grid);
  BitWriter bits(out + table);
  size_t at = 0, chunk = 0;
  grid.ForEach([&](size_t, size_t kept) {
    if (chunk % kChunksPerOffset == 0) {
      const auto offset = static_cast<uint32_t>(bits.at());
      std::memcpy(out + 4 * (chunk / kChunksPerOffset), &offset, 4);
    }
    ++chunk;
    put_chunk(indices.subspan(at, kept), plan.rice, plan.bytes - table, bits);
    at += kept;
    return true;
  });
  bits.Finish();
}

void WriteBitmap(const ChunkGrid& grid, std::span<const uint32_t> indices, std::byte* out) {
  BitWriter bits(out);
  size_t at = 0;
  grid.ForEach([&](size_t length, size_t kept) {
    uint32_t next = 0;
    for (size_t i = 0; i < kept; ++i, ++at) {
      bits.Zeros(indices[at] - next);
      bits.Put(1, 1);
      next = indices[at] + 1;
    }
    bits.Zeros(static_cast<uint32_t>(length) - next);
    return true;
  });
  bits.Finish();
}

bool ReadFixed(const ChunkGrid& grid, std::span<const std::byte> in, std::span<uint32_t> indices) {
  BitReader bits(in);
  size_t at = 0;
  const bool good = grid.ForEach([&](size_t length, size_t kept) {
    uint32_t next = 0;
    for (size_t i = 0; i < kept; ++i) {
      uint32_t index;
      if (!bits.Get(FixedBits(grid), index) || index < next || index >= length) return false;
      next = index + 1;
      indices[at++] = index;
    }
    return true;
  });
  return good && bits.AtEnd();
}

bool ReadRice(uint32_t rice, const ChunkGrid& grid, std::span<const std::byte> in,
              std::span<uint32_t> indices) {
  const size_t table = OffsetBytes(grid);
  if (rice > kMaxRice || in.size() < table) return false;
  BitReader bits(in.subspan(table));
  size_t at = 0, chunk = 0;
  const bool good = grid.ForEach([&](size_t length, size_t kept) {
    if (chunk % kChunksPerOffset == 0) {
      uint32_t offset;
      std::memcpy(&offset, in.data() + 4 * (chunk / kChunksPerOffset), 4);
      if (offset != bits.at()) return false;
    }
    ++chunk;
    uint64_t next = 0;
    for (size_t i = 0; i < kept; ++i) {
      uint64_t high;
      uint32_t low;
      if (!bits.Unary(length >> rice, high) || !bits.Get(static_cast<int>(rice), low)) return false;
      next += (high << rice) + low;
      if (next >= length) return false;
      indices[at++] = static_cast<uint32_t>(next++);
    }
    return true;
  });
  return good && bits.AtEnd();
}

bool ReadBitmap(const ChunkGrid& grid, std::span<const std::byte> in, std::span<uint32_t> indices) {
  if (in.size() != (grid.elements() + 7) / 8) return false;
  BitReader bits(in);
  size_t at = 0;
  const bool good = grid.ForEach([&](size_t length, size_t kept) {
    size_t found = 0;
    for (size_t first = 0; first < length; first += 32) {
      uint32_t word;
      const size_t c = length - first < 32 ? length - first : 32;
      if (!bits.Get(static_cast<int>(c), word)) return false;
      for (; word != 0; word &= word - 1) {
        if (found++ == kept) return false;
        indices[at++] =
            static_cast<uint32_t>(first) + static_cast<uint32_t>(std::countr_zero(word));
      }
    }
    return found == kept;
  });
  return good && bits.AtEnd();
}

// The bits that Rice coding takes with r = first, first + 1, ...: one pass over the gaps.
constexpr uint32_t kRiceWindow = 4;
using RiceBits = std::array<uint64_t, kRiceWindow>;
// Adds every gap of a chunk, which keeps one element at least, shifted by first, first + 1, ...
void AddShifted(std::span<const uint32_t> indices, uint32_t first, RiceBits& bits) {
  using Four [[gnu::vector_size(16)]] = uint32_t;  // compilers of -O2 make none of loops like these
  const auto load = [](const uint32_t* p) {
    Four four;
    std::memcpy(&four, p, sizeof(four));
    return four;
  };
  Four sums[kRiceWindow] = {};  // a chunk's gaps add up to less than 2^16
  size_t i = 1;
  for (; i + 4 <= indices.size(); i += 4) {
    const Four gaps = load(&indices[i]) - load(&indices[i - 1]) - 1;
    for (uint32_t w = 0; w < kRiceWindow; ++w) sums[w] += gaps >> (first + w);
  }
  for (uint32_t w = 0; w < kRiceWindow; ++w) {
    uint64_t sum = uint64_t{sums[w][0]} + sums[w][1] + sums[w][2] + sums[w][3];
    sum += indices[0] >> (first + w);
    for (size_t j = i; j < indices.size(); ++j) {
      sum += (indices[j] - indices[j - 1] - 1) >> (first + w);
    }
    bits[w] += sum;
  }
}

RiceBits BitsOfRice(const ChunkGrid& grid, std::span<const uint32_t> indices, uint32_t first) {
  RiceBits bits;
  for (uint32_t w = 0; w < kRiceWindow; ++w) bits[w] = uint64_t{1 + first + w} * indices.size();
  size_t at = 0;
  grid.ForEach([&](size_t, size_t kept) {
    AddShifted(indices.subspan(at, kept), first, bits);
    at += kept;
    return true;
  });
  return bits;
}

// The r that takes least, the lowest on ties, and its bits. Going from r to r + 1 costs a bit and
// saves ceil((gap >> r) / 2) bits for every gap, which only falls with r: bits that are least
// inside a window are least of all. The search begins where the mean gap suggests.
struct RiceChoice {
  uint32_t rice;
  uint64_t bits;
};
RiceChoice BestRice(const ChunkGrid& grid, std::span<const uint32_t> indices) {
  constexpr uint32_t kLastFirst = kMaxRice + 1 - kRiceWindow;
  const size_t gap = grid.elements() / (indices.size() + 1);
  const auto guess = static_cast<uint32_t>(std::bit_width(gap));
  uint32_t first = std::min(guess < 3 ? 0 : guess - 3, kLastFirst);
  for (;;) {
    const RiceBits bits = BitsOfRice(grid, indices, first);
    uint32_t least = 0;
    for (uint32_t w = 1; w < kRiceWindow; ++w) least = bits[w] < bits[least] ? w : least;
    if (least == 0 && first > 0) {
      first -= std::min(first, kRiceWindow - 2);
    } else if (least == kRiceWindow - 1 && first < kLastFirst) {
      first = std::min(first + kRiceWindow - 2, kLastFirst);
    } else {
      return {first + least, bits[least]};
    }
  }
}

}  // namespace

IndexPlan PlanIndices(const ChunkGrid& grid, std::span<const uint32_t> indices) {
  IndexPlan best = {IndexCoding::kFixed, 0,
                    (indices.size() * static_cast<size_t>(FixedBits(grid)) + 7) / 8};
  const auto [rice, rice_bits] = BestRice(grid, indices);
  const size_t rice_bytes = OffsetBytes(grid) + (rice_bits + 7) / 8;
  if (rice_bits <= UINT32_MAX && rice_bytes < best.bytes) {  // offsets are u32
    best = {IndexCoding::kRice, rice, rice_bytes};
  }
  if (const size_t bytes = (grid.elements() + 7) / 8; bytes < best.bytes) {
    best = {IndexCoding::kBitmap, 0, bytes};
  }
  return best;
}

void WriteIndices(const IndexPlan& plan, const ChunkGrid& grid, std::span<const uint32_t> indices,
                  std::byte* out) {
  switch (plan.coding) {
    case IndexCoding::kFixed:
      return WriteFixed(grid, indices, out);
    case IndexCoding::kRice:
      return WriteRice(plan, grid, indices, out);
    case IndexCoding::kBitmap:
      return WriteBitmap(grid, indices, out);
  }
}

bool ReadIndices(IndexCoding coding, uint32_t rice, const ChunkGrid& grid,
                 std::span<const std::byte> in, std::span<uint32_t> indices) {
  switch (coding) {
    case IndexCoding::kFixed:
      return ReadFixed(grid, in, indices);
    case IndexCoding::kRice:
      return ReadRice(rice, grid, in, indices);
    case IndexCoding::kBitmap:
      return ReadBitmap(grid, in, indices);
  }
  return false;
}

}  // namespace longhaul
