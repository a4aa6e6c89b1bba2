#pragma once

#include "compressors/cuda/team/team.h"

namespace longhaul {

// Folds of several strips at once: kWidth neighbouring threads have one value of each of kStrips
// strips, and want each strip's fold over them. Where halves of the threads fold halves of the
// strips, half the shuffles do: a thread ends with the folds of kLeft strips, one of them where
// kWidth >= kStrips, so what is made of a fold is made once and not by all threads.
template <int kWidth, int kStrips>
struct StripFold {
  static constexpr int kLeft = kStrips > kWidth ? kStrips / kWidth : 1;

  // own[0 .. kLeft) become the folds. op: commutative and associative on what it is given.
  template <class Team, class T, class Op>
  LONGHAUL_TEXT static void Fold(Team& team, T (&own)[kStrips], Op op) {
    int have = kStrips;
    LONGHAUL_UNROLL
    for (int mask = 1; mask < kWidth; mask *= 2) {
      const int half = have / 2;
      LONGHAUL_UNROLL
      for (int i = 0; i < kStrips; ++i) {
        if (i >= (have == 1 ? 1 : half)) continue;
        T sent = own[i];
        if (have > 1) {
          team.Each([&](int t) {
            if ((t & mask) == 0) {
              sent[t] = own[i + half][t];
            } else {
              own[i][t] = own[i + half][t];
            }
          });
        }
        const auto got = team.Xor(sent, mask);
        team.Each([&](int t) { own[i][t] = op(own[i][t], got[t]); });
      }
      if (have > 1) have = half;
    }
  }

  // The strip whose fold is own[i] on thread t.
  LONGHAUL_TEXT static int StripOf(int t, int i) {
    int strip = i, half = kStrips / 2;
    LONGHAUL_UNROLL
    for (int mask = 1; mask < kWidth && half > 0; mask *= 2) {
      strip += (t & mask) == 0 ? 0 : half;
      half /= 2;
    }
    return strip;
  }
  // Several threads end with the same folds where kWidth > kStrips: the one that answers for them.
  LONGHAUL_TEXT static bool Answers(int t) { return t % kWidth < kStrips; }

  // Which own[i] of which of the kWidth threads has the fold of `strip`.
  static constexpr int IndexOf(int strip) { return strip % kLeft; }
  static constexpr int ThreadOf(int strip) {
    int thread = 0, half = kStrips / 2;
    for (int mask = 1; mask < kWidth && half > 0; mask *= 2) {
      if ((strip & half) != 0) thread += mask;
      half /= 2;
    }
    return thread;
  }
};

}  // namespace longhaul
