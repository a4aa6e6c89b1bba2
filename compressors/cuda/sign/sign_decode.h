#pragma once

#include "compressors/cuda/sign/sign_block.h"

namespace longhaul {

// A warp writes the blocks that one reads in encoding, 512 bytes at a time: thread t has quad
// 32 i + t of the warp's, of 4 or 8 elements.
template <SignLevels kLevels, DType kType>
struct DecodeSignKernel {
  static constexpr int kThreads = kWarp;
  using Blocks = SignBlocks<kType>;
  static constexpr int kLanes = Blocks::kLanes;  // elements of a quad
  static constexpr int kSteps = 8;
  static constexpr int kBlockSteps = kSteps / Blocks::kBlocks;

  SignRun run;

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return Blocks::Teams(run); }

  // What a thread has of a block: wire levels, and the byte of its signs.
  struct Wire {
    uint32_t low, high, signs;
  };

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const uint64_t first = team.index() * Blocks::kBlocks;
    const uint64_t blocks = run.rows * run.row_blocks;
    if (run.cols % kSignBlock == 0 && first + Blocks::kBlocks <= blocks && Aligned(run.x, 16)) {
      typename Team::template Own<Wire> wires[kSteps];
      LONGHAUL_UNROLL
      for (int i = 0; i < kSteps; ++i) {
        team.Each([&](int t) {
          wires[i][t] = Load<Team>(first + BlockOf(i), first * (kSignBlock / 8), kWarp * i + t);
        });
      }
      std::byte* x = run.x + first * kSignBlock * Blocks::kElementBytes;
      LONGHAUL_UNROLL
      for (int i = 0; i < kSteps; ++i) {
        team.Each([&](int t) {
          if (t == 0) Check<Team>(first + BlockOf(i), wires[i][t]);
          Team::Store16(Values(wires[i][t]).quad[0], x + 16 * static_cast<uint64_t>(kWarp * i + t));
        });
      }
      return;
    }
    LONGHAUL_ROLLED
    for (int i = 0; i < kSteps; ++i) {
      const uint64_t block = first + BlockOf(i);
      const auto place = Blocks::PlaceOf(run, block);
      team.Each([&](int t) {
        const int quad = i % kBlockSteps * kWarp + t, count = place.count - kLanes * quad;
        if (count <= 0) return;
        const Wire wire = Load<Team>(block, place.bits, quad);
        if (quad == 0) Check<Team>(block, wire);
        StoreSome<Team, kType>(Values(wire), count < kLanes ? count : kLanes,
                               run.x + place.x + 16 * static_cast<uint64_t>(quad));
      });
    }
  }

  LONGHAUL_TEXT static uint64_t BlockOf(int i) { return static_cast<uint64_t>(i / kBlockSteps); }

  // Quad `quad` of those that have their signs from byte `bits` on.
  template <class Team>
  LONGHAUL_TEXT Wire Load(uint64_t block, uint64_t bits, int quad) const {
    Wire wire;
    wire.high = Team::template Load<uint16_t>(run.high + 2 * block);
    wire.low = wire.high ^ 0x8000;
    if constexpr (kLevels == SignLevels::kTwoLevel) {
      wire.low = Team::template Load<uint16_t>(run.low + 2 * block);
    }
    const auto bit = static_cast<uint64_t>(kLanes * quad);
    wire.signs = Team::template Load<uint8_t>(run.bits + bits + bit / 8) >> (bit % 8);
    return wire;
  }
  template <class Team>
  LONGHAUL_TEXT void Check(uint64_t block, const Wire& wire) const {
    const bool good =
        FiniteBf16(static_cast<uint16_t>(wire.low)) && FiniteBf16(static_cast<uint16_t>(wire.high));
    if (!good) Team::Min(&run.report->fault, block);
  }

  LONGHAUL_TEXT static RawEight<kType> Values(const Wire& wire) {
    const float low = Bf16ToF32(static_cast<uint16_t>(wire.low));
    const float high = Bf16ToF32(static_cast<uint16_t>(wire.high));
    RawEight<kType> raw = {};
    if constexpr (kType == DType::kF32) {
      LONGHAUL_UNROLL
      for (int e = 0; e < kLanes; ++e) {
        raw.quad[0].word[e] = BitsOf((wire.signs >> e & 1) != 0 ? high : low);
      }
    } else {
      // Both halves of a word at once: the low level, and the difference where the sign is 1.
      const uint32_t base = NarrowOne(low), step = NarrowOne(high) - base;
      const uint32_t pairs = wire.signs | wire.signs << 15;
      LONGHAUL_UNROLL
      for (int e = 0; e < kLanes; e += 2) {
        raw.quad[0].word[e / 2] = (pairs >> e & 0x00010001) * step + base * 0x00010001;
      }
    }
    return raw;
  }
  LONGHAUL_TEXT static uint32_t NarrowOne(float x) {
    return kType == DType::kBF16 ? F32ToBf16Clamped(x) : F32ToF16Clamped(x);
  }
};

}  // namespace longhaul
