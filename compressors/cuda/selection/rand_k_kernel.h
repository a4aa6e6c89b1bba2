#pragma once

#include "compressors/cuda/selection/selection_keys.h"
#include "compressors/cuda/selection/selection_pieces.h"
#include "compressors/cuda/team/philox.h"

namespace longhaul {

// The draws of four windows, as Philox gives them.
struct FourDraws {
  int first;                       // window; below zero where the four begins in an earlier chunk
  uint32_t inside;                 // bit j: window j is one of those asked for
  uint32_t element[4], length[4];  // chosen, from the piece's first chunk on; of the window
};

// The windows of a piece's chunks, numbered from those of its first chunk on: window w begins at
// floor(w length / kept), in whichever of the chunks it is. The seed chooses an element of each.
struct PieceDraws {
  LONGHAUL_TEXT explicit PieceDraws(const Piece& piece)
      : piece(piece),
        first(WindowsUpTo(piece, piece.begin)),
        last(WindowsUpTo(piece, piece.end)),
        rest(piece.length - piece.step * piece.kept),
        skew(static_cast<uint32_t>(piece.draws_at % 4)) {}

  // Windows that begin before `at`, or one less.
  LONGHAUL_TEXT static uint32_t WindowsUpTo(const Piece& piece, uint32_t at) {
    if (at == 0) return 0;
    if (at == piece.chunks * piece.length) return piece.chunks * piece.kept;
    return at * piece.kept / piece.length;  // pieces are such that this stays below 2^32
  }

  // How many fours have windows first .. end - 1.
  LONGHAUL_TEXT uint32_t Fours(uint32_t end) const {
    return (skew + end + 3) / 4 - (skew + first) / 4;
  }

  // Their numbers from the first chunk's draws on; the number of a four's first window.
  LONGHAUL_TEXT uint32_t InChunks(uint32_t four) const { return (skew + first) / 4 + four; }
  LONGHAUL_TEXT int FirstOf(uint32_t four) const {
    return static_cast<int>(4 * InChunks(four)) - static_cast<int>(skew);
  }
  // Whether all four windows are among first .. end - 1.
  LONGHAUL_TEXT bool AllInside(uint32_t four, uint32_t end) const {
    const int from = FirstOf(four);
    return from >= static_cast<int>(first) && from + 4 <= static_cast<int>(end);
  }

  // kAll: they are, which is nearly always so.
  template <bool kAll>
  LONGHAUL_TEXT FourDraws Four(uint64_t seed, uint32_t four, uint32_t end) const {
    const NoiseWords words = NoiseQuad(seed, 1, piece.draws_at / 4 + InChunks(four));
    FourDraws draws;
    draws.first = FirstOf(four);
    draws.inside = kAll ? 0xF : 0;
    const bool early = !kAll && draws.first < 0;
    const uint32_t product = (early ? 0 : static_cast<uint32_t>(draws.first)) * piece.length;
    uint32_t start = product / piece.kept, over = product - start * piece.kept;
    LONGHAUL_UNROLL
    for (int j = 0; j < 4; ++j) {
      const bool begun = kAll || draws.first + j >= 0;
      const uint32_t with_rest = over + rest;
      const bool longer = with_rest >= piece.kept;
      const uint32_t length = piece.step + (longer ? 1 : 0);
      draws.element[j] = start + static_cast<uint32_t>(WideProduct(words.word[j], length) >> 32);
      draws.length[j] = length;
      if constexpr (!kAll) {
        const auto window = static_cast<uint32_t>(draws.first + j);  // below zero: a large number
        draws.inside |= window >= first && window < end ? 1u << j : 0u;
      }
      start += begun ? length : 0;
      if (begun) over = longer ? with_rest - piece.kept : with_rest;
    }
    return draws;
  }

  Piece piece;
  uint32_t first, last;  // windows; the last one's successor may be looked at too
  uint32_t rest;         // what `step` leaves of a chunk
  uint32_t skew;         // draws of the first four that are of an earlier chunk
};

// The element of each of k windows [w C / k, (w + 1) C / k) that the seed chooses; all elements
// are looked at, to refuse NaN and Inf anywhere. A team reads its piece, and finds what is chosen
// in the caches.
template <DType kType>
struct RandKKernel {
  static constexpr int kThreads = kPieceThreads;
  static constexpr int kStrips = 4;  // loaded together
  static constexpr uint32_t kPiece = kStrips * kThreads * kPerThread;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  struct Strips {
    RawEight<kType> raw[kStrips];
  };

  SelectionRun run;
  PieceGrid grid{run, kPiece};

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * grid.row_pieces; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const Piece piece(run, grid, team.index());
    const std::byte* x = run.x + piece.first * kElementBytes;
    if (piece.end - piece.begin == kPiece && Aligned(x + piece.begin * kElementBytes, 16)) {
      Work<true>(team, piece, x);
    } else {
      Work<false>(team, piece, x);
    }
  }

  template <bool kWhole, class Team>
  LONGHAUL_TEXT void Work(Team& team, const Piece& piece, const std::byte* x) const {
    const PieceDraws draws(piece);
    const uint32_t fours = draws.Fours(draws.last);
    team.Each([&](int t) {
      Strips strips;  // on their way while numbers are drawn
      Load<kWhole, Team>(x, piece, t, strips);
      for (auto four = static_cast<uint32_t>(t); four < fours; four += kThreads) {
        if (draws.AllInside(four, draws.last)) {
          Pick<true, Team>(draws, four, x);
        } else {
          Pick<false, Team>(draws, four, x);
        }
      }
      if (Top(strips) >= kInfMagnitude<kType>) Team::Min(&run.report->fault, 0);
    });
  }

  template <bool kAll, class Team>
  LONGHAUL_TEXT void Pick(const PieceDraws& draws, uint32_t four, const std::byte* x) const {
    const FourDraws drawn = draws.template Four<kAll>(run.seed, four, draws.last);
    float values[4];
    LONGHAUL_UNROLL
    for (int j = 0; j < 4; ++j) {
      const bool inside = (drawn.inside >> j & 1) != 0;
      const uint32_t at = inside ? drawn.element[j] : draws.piece.begin;
      values[j] = LoadOne<Team, kType>(x + at * kElementBytes);
    }
    Quad words;
    LONGHAUL_UNROLL
    for (int j = 0; j < 4; ++j) {
      const float gain = run.unbiased ? static_cast<float>(drawn.length[j]) : 1.0f;
      words.word[j] = BitsOf(gain * values[j]);
    }
    auto* p = reinterpret_cast<std::byte*>(run.values + draws.piece.kept_at + drawn.first);
    if (kAll && Aligned(p, 16)) {
      Team::Store16(words, p);
      return;
    }
    LONGHAUL_UNROLL
    for (int j = 0; j < 4; ++j) {
      if ((drawn.inside >> j & 1) != 0) Team::Store(words.word[j], p + 4 * j);
    }
  }

  template <bool kWhole, class Team>
  LONGHAUL_TEXT static void Load(const std::byte* x, const Piece& piece, int t, Strips& strips) {
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      const uint32_t at = piece.begin + static_cast<uint32_t>((i * kThreads + t) * kPerThread);
      const std::byte* p = x + at * kElementBytes;
      const int count = CountBelow(at, piece.end);
      if (kWhole || (count == kPerThread && Aligned(p, 16))) {
        LoadEight<Team, kType>(p, strips.raw[i]);
      } else {
        LoadSome<Team, kType>(p, count, strips.raw[i]);
      }
    }
  }

  LONGHAUL_TEXT static uint32_t Top(const Strips& strips) {
    uint32_t top = 0;
    LONGHAUL_UNROLL
    for (int i = 0; i < kStrips; ++i) {
      const uint32_t here = LargestMagnitude<kType>(strips.raw[i]);
      top = here > top ? here : top;
    }
    return top;
  }
};

}  // namespace longhaul
