#pragma once

#include <array>

#include "compressors/cuda/team/device.h"

namespace longhaul {

// A tensor in chunks (chunk_grid.h) and what is kept of it, in device memory.
struct SelectionRun {
  std::byte* x;  // [rows, cols]
  uint64_t rows, cols;
  uint64_t row_chunks, row_kept;  // per row, its short chunk included
  uint32_t chunk, kept;           // C, k
  uint32_t tail_kept;             // of a row's short chunk
  uint16_t* indices;              // [rows][row_kept], each relative to its chunk
  float* values;                  // [rows][row_kept]
  DeviceReport* report;
};
using SelectionLaunch = int (*)(const SelectionRun&, CudaStream);
using SelectionRow = std::array<SelectionLaunch, 3>;  // by dtype
struct SelectionLaunchers {
  // x -> indices, sorted within their chunks, and values. One read of x for chunks of up to 4096;
  // of longer ones one for every count.
  SelectionRow top_k;
  // values -> x by `indices`, zeros elsewhere.
  SelectionRow scatter;
};

}  // namespace longhaul
