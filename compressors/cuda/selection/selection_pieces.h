#pragma once

#include "compressors/cuda/selection/selection_launch.h"
#include "compressors/cuda/team/elements.h"

// A tensor in pieces of neighbouring elements, for the kernel to which it does not matter where a
// chunk ends. A piece is several whole chunks, or a part of one chunk if that is longer.
namespace longhaul {

constexpr int kPieceThreads = 128;

// Without short chunks the rows do not matter either: the tensor is one row.
inline SelectionRun InOneRow(SelectionRun run) {
  if (run.cols % run.chunk != 0) return run;
  run.row_chunks *= run.rows;
  run.row_kept *= run.rows;
  run.cols *= run.rows;
  run.rows = 1;
  return run;
}

struct PieceGrid {
  PieceGrid(const SelectionRun& run, uint32_t piece) : elements(piece) {
    full = run.cols / run.chunk;
    tail = static_cast<uint32_t>(run.cols % run.chunk);
    chunks = run.chunk <= piece ? piece / run.chunk : 1;
    chunk_pieces = (run.chunk + piece - 1) / piece;
    full_pieces = (full * chunk_pieces + chunks - 1) / chunks;
    row_pieces = full_pieces + (uint64_t{tail} + piece - 1) / piece;
  }
  uint64_t full;                     // chunks of a row
  uint32_t tail;                     // elements of its short one
  uint32_t elements;                 // of a piece, at most
  uint32_t chunks, chunk_pieces;     // chunks of a piece, pieces of a chunk; one of them is 1
  uint64_t full_pieces, row_pieces;  // of a row's full chunks; and of its short one
};

struct Piece {
  LONGHAUL_TEXT Piece(const SelectionRun& run, const PieceGrid& grid, uint64_t number) {
    const uint64_t row = run.rows == 1 ? 0 : number / grid.row_pieces;
    const uint64_t in_row = number - row * grid.row_pieces;
    uint64_t in_chunk = 0, chunk = grid.full;
    chunks = 1;
    if (in_row >= grid.full_pieces) {
      length = grid.tail;
      kept = run.tail_kept;
      in_chunk = in_row - grid.full_pieces;
    } else {
      length = run.chunk;
      kept = run.kept;
      chunk = in_row * grid.chunks;
      if (grid.chunk_pieces > 1) {
        chunk = in_row / grid.chunk_pieces;
        in_chunk = in_row - chunk * grid.chunk_pieces;
      } else {
        const uint64_t left = grid.full - chunk;
        chunks = left < grid.chunks ? static_cast<uint32_t>(left) : grid.chunks;
      }
    }
    begin = static_cast<uint32_t>(in_chunk) * grid.elements;
    const uint32_t left = chunks * length - begin;
    end = begin + (left < grid.elements ? left : grid.elements);
    first = row * run.cols + chunk * run.chunk;
    kept_at = row * run.row_kept + chunk * run.kept;
  }

  uint64_t first;         // element of its first chunk
  uint64_t kept_at;       // of its first chunk
  uint32_t chunks;        // how many
  uint32_t length, kept;  // of each
  uint32_t begin, end;    // the piece, in elements from its first chunk on
};

}  // namespace longhaul
