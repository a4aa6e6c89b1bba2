#pragma once

#include <algorithm>
#include <cstddef>

#include "compressors/tensor.h"

namespace longhaul {

// How a tensor falls into chunks of C elements along each row, with k kept of each; a row's short
// chunk of c keeps max(1, (2kc + C) / (2C)). Chunks are counted in row order. A plain value, so
// that nothing is allocated for a shape.
struct ChunkGrid {
  ChunkGrid(Shape shape, size_t chunk, size_t kept)
      : rows(shape.rows),
        full(shape.cols / chunk),
        chunk(chunk),
        kept(kept),
        tail(shape.cols % chunk),
        tail_kept(tail == 0 ? 0 : std::max<size_t>(1, (2 * kept * tail + chunk) / (2 * chunk))) {}

  size_t row_chunks() const { return full + (tail != 0); }
  size_t chunks() const { return rows * row_chunks(); }
  size_t elements() const { return rows * (full * chunk + tail); }
  size_t total_kept() const { return rows * (full * kept + tail_kept); }

  // One chunk: where it begins in the tensor and in the list of what is kept.
  struct Chunk {
    size_t first, length;
    size_t kept_at, kept;
  };
  Chunk at(size_t number) const {
    const size_t r = number / row_chunks(), j = number % row_chunks();
    return {r * (full * chunk + tail) + j * chunk, j < full ? chunk : tail,
            r * (full * kept + tail_kept) + j * kept, j < full ? kept : tail_kept};
  }

  // Calls visit(length, kept) for every chunk in order until one answers false.
  template <typename Visit>
  bool ForEach(Visit visit) const {
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < full; ++j) {
        if (!visit(chunk, kept)) return false;
      }
      if (tail != 0 && !visit(tail, tail_kept)) return false;
    }
    return true;
  }

  size_t rows, full, chunk, kept, tail, tail_kept;
};

}  // namespace longhaul
