"""Writes reference_vectors.h: what other implementations make of the inputs of reference_test.cc.

Run by hand in an environment with `pip install gguf ml_dtypes numpy`, from this folder:
    python3 make_reference_vectors.py > reference_vectors.h
ggml's blocks come from the gguf package (a numpy reference of ggml's C), the small floats from
ml_dtypes, GACT's codes from numpy and the papers' definitions below. Long results are stored as their CRC32C, short ones as bytes.
"""
import gguf
import ml_dtypes
import numpy as np
from gguf.quants import quantize, dequantize
from importlib.metadata import version


def crc32c(data):
    table = []
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
        table.append(c)
    crc = 0xFFFFFFFF
    for b in data:
        crc = table[(crc ^ b) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def inputs(n):
    """The same generator as in reference_test.cc: magnitudes from 2^-8 to 2^4, both signs."""
    bits = np.empty(n, np.uint32)
    s = 12345
    for i in range(n):
        s = (s * 1664525 + 1013904223) & 0xFFFFFFFF
        mantissa = ((s * 2654435761) & 0xFFFFFFFF) >> 9
        bits[i] = (s >> 31) << 31 | (119 + (s >> 8) % 12) << 23 | mantissa
    return bits.view(np.float32)


def blocks(name, qtype, x):
    q = quantize(x.reshape(-1, 32), qtype)
    back = dequantize(q, qtype).astype(np.float32)
    first = ", ".join(str(b) for b in q.tobytes()[:34])
    return (f"inline constexpr Blocks {name} = {{\n    0x{crc32c(q.tobytes()):08X},\n"
            f"    0x{crc32c(back.tobytes()):08X},\n    {{{first}}}}};\n")


def uniform(key, n):
    """u in [0, 1) of elements 0 .. n - 1: Philox4x32-10 (Salmon et al. 2011), word >> 8 over 2^24."""
    mask = np.uint64(0xFFFFFFFF)
    i = np.arange((n + 3) // 4, dtype=np.uint64)
    c = [i & mask, i >> np.uint64(32), np.zeros_like(i), np.zeros_like(i)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), b & mask,
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), a & mask]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return ((np.stack(c, 1).reshape(-1)[:n] >> np.uint64(8)) * 2.0**-24).astype(np.float32)


def gact(name, x, key):
    """GACT (arXiv 2206.11357): 4 bits, groups of 256, min and range / 15 in fp32, stochastic rounding."""
    groups = x.reshape(-1, 256)
    z = groups.min(1, keepdims=True)
    s = (groups.max(1, keepdims=True) - z) / np.float32(15)
    u = uniform(key, x.size).reshape(groups.shape)
    q = np.clip(np.floor((groups - z) * (np.float32(1) / s) + u), 0, 15)
    codes = q.astype(np.uint8).reshape(-1)
    data = z.tobytes() + s.tobytes() + (codes[0::2] | codes[1::2] << 4).tobytes()
    back = z + q.astype(np.float32) * s
    first = ", ".join(str(b) for b in data[:34])
    return (f"inline constexpr Blocks {name} = {{\n    0x{crc32c(data):08X},\n"
            f"    0x{crc32c(back.tobytes()):08X},\n    {{{first}}}}};\n"
            f"inline constexpr uint64_t {name}Seed = {key:#x};\n")


def mini(name, dtype, codes):
    values = np.arange(codes, dtype=np.uint8).view(dtype).astype(np.float32)
    x = []
    for low, high in zip(values, values[1:]):
        tie = np.float32((np.float64(low) + np.float64(high)) / 2)
        x += [low, tie, np.nextafter(tie, np.float32(1e9)), np.nextafter(tie, np.float32(0))]
    x = np.array(x, np.float32)
    rounded = np.concatenate([x, -x]).astype(dtype).view(np.uint8)
    bits = ", ".join(f"0x{v:08X}" for v in values.view(np.uint32))
    return (f"inline constexpr uint32_t {name}Values[] = {{{bits}}};\n"
            f"inline constexpr uint32_t {name}RoundedCrc = 0x{crc32c(rounded.tobytes()):08X};\n")


def main():
    x = inputs(32 * 2048)
    q = gguf.GGMLQuantizationType
    print(f"// Written by make_reference_vectors.py with gguf {version('gguf')}, ml_dtypes "
          f"{version('ml_dtypes')}.")
    print("#pragma once\n\n#include <cstdint>\n\nnamespace longhaul {\n")
    print("// 2048 blocks: CRC32C of the bytes, CRC32C of the decoded fp32, the first bytes.")
    print("struct Blocks {\n  uint32_t crc;\n  uint32_t decoded_crc;\n  uint8_t first[34];\n};")
    print(blocks("kGgufQ8", q.Q8_0, x))
    print(blocks("kGgufQ4", q.Q4_0, x))
    print(blocks("kGgufMxFp4", q.MXFP4, x))
    print("// The same of 256 groups of 256, by numpy.")
    print(gact("kGact", x, 0x0123456789ABCDEF))
    print("// Values of the non-negative finite codes as bits; codes of every value, every tie and its")
    print("// neighbours, first positive, then negative.")
    print(mini("kE4M3", ml_dtypes.float8_e4m3fn, 127))
    print(mini("kE5M2", ml_dtypes.float8_e5m2, 124))
    print(mini("kE2M1", ml_dtypes.float4_e2m1fn, 8))
    scales = np.arange(1, 255, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    print("// The scales of the codes 1 .. 254.")
    print(f"inline constexpr uint32_t kE8M0ValuesCrc = 0x{crc32c(scales.tobytes()):08X};")
    print("\n}  // namespace longhaul")


main()
