#pragma once

// Causal attention, one (row, head) at a time, everything in cache; see vec.h for how this is
// compiled. Fast because each product runs on register tiles of 4 x 16 (as a small matrix
// product), the causal half is skipped in blocks of 16, and the backward recomputes the
// probabilities from the kept log-sums (FlashAttention, Dao et al. 2022) in place of storing them.

#include "pp_group/kernels/kernels.h"
#include "pp_group/kernels/vec.h"

namespace longhaul {
namespace {

constexpr size_t kTileRows = 4, kTileCols = 16;

LONGHAUL_INLINE size_t RoundUp(size_t x, size_t to) { return (x + to - 1) / to * to; }

// acc[a][0..16) = sum over k < count of coefficient(a, k) * matrix[k][0..16), where
// coefficient(a, k) = c[a * row_stride + k * k_stride] and matrix rows are `ld` floats apart.
struct Tile {
  Vec acc[kTileRows][2];

  LONGHAUL_INLINE Tile(const float* c, size_t row_stride, size_t k_stride, const float* matrix,
                       size_t ld, size_t count) {
    Vec s[kTileRows][2] = {};
    for (size_t k = 0; k < count; ++k, c += k_stride, matrix += ld) {
      const Vec left = Load(matrix), right = Load(matrix + kVec);
      for (size_t a = 0; a < kTileRows; ++a) {
        const Vec f = Splat(c[a * row_stride]);
        s[a][0] += f * left;
        s[a][1] += f * right;
      }
    }
    for (size_t a = 0; a < kTileRows; ++a) {
      acc[a][0] = s[a][0];
      acc[a][1] = s[a][1];
    }
  }
};

// The parts of one head, zero-padded: t = T and h = head_width rounded up to 16.
struct HeadScratch {
  size_t t, h;
  float *q, *k, *k_transposed, *v, *v_transposed, *dout, *probability, *dscore;

  HeadScratch(const AttentionShape& shape, float* scratch)
      : t(RoundUp(shape.context, 16)), h(RoundUp(shape.head_width, 16)) {
    float* next = scratch;
    for (float** part : {&q, &k, &k_transposed, &v, &v_transposed, &dout}) {
      *part = next;
      next += t * h;
    }
    probability = next;
    dscore = next + t * t;
    std::memset(scratch, 0, 6 * t * h * sizeof(float));
  }
};

// out[i][0..width) (rows `out_ld` apart) = scale * in[i][0..width) (rows `in_ld` apart).
void Pack(const float* in, size_t in_ld, size_t rows, size_t width, float scale, float* out,
          size_t out_ld) {
  for (size_t i = 0; i < rows; ++i) {
    for (size_t d = 0; d < width; ++d) out[i * out_ld + d] = scale * in[i * in_ld + d];
  }
}
void PackTransposed(const float* in, size_t in_ld, size_t rows, size_t width, float* out,
                    size_t out_ld) {
  for (size_t d = 0; d < width; ++d) {
    for (size_t i = 0; i < rows; ++i) out[d * out_ld + i] = in[i * in_ld + d];
  }
}

LONGHAUL_INLINE void StoreRow(float* out, size_t width, Vec left, Vec right) {
  if (width >= kTileCols) {
    Store(out, left);
    Store(out + kVec, right);
  } else if (width > kVec) {
    Store(out, left);
    StorePart(out + kVec, width - kVec, right);
  } else {
    StorePart(out, width, left);
  }
}

// scores[4][end] of queries i0.. against keys 0..end; keys after their query become -inf.
LONGHAUL_INLINE void Scores(const HeadScratch& s, size_t i0, size_t end, float* scores) {
  for (size_t j = 0; j < end; j += kTileCols) {
    const Tile tile(s.q + i0 * s.h, s.h, 1, s.k_transposed + j, s.t, s.h);
    for (size_t a = 0; a < kTileRows; ++a) {
      Store(scores + a * s.t + j, tile.acc[a][0]);
      Store(scores + a * s.t + j + kVec, tile.acc[a][1]);
    }
  }
  for (size_t a = 0; a < kTileRows; ++a) {
    for (size_t j = i0 + a + 1; j < end; ++j) scores[a * s.t + j] = -__builtin_inff();
  }
}

// scores -> exp(scores - highest), exactly zero after the query; returns log of the sum + highest.
LONGHAUL_INLINE float Softmax(float* scores, size_t query, size_t end, float* inverse_sum) {
  Vec top = Load(scores);
  for (size_t j = kVec; j < end; j += kVec) top = Max(top, Load(scores + j));
  const float highest = Max(top);
  for (size_t j = 0; j < end; j += kVec) Store(scores + j, Exp(Load(scores + j) - Splat(highest)));
  for (size_t j = query + 1; j < end; ++j) scores[j] = 0;
  Vec sum = Splat(0);
  for (size_t j = 0; j < end; j += kVec) sum += Load(scores + j);
  const float total = Sum(sum);
  *inverse_sum = 1.0f / total;
  return highest + __builtin_logf(total);
}

void AttentionHead(const AttentionShape& shape, const HeadScratch& s, float* out, size_t out_ld,
                   float* log_sum) {
  for (size_t i0 = 0; i0 < shape.context; i0 += kTileRows) {
    const size_t end = RoundUp(i0 + kTileRows, kTileCols);
    const size_t live = shape.context - i0 < kTileRows ? shape.context - i0 : kTileRows;
    float inverse[kTileRows] = {};
    Scores(s, i0, end, s.probability);
    for (size_t a = 0; a < live; ++a) {
      log_sum[i0 + a] = Softmax(s.probability + a * s.t, i0 + a, end, &inverse[a]);
    }
    for (size_t d = 0; d < shape.head_width; d += kTileCols) {
      const Tile tile(s.probability, s.t, 1, s.v + d, s.h, end);
      for (size_t a = 0; a < live; ++a) {
        StoreRow(out + (i0 + a) * out_ld + d, shape.head_width - d,
                 tile.acc[a][0] * Splat(inverse[a]), tile.acc[a][1] * Splat(inverse[a]));
      }
    }
  }
}

void Attention(const AttentionShape& shape, const float* qkv, float* out, float* log_sum,
               float* scratch) {
  const size_t width = shape.heads * shape.head_width, ld = 3 * width;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(shape.head_width));
  const HeadScratch s(shape, scratch);
  for (size_t row = 0; row < shape.rows; ++row) {
    for (size_t head = 0; head < shape.heads; ++head) {
      const float* in = qkv + row * shape.context * ld + head * shape.head_width;
      Pack(in, ld, shape.context, shape.head_width, scale, s.q, s.h);
      PackTransposed(in + width, ld, shape.context, shape.head_width, s.k_transposed, s.t);
      Pack(in + 2 * width, ld, shape.context, shape.head_width, 1, s.v, s.h);
      AttentionHead(shape, s, out + row * shape.context * width + head * shape.head_width, width,
                    log_sum + (row * shape.heads + head) * shape.context);
    }
  }
}

// Fills s.probability and s.dscore for all queries and writes dq.
LONGHAUL_INLINE void BackwardQueries(const AttentionShape& shape, const HeadScratch& s,
                                     const float* out, size_t out_ld, const float* log_sum,
                                     float scale, float* dq, size_t dq_ld) {
  for (size_t i0 = 0; i0 < s.t; i0 += kTileRows) {
    const size_t end = RoundUp(i0 + kTileRows, kTileCols);
    float* probability = s.probability + i0 * s.t;
    float* dscore = s.dscore + i0 * s.t;
    if (i0 >= shape.context) {  // padding: no query
      std::memset(probability, 0, kTileRows * s.t * sizeof(float));
      std::memset(dscore, 0, kTileRows * s.t * sizeof(float));
      continue;
    }
    const size_t live = shape.context - i0 < kTileRows ? shape.context - i0 : kTileRows;
    float shift[kTileRows] = {}, dot[kTileRows] = {};
    for (size_t a = 0; a < live; ++a) {
      shift[a] = log_sum[i0 + a];
      for (size_t d = 0; d < shape.head_width; ++d) {
        dot[a] += out[(i0 + a) * out_ld + d] * s.dout[(i0 + a) * s.h + d];
      }
    }
    for (size_t j = 0; j < end; j += kTileCols) {
      const Tile score(s.q + i0 * s.h, s.h, 1, s.k_transposed + j, s.t, s.h);
      const Tile dprobability(s.dout + i0 * s.h, s.h, 1, s.v_transposed + j, s.t, s.h);
      for (size_t a = 0; a < kTileRows; ++a) {
        for (size_t half = 0; half < 2; ++half) {
          const size_t at = a * s.t + j + half * kVec;
          const Vec p = Exp(score.acc[a][half] - Splat(shift[a]));
          Store(probability + at, p);
          Store(dscore + at, p * (dprobability.acc[a][half] - Splat(dot[a])));
        }
      }
    }
    for (size_t a = 0; a < kTileRows; ++a) {
      const size_t from = a < live ? i0 + a + 1 : 0;
      for (size_t j = from; j < end; ++j) probability[a * s.t + j] = dscore[a * s.t + j] = 0;
    }
    for (size_t d = 0; d < shape.head_width; d += kTileCols) {
      const Tile tile(dscore, s.t, 1, s.k + d, s.h, end);
      for (size_t a = 0; a < live; ++a) {
        StoreRow(dq + (i0 + a) * dq_ld + d, shape.head_width - d, tile.acc[a][0] * Splat(scale),
                 tile.acc[a][1] * Splat(scale));
      }
    }
  }
}

// out[j] = sum over queries i of weight[i][j] * matrix[i], for every key j.
LONGHAUL_INLINE void BackwardKeys(const AttentionShape& shape, const HeadScratch& s,
                                  const float* weight, const float* matrix, float* out,
                                  size_t out_ld) {
  for (size_t j0 = 0; j0 < shape.context; j0 += kTileRows) {
    const size_t live = shape.context - j0 < kTileRows ? shape.context - j0 : kTileRows;
    for (size_t d = 0; d < shape.head_width; d += kTileCols) {
      const Tile tile(weight + j0 * s.t + j0, 1, s.t, matrix + j0 * s.h + d, s.h, s.t - j0);
      for (size_t a = 0; a < live; ++a) {
        StoreRow(out + (j0 + a) * out_ld + d, shape.head_width - d, tile.acc[a][0], tile.acc[a][1]);
      }
    }
  }
}

void AttentionBackward(const AttentionShape& shape, const float* qkv, const float* out,
                       const float* log_sum, const float* dout, float* dqkv, float* scratch) {
  const size_t width = shape.heads * shape.head_width, ld = 3 * width, hw = shape.head_width;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(hw));
  const HeadScratch s(shape, scratch);
  for (size_t row = 0; row < shape.rows; ++row) {
    for (size_t head = 0; head < shape.heads; ++head) {
      const size_t wide = row * shape.context * ld + head * hw;
      const size_t narrow = row * shape.context * width + head * hw;
      const float* in = qkv + wide;
      Pack(in, ld, shape.context, hw, scale, s.q, s.h);
      Pack(in + width, ld, shape.context, hw, 1, s.k, s.h);
      PackTransposed(in + width, ld, shape.context, hw, s.k_transposed, s.t);
      PackTransposed(in + 2 * width, ld, shape.context, hw, s.v_transposed, s.t);
      Pack(dout + narrow, width, shape.context, hw, 1, s.dout, s.h);
      BackwardQueries(shape, s, out + narrow, width,
                      log_sum + (row * shape.heads + head) * shape.context, scale, dqkv + wide, ld);
      // q is packed with its scale, so the key gradient needs none.
      BackwardKeys(shape, s, s.dscore, s.q, dqkv + wide + width, ld);
      BackwardKeys(shape, s, s.probability, s.dout, dqkv + wide + 2 * width, ld);
    }
  }
}

}  // namespace
}  // namespace longhaul
