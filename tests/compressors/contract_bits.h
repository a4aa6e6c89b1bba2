#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string>

// What contract_test.cc holds measured sizes against. A new codec needs its row here.
namespace longhaul {

// Bits of an fp32 tensor of one row without the frame header, as the specification states them.
struct Bits {
  double per_element;
  double per_tensor = 0;
  double slack = 2 * 7 * 8 + 40;  // two gaps between sections, and a short last block
};
inline const std::map<std::string, Bits> kCatalogueBits = {
    {"none", {32}},
    {"identity", {32}},
    {"bf16", {16}},
    {"fp16", {16}},
    {"fp8-e4m3-g16", {9}},
    {"fp8-e4m3-g128", {8.125}},
    {"fp8-e5m2-g16", {9}},
    {"int8-b64", {8.25}},
    {"int8-b4096", {8 + 16.0 / 4096}},
    {"q8_0", {8.5}},
    {"dyn8-b4096", {8 + 32.0 / 4096}},
    {"int4-b64", {4.25}},
    {"int4-b64-h64", {4.25}},
    {"q4_0", {4.5}},
    {"minmax2-b64", {2.5}},
    {"minmax3-b64", {3.5}},
    {"minmax4-b64", {4.5}},
    {"minmax5-b64", {5.5}},
    {"minmax6-b64", {6.5}},
    {"minmax7-b64", {7.5}},
    {"minmax8-b64", {8.5}},
    {"minmax2-tensor", {2, 64}},
    {"minmax3-tensor", {3, 64}},
    {"minmax4-tensor", {4, 64}},
    {"minmax4-b64-h64", {4.5}},
    {"mxfp4", {4.25}},
    {"mxfp4-h32", {4.25}},
    {"nvfp4", {4.5, 64}},
    {"e3m0-b64", {4.25}},
    {"tah4-g64", {3.8 + 34.0 / 64, 0, 500}},  // and 6/64 for each tile that is rotated
    {"tah4-g32", {3.8 + 34.0 / 32, 0, 500}},
    {"aqsgd2", {16}},  // the first visit; mirror_test.cc has the others
    {"aqsgd4", {16}},
    {"aqsgd8", {16}},
    {"gact4-g256", {4.25}},
    {"stat2", {2, 32 * 5}},
    {"stat4", {4, 32 * 17}},
    {"stat8", {8, 32 * 257}},
    {"gauss-0.01", {32}},
    {"sign1", {1.0625}},
    {"qsgd4", {4.0625}},
    {"qsgd8", {8 + 32.0 / 8192}},
    {"demo-dct", {32.0 / 4096 * (16 + 8.53), 3 * 128, 600}},
    // Sparse: values and indices of the kept, and 576 bits for the lengths and the inner header.
    {"topk-64of4096+fp16", {(16 + 7.53) / 64, 576, 300}},
    {"topk-410of4096+int4-b64", {410.0 / 4096 * (4.25 + 4.76), 576, 300}},
    {"topk-3of7+none", {3.0 / 7 * 32 + 1, 576, 300}},  // the bit map wins
    {"topk-1024of4096+stat2", {(2 + 3.29) / 4, 576 + 160, 300}},
    {"topk-4of4096+fp16", {(16 + 11.5) / 1024, 576, 300}},
    {"topk-64of4096+stat2", {(2 + 7.53) / 64, 576 + 160, 300}},
    {"topk-456of4096+int4-b64", {0.990, 576, 300}},
    {"randk-952of4096+fp16", {952.0 / 4096 * 16, 576, 300}},
    {"randk-952of4096+int4-b64", {952.0 / 4096 * 4.25, 576, 300}},
};

// Bits of factors of rank r, or of fp32 where those are not less than half of it.
inline double LowRankBits(size_t n, size_t rank, double bits) {
  const auto cols = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(n))));
  const size_t rows = (n + cols - 1) / cols;
  if (n < 4096) return 32.0 * static_cast<double>(n);
  while ((rows + cols) * 2 * rank >= rows * cols) --rank;
  return bits * static_cast<double>(rank * (rows + cols));
}

// Nothing: the codec has no row yet.
inline std::optional<Bits> WantedBits(const std::string& name, size_t n) {
  if (name == "powersgd-r1") return Bits{0, LowRankBits(n, 1, 32)};
  if (name == "powersgd-r4") return Bits{0, LowRankBits(n, 4, 32)};
  // Two frames of its own; a short block at the end of every column.
  if (name == "diloco-x") return Bits{0, LowRankBits(n, 16, 4.25), n < 5000 ? 4000.0 : 1500.0};
  const auto row = kCatalogueBits.find(name);
  return row == kCatalogueBits.end() ? std::nullopt : std::optional(row->second);
}

}  // namespace longhaul
