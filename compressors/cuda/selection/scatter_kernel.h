#pragma once

#include "compressors/cuda/selection/selection_launch.h"
#include "compressors/cuda/team/elements.h"

namespace longhaul {

// A tensor in pieces of neighbouring elements, for the kernel to which it does not matter where a
// chunk ends. A piece is several whole chunks, or a part of one chunk if that is longer.

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

// Kept values -> x, zeros between them. A team makes its piece in shared memory and stores it
// whole.
template <DType kType>
struct ScatterKernel {
  static constexpr int kThreads = kPieceThreads;
  static constexpr uint32_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  static constexpr uint32_t kQuads = 1024;
  static constexpr uint32_t kQuadElements = 16 / kElementBytes;
  static constexpr uint32_t kPiece = kQuads * kQuadElements;
  struct Made {
    Quad quad[kQuads];
  };

  SelectionRun run;
  PieceGrid grid{run, kPiece};

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * grid.row_pieces; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Piece piece(run, grid, team.index());
    typename Team::template Shared<Made> made;
    team.Phase([&](int t) {
      LONGHAUL_UNROLL
      for (int i = 0; i < static_cast<int>(kQuads) / kThreads; ++i) {
        made->quad[i * kThreads + t] = Quad{};
      }
    });
    PutSent(team, piece, made);
    team.Phase([&](int t) {
      Store<Team>(t, reinterpret_cast<const std::byte*>(made->quad), piece.end - piece.begin,
                  run.x + (piece.first + piece.begin) * kElementBytes);
    });
  }

  // All kept values of the piece's chunks are looked at; those in another piece of a chunk that
  // has several are not for this team.
  template <class Team, class Memory>
  LONGHAUL_TEXT void PutSent(Team& team, const Piece& piece, Memory& made) const {
    const uint16_t* indices = run.indices + piece.kept_at;
    const float* values = run.values + piece.kept_at;
    const uint32_t count = piece.chunks * piece.kept;
    team.Phase([&](int t) {
      for (auto i = static_cast<uint32_t>(t); i < count; i += kThreads) {
        const uint32_t chunk = piece.chunks == 1 ? 0 : i / piece.kept;
        Put<Team>(piece, chunk * piece.length + indices[i], values[i], made);
      }
    });
  }

  template <class Team, class Memory>
  LONGHAUL_TEXT static void Put(const Piece& piece, uint32_t index, float value, Memory& made) {
    const uint32_t at = index - piece.begin;  // below begin: a large number
    if (at >= piece.end - piece.begin) return;
    std::byte* p = reinterpret_cast<std::byte*>(made->quad) + at * kElementBytes;
    if constexpr (kType == DType::kF32) {
      Team::Store(value, p);
    } else {
      Team::Store(kType == DType::kBF16 ? F32ToBf16Clamped(value) : F32ToF16Clamped(value), p);
    }
  }

  template <class Team>
  LONGHAUL_TEXT static void Store(int t, const std::byte* made, uint32_t elements, std::byte* x) {
    const auto thread = static_cast<uint32_t>(t);
    uint32_t done = 0;
    if (Aligned(x, 16)) {
      const uint32_t quads = elements / kQuadElements;
      LONGHAUL_UNROLL
      for (uint32_t q = thread; q < kQuads; q += kThreads) {
        if (q < quads) Team::Store16(Team::template Load<Quad>(made + 16 * q), x + 16 * q);
      }
      done = quads * kQuadElements;
    }
    for (uint32_t i = done + thread; i < elements; i += kThreads) {
      const std::byte* from = made + i * kElementBytes;
      if constexpr (kType == DType::kF32) {
        Team::Store(Team::template Load<uint32_t>(from), x + i * kElementBytes);
      } else {
        Team::Store(Team::template Load<uint16_t>(from), x + i * kElementBytes);
      }
    }
  }
};

}  // namespace longhaul
