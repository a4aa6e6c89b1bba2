#pragma once

#include "compressors/loops.h"

// ggml's full blocks of 32 (ggml_block.h), compiled per instruction set as loops.h says.
namespace longhaul {

// 1/d as ggml has it, and 0 where that would be Inf: its fp16 scale is 0 there.
LONGHAUL_INLINE float GgmlInverse(float d) {
  const float inverse = d != 0 ? 1.0f / d : 0.0f;
  return (BitsOf(inverse) & kAbsMask) >= kInfBits ? 0.0f : inverse;
}

// Round half away from zero, |x| < 2^31, exact.
LONGHAUL_INLINE int32_t RoundAway(float x) {
  const auto whole = static_cast<int32_t>(x);
  const float rest = x - static_cast<float>(whole);
  return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

// min(15, int(x inverse + 8.5)), every step rounded to fp32 as in the gguf package.
LONGHAUL_INLINE int32_t Q4Code(float x, float inverse) {
  const auto code = static_cast<int32_t>(x * inverse + 8.5f);
  return code > 15 ? 15 : code;
}

// Finite, but fp16 of it is not.
LONGHAUL_INLINE bool BeyondFp16(float d) { return FromBits(BitsOf(d) & kAbsMask) >= 65520.0f; }

template <class L>
bool LoopEncodeQ8(const float* x, size_t blocks, std::byte* out) {
  for (size_t b = 0; b < blocks; ++b, x += 32, out += 34) {
    uint32_t top[8] = {};
    for (size_t i = 0; i < 32; i += 8) {
      for (size_t j = 0; j < 8; ++j) {
        const uint32_t abs = BitsOf(x[i + j]) & kAbsMask;
        top[j] = abs > top[j] ? abs : top[j];
      }
    }
    for (size_t h = 4; h > 0; h /= 2) {
      for (size_t j = 0; j < h; ++j) top[j] = top[j] > top[j + h] ? top[j] : top[j + h];
    }
    const float d = FromBits(top[0]) / 127.0f;
    if (BeyondFp16(d)) return false;
    const float inverse = GgmlInverse(d);
    const uint16_t wire = F32ToF16Clamped(d);
    __builtin_memcpy(out, &wire, 2);
    int8_t q[32];
    for (size_t i = 0; i < 32; ++i) q[i] = static_cast<int8_t>(RoundAway(x[i] * inverse));
    __builtin_memcpy(out + 2, q, 32);
  }
  return true;
}

template <class L>
bool LoopEncodeQ4(const float* x, size_t blocks, std::byte* out) {
  for (size_t b = 0; b < blocks; ++b, x += 32, out += 18) {
    float m = 0;  // the signed element of largest magnitude, the first on ties
    for (size_t i = 0; i < 32; ++i) {
      m = (BitsOf(x[i]) & kAbsMask) > (BitsOf(m) & kAbsMask) ? x[i] : m;
    }
    const float d = m / -8.0f;
    if (BeyondFp16(d)) return false;
    const float inverse = GgmlInverse(d);
    const uint16_t wire = F32ToF16Clamped(d);
    __builtin_memcpy(out, &wire, 2);
    uint8_t q[16];
    for (size_t j = 0; j < 16; ++j) {
      q[j] = static_cast<uint8_t>(Q4Code(x[j], inverse) | Q4Code(x[j + 16], inverse) << 4);
    }
    __builtin_memcpy(out + 2, q, 16);
  }
  return true;
}

template <class L>
bool LoopDecodeQ8(const std::byte* in, size_t blocks, float* x) {
  for (size_t b = 0; b < blocks; ++b, x += 32, in += 34) {
    uint16_t wire;
    __builtin_memcpy(&wire, in, 2);
    if ((wire & 0x7C00) == 0x7C00) return false;
    const float d = F16ToF32(wire);
    int8_t q[32];
    __builtin_memcpy(q, in + 2, 32);
    for (size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(static_cast<int32_t>(q[i])) * d;
  }
  return true;
}

template <class L>
bool LoopDecodeQ4(const std::byte* in, size_t blocks, float* x) {
  for (size_t b = 0; b < blocks; ++b, x += 32, in += 18) {
    uint16_t wire;
    __builtin_memcpy(&wire, in, 2);
    if ((wire & 0x7C00) == 0x7C00) return false;
    const float d = F16ToF32(wire);
    uint8_t q[16];
    __builtin_memcpy(q, in + 2, 16);
    for (size_t j = 0; j < 16; ++j) {
      x[j] = static_cast<float>(static_cast<int32_t>(q[j] & 15) - 8) * d;
      x[j + 16] = static_cast<float>(static_cast<int32_t>(q[j] >> 4) - 8) * d;
    }
  }
  return true;
}

}  // namespace longhaul
