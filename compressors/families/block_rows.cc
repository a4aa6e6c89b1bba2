#include "compressors/families/block_rows.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "compressors/families/stochastic.h"
#include "compressors/kernels/convert.h"
#include "compressors/kernels/wide.h"
#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

// Elements between two steps; what is not worked on in place lies in buffers of kBuffered, or of
// one block where blocks are larger.
constexpr size_t kRowsPiece = 8192, kBuffered = 2048;
// Draws in one go: so long does the memory have for as many elements of the next piece.
constexpr size_t kDrawn = 256;
static_assert(kRowsPiece >= kMaxBlock);

// Of what is written past the caches, that much is decoded at a time: its stores wait for the
// memory while the next is decoded.
constexpr size_t kStreamed = 512;

size_t BufferedElements(BlockScheme scheme) {
  return std::max(kBuffered, static_cast<size_t>(scheme.block));
}

// The three sections of one slice.
struct SectionSums {
  explicit SectionSums(BlockPlace begin)
      : scales(begin.scales), zeros(begin.zeros), codes(begin.codes) {}
  // Up to `end`; codes_at: where the codes lie, in the frame or not yet.
  void Reach(const std::byte* frame, BlockPlace end, const std::byte* codes_at) {
    const auto rest = [&](const RunningSum& sum, size_t to) {
      return std::span(frame + sum.end(), to - sum.end());
    };
    scales.Add(rest(scales, end.scales));
    zeros.Add(rest(zeros, end.zeros));
    codes.Add({codes_at, end.codes - codes.end()});
  }
  void PutInto(BlockSums& sums, size_t slice) const {
    sums.part(0, slice) = scales.part();
    sums.part(1, slice) = zeros.part();
    sums.part(2, slice) = codes.part();
  }
  RunningSum scales, zeros, codes;
};

// Calls visit(slice, r, blocks) for the pieces of every slice until it answers false for one.
template <typename Visit>
bool ForEachPiece(const BlockShares& shares, BlockScheme scheme, size_t slice, Visit visit) {
  const size_t piece = kRowsPiece / static_cast<size_t>(scheme.block);
  return shares.ForEach(slice, [&](size_t r, BlockRange blocks) {
    for (size_t b = blocks.first; b < blocks.last; b += piece) {
      if (!visit(r, BlockRange{b, std::min(b + piece, blocks.last)})) return false;
    }
    return true;
  });
}

// Some blocks of one row: where they are, and whose noise they round with.
struct Blocks {
  size_t row;
  BlockRange range;
  const uint64_t* seed;
  size_t first(const BlockWork& work) const {  // element of the row
    return range.first * static_cast<size_t>(work.scheme.block);
  }
  size_t end(const BlockWork& work) const {
    return std::min(range.last * static_cast<size_t>(work.scheme.block), work.layout.cols);
  }
};

template <typename Sections>
Sections SectionsFrom(BlockScheme scheme, const Sections& at, size_t blocks) {
  return {at.scales + ScaleBytes(scheme) * blocks, at.zeros + ZeroBytes(scheme) * blocks,
          at.codes + CodeBytes(scheme) * blocks};
}

// To nearest: fp32 where it lies, everything else widened piece by piece; a short block last.
// out: where the first of the blocks goes.
BlockFault EncodeNearest(const BlockWork& work, ConstTensor x, const Blocks& blocks,
                         BlockSections out) {
  const EncodeBlocksFn encode = work.kernels.encode_blocks[SchemeIndex(work.scheme)];
  const size_t block = work.scheme.block, whole = work.layout.full * block;
  const size_t row = blocks.row * work.layout.cols, end = blocks.end(work);
  const WideReader reader(x, work.kernels);
  alignas(64) float buffer[kMaxBlock];
  const size_t most = reader.in_place() ? kRowsPiece : BufferedElements(work.scheme);
  for (size_t at = blocks.first(work); at < end;) {
    const size_t c = std::min(most, at < whole ? std::min(whole, end) - at : end - at);
    const auto* values = reinterpret_cast<const std::byte*>(reader.Peek(row + at, c, buffer));
    const BlockFault fault = at < whole ? encode(values, c / block, out)
                                        : EncodeBlockReference(work.scheme, values, c, out);
    if (fault != BlockFault::kNone) return fault;
    out = SectionsFrom(work.scheme, out, c / block);
    at += c;
  }
  return BlockFault::kNone;
}

// The same with noise. What the kernels leave is done block by block.
BlockFault EncodeStochastic(const BlockWork& work, ConstTensor x, const Blocks& blocks,
                            BlockSections out) {
  const EncodeNoisyBlocksFn encode = work.kernels.encode_noisy_blocks[SchemeIndex(work.scheme)];
  const size_t block = work.scheme.block, whole = work.layout.full * block;
  const size_t row = blocks.row * work.layout.cols, end = blocks.end(work);
  const WideReader reader(x, work.kernels);
  alignas(64) float buffer[kMaxBlock], u[kMaxBlock], flips[kBuffered];
  std::byte codes[kMaxBlock + kBlockCodeSlack];
  for (size_t at = blocks.first(work); at < end;) {
    size_t done = 0;  // blocks
    const size_t c =
        std::min(BufferedElements(work.scheme), (at < whole ? std::min(whole, end) : end) - at);
    if (encode != nullptr && at < whole && (row + at) % 4 == 0) {
      for (size_t i = 0; i < c; i += kDrawn) {
        const size_t n = std::min(kDrawn, c - i);
        reader.Prefetch(row + at + c + i, n);
        work.kernels.uniform(*blocks.seed, static_cast<uint32_t>(NoisePurpose::kRounding),
                             row + at + i, n, u + i);
      }
      const float* from = reader.Peek(row + at, c, buffer);
      if (work.scheme.grid == Grid::kE2M1 && work.scheme.rotation == Rotation::kHadamard) {
        work.kernels.uniform(*blocks.seed, static_cast<uint32_t>(NoisePurpose::kSignFlips),
                             row + at, c, flips);
        work.kernels.flip_signs(from, flips, c, buffer);
        from = buffer;
      }
      const auto* values = reinterpret_cast<const std::byte*>(from);
      done = encode(values, u, c / block, {out.scales, out.zeros, codes});
      std::memcpy(out.codes, codes, done * CodeBytes(work.scheme));
      out = SectionsFrom(work.scheme, out, done);
      at += done * block;
    }
    for (size_t left = c - done * block; left > 0;) {
      const size_t length = std::min(left, block);
      reader.Read(row + at, length, buffer);
      const BlockFault fault = EncodeBlockStochastic(work.scheme, work.kernels, *blocks.seed,
                                                     row + at, buffer, length, out);
      if (fault != BlockFault::kNone) return fault;
      out = SectionsFrom(work.scheme, out, 1);
      at += length;
      left -= length;
    }
  }
  return BlockFault::kNone;
}

// in: where the first of the blocks lies. Straight into x, or where that is not fp32 or is written
// past the caches, through a buffer.
bool Decode(const BlockWork& work, ConstBlockSections in, const Blocks& blocks, bool stream,
            Tensor x) {
  const DecodeBlocksFn decode = work.kernels.decode_blocks[SchemeIndex(work.scheme)];
  const ConvertFn narrow = work.kernels.Converter(DType::kF32, x.dtype);
  const size_t block = work.scheme.block, whole = work.layout.full * block;
  const size_t end = blocks.end(work), bytes = BytesPerElement(x.dtype);
  std::byte* const row = static_cast<std::byte*>(x.values) + blocks.row * work.layout.cols * bytes;
  const bool straight = x.dtype == DType::kF32 && blocks.seed == nullptr && !stream;
  const size_t most = straight ? kRowsPiece
                      : stream ? std::max(kStreamed, block)
                               : BufferedElements(work.scheme);
  alignas(64) float buffer[kMaxBlock];
  for (size_t at = blocks.first(work); at < end;) {
    const size_t c = std::min(most, at < whole ? std::min(whole, end) - at : end - at);
    std::byte* const values = straight ? row + at * bytes : reinterpret_cast<std::byte*>(buffer);
    const bool good = at < whole ? decode(in, c / block, values)
                                 : DecodeBlockReference(work.scheme, in, c, values);
    if (!good) return false;
    if (blocks.seed != nullptr) {
      FinishStochasticDecode(work.scheme, work.kernels, *blocks.seed,
                             blocks.row * work.layout.cols + at, buffer, c);
    }
    if (stream) {
      work.kernels.stream(values, 4 * c, row + at * bytes);
    } else if (!straight) {
      narrow(values, c, row + at * bytes);
    }
    in = SectionsFrom(work.scheme, in, c / block);
    at += c;
  }
  return true;
}

}  // namespace

BlockFault EncodeBlockRows(const BlockWork& work, ConstTensor x, const uint64_t* seed,
                           std::byte* frame, BlockSums& sums) {
  const BlockLayout& l = work.layout;
  const bool sum = l.frame_bytes >= kSumInPieces, stream = l.frame_bytes >= kStreamedBytes;
  const BlockShares shares(l, work.scheme);
  return FirstAnswer(shares.slices, [&](size_t slice) {
    BlockFault fault = BlockFault::kNone;
    std::optional<SectionSums> running;
    alignas(64) std::byte staged[kRowsPiece];
    ForEachPiece(shares, work.scheme, slice, [&](size_t r, BlockRange range) {
      const BlockPlace at = l.At(work.scheme, r, range.first);
      const BlockPlace end = l.At(work.scheme, r, range.last);
      const BlockSections out = {frame + at.scales, frame + at.zeros,
                                 stream ? staged : frame + at.codes};
      const Blocks blocks = {r, range, seed};
      fault = seed == nullptr ? EncodeNearest(work, x, blocks, out)
                              : EncodeStochastic(work, x, blocks, out);
      if (fault != BlockFault::kNone) return false;
      if (!running) running.emplace(at);
      if (sum) running->Reach(frame, end, out.codes);
      if (stream) {
        work.kernels.stream(staged, end.codes - at.codes, frame + at.codes);
      }
      return true;
    });
    if (stream) FinishStreaming();
    if (running) running->PutInto(sums, slice);
    return fault;
  });
}

bool DecodeBlockRows(const BlockWork& work, const std::byte* frame, const uint64_t* seed, Tensor x,
                     BlockSums& sums) {
  const BlockLayout& l = work.layout;
  const bool sum = l.frame_bytes >= kSumInPieces;
  const bool stream = x.dtype == DType::kF32 && 4 * x.shape.elements() >= kStreamedBytes;
  if (work.scheme.grid != Grid::kE2M1) seed = nullptr;  // integer grids decode as they are
  const BlockShares shares(l, work.scheme);
  const bool bad = FirstAnswer(shares.slices, [&](size_t slice) {
    std::optional<SectionSums> running;
    const bool good = ForEachPiece(shares, work.scheme, slice, [&](size_t r, BlockRange range) {
      const BlockPlace at = l.At(work.scheme, r, range.first);
      const BlockPlace end = l.At(work.scheme, r, range.last);
      if (!running) running.emplace(at);
      if (sum) running->Reach(frame, end, frame + at.codes);
      const ConstBlockSections in = {frame + at.scales, frame + at.zeros, frame + at.codes};
      return Decode(work, in, {r, range, seed}, stream, x);
    });
    if (stream) FinishStreaming();
    if (running) running->PutInto(sums, slice);
    return !good;
  });
  return !bad;
}

}  // namespace longhaul
