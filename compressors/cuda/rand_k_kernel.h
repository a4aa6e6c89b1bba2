#pragma once

#include "compressors/cuda/philox.h"
#include "compressors/cuda/top_k_kernel.h"

namespace longhaul {

// One thread per kept element. Which chunk it belongs to follows from its number.
struct KeptPlace {
  LONGHAUL_TEXT KeptPlace(const SelectionRun& run, uint64_t kept) {
    const uint64_t row = kept / run.row_kept, in_row = kept - row * run.row_kept;
    const uint64_t full = run.cols / run.chunk * run.kept;  // kept of the row's full chunks
    const uint64_t in_chunks = in_row < full ? in_row / run.kept : run.cols / run.chunk;
    chunk = row * run.row_chunks + in_chunks;
    window = static_cast<uint32_t>(in_row - in_chunks * run.kept);
  }
  uint64_t chunk;
  uint32_t window;  // its number within the chunk
};

// The element of a window that the seed chooses, and the window's length.
struct WindowDraw {
  LONGHAUL_TEXT WindowDraw(const SelectionRun& run, const KeptPlace& at, const ChunkPlace& chunk) {
    const uint64_t start = uint64_t{at.window} * chunk.length / chunk.kept;
    const uint64_t end = (uint64_t{at.window} + 1) * chunk.length / chunk.kept;
    const uint64_t draw = at.chunk * run.kept + at.window;
    const uint32_t word = Choose(NoiseQuad(run.seed, 1, draw / 4), static_cast<int>(draw % 4));
    length = static_cast<uint32_t>(end - start);
    index = start + (word * (end - start) >> 32);
  }
  uint64_t index;  // within the chunk
  uint32_t length;
};

// The element of each of k windows [w C / k, (w + 1) C / k) that the seed chooses.
template <DType kType>
struct RandKKernel {
  static constexpr int kThreads = kWarp;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  SelectionRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const {
    return (run.rows * run.row_kept + kWarp - 1) / kWarp;
  }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    team.Each([&](int t) {
      const uint64_t kept = team.index() * kWarp + static_cast<uint64_t>(t);
      if (kept == 0 && *run.top >= kInfBits) Team::Min(&run.report->fault, 0);
      if (kept >= run.rows * run.row_kept) return;
      const KeptPlace at(run, kept);
      const ChunkPlace chunk(run, at.chunk);
      const WindowDraw draw(run, at, chunk);
      const float gain = run.unbiased ? static_cast<float>(draw.length) : 1.0f;
      run.values[kept] =
          gain * LoadOne<Team, kType>(run.x + (chunk.first + draw.index) * kElementBytes);
    });
  }
};

enum class Indices : uint8_t { kSent, kDrawn };

// Kept values -> their places in x.
template <Indices kIndices, DType kType>
struct ScatterKernel {
  static constexpr int kThreads = kWarp;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;

  SelectionRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const {
    return (run.rows * run.row_kept + kWarp - 1) / kWarp;
  }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    team.Each([&](int t) {
      const uint64_t kept = team.index() * kWarp + static_cast<uint64_t>(t);
      if (kept >= run.rows * run.row_kept) return;
      const KeptPlace place(run, kept);
      const ChunkPlace chunk(run, place.chunk);
      uint64_t index = 0;
      if constexpr (kIndices == Indices::kSent) {
        index = run.indices[kept];
      } else {
        index = WindowDraw(run, place, chunk).index;
      }
      std::byte* at = run.x + (chunk.first + index) * kElementBytes;
      const float value = run.values[kept];
      if constexpr (kType == DType::kF32) {
        Team::Store(value, at);
      } else {
        Team::Store(kType == DType::kBF16 ? F32ToBf16Clamped(value) : F32ToF16Clamped(value), at);
      }
    });
  }
};

}  // namespace longhaul
