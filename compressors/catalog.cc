#include "compressors/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compressors/cast.h"
#include "compressors/error_feedback.h"
#include "compressors/fp4.h"
#include "compressors/fp8.h"
#include "compressors/frame.h"
#include "compressors/ggml_block.h"
#include "compressors/int_block.h"
#include "compressors/minmax.h"
#include "compressors/sign.h"
#include "compressors/statistical.h"

namespace longhaul {
namespace {

struct Entry {
  std::string_view name;
  uint16_t id;  // in every frame, for ever
  std::shared_ptr<const Codec> (*make)(std::string_view name, uint16_t id, Isa isa);
};

// Adding a codec = one line here, its two files, one word in CMakeLists.txt.
constexpr Entry kCodecs[] = {
    {"none", 0x01, NewIdentityCodec},
    {"bf16", 0x02, NewBf16Codec},
    {"fp16", 0x03, NewFp16Codec},
    {"fp8-e4m3-g16", 0x10, NewFp8Codec<Grid::kE4M3, 16>},
    {"fp8-e4m3-g128", 0x11, NewFp8Codec<Grid::kE4M3, 128>},
    {"fp8-e5m2-g16", 0x12, NewFp8Codec<Grid::kE5M2, 16>},
    {"int8-b64", 0x20, NewIntBlockCodec<8>},
    {"int8-b4096", 0x21, NewIntBlockCodec<8, Rotation::kNone, 4096>},
    {"q8_0", 0x22, NewQ8Codec},
    {"int4-b64", 0x30, NewIntBlockCodec<4>},
    {"int4-b64-h64", 0x31, NewIntBlockCodec<4, Rotation::kHadamard>},
    {"q4_0", 0x32, NewQ4Codec},
    {"minmax2-b64", 0x42, NewMinMaxCodec<2>},
    {"minmax3-b64", 0x43, NewMinMaxCodec<3>},
    {"minmax4-b64", 0x44, NewMinMaxCodec<4>},
    {"minmax5-b64", 0x45, NewMinMaxCodec<5>},
    {"minmax6-b64", 0x46, NewMinMaxCodec<6>},
    {"minmax7-b64", 0x47, NewMinMaxCodec<7>},
    {"minmax8-b64", 0x48, NewMinMaxCodec<8>},
    {"minmax4-b64-h64", 0x4c, NewMinMaxCodec<4, Rotation::kHadamard>},
    {"mxfp4", 0x50, NewMxFp4Codec<Rotation::kNone>},
    {"mxfp4-h32", 0x51, NewMxFp4Codec<Rotation::kHadamard>},
    {"e3m0-b64", 0x54, NewE3m0BlockCodec},
    {"stat2", 0x80, NewStatCodec<2>},
    {"stat4", 0x81, NewStatCodec<4>},
    {"stat8", 0x82, NewStatCodec<8>},
    {"stat2-rows", 0x84, NewStatRowsCodec<2>},
    {"stat4-rows", 0x85, NewStatRowsCodec<4>},
    {"stat8-rows", 0x86, NewStatRowsCodec<8>},
    {"sign1", 0x88, NewSignMeanCodec},
    {"sign1-2level", 0x89, NewSignTwoLevelCodec},
    {"sign1-rms", 0x8a, NewSignRmsCodec},
};

// Suffixes that wrap any stateless codec.
struct Wrapper {
  std::string_view suffix;
  float decay;
};
constexpr Wrapper kWrappers[] = {{"+ef95", 0.95f}, {"+ef", 1.0f}};

// Levenshtein distance, to name the nearest codecs first.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

absl::Status UnknownCodec(std::string_view name) {
  std::vector<std::string> known = CodecNames();
  std::stable_sort(known.begin(), known.end(), [name](const auto& a, const auto& b) {
    return EditDistance(name, a) < EditDistance(name, b);
  });
  return absl::NotFoundError(
      fmt::format("codec '{}' is unknown; known, nearest first: {} (each may end in +ef or +ef95)",
                  name, fmt::join(known, ", ")));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Codec>> MakeCodec(std::string_view name) {
  return MakeCodec(name, BestIsa());
}

absl::StatusOr<std::shared_ptr<const Codec>> MakeCodec(std::string_view name, Isa isa) {
  if (!IsaSupported(isa)) {
    return absl::FailedPreconditionError(
        fmt::format("codec '{}': this CPU has no {}", name, IsaName(isa)));
  }
  for (const Entry& entry : kCodecs) {
    if (entry.name == name) return entry.make(entry.name, entry.id, isa);
  }
  for (const Wrapper& wrapper : kWrappers) {
    if (!name.ends_with(wrapper.suffix)) continue;
    const auto inner = MakeCodec(name.substr(0, name.size() - wrapper.suffix.size()), isa);
    if (!inner.ok() || (*inner)->NewState({1, 1}) != nullptr) break;
    return NewErrorFeedbackCodec(*inner, name, wrapper.decay);
  }
  return UnknownCodec(name);
}

std::vector<std::string> CodecNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kCodecs) names.emplace_back(entry.name);
  return names;
}

absl::Status DecodeFrame(std::span<const std::byte> frame, Tensor x) {
  const uint16_t id = PeekCodecId(frame);
  for (const Entry& entry : kCodecs) {
    if (entry.id != id) continue;
    return entry.make(entry.name, entry.id, BestIsa())->Decode(frame, nullptr, x);
  }
  if (const auto header = ParseFrame(frame); !header.ok()) return header.status();
  return absl::DataLossError(fmt::format("frame of codec 0x{:02x}, which no codec here has", id));
}

}  // namespace longhaul
