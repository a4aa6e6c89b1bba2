#include "compressors/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/status_macros.h"
#include "compressors/families/block_codec.h"
#include "compressors/families/cast.h"
#include "compressors/families/factories.h"
#include "compressors/families/gauss.h"
#include "compressors/families/low_rank.h"
#include "compressors/families/selection.h"
#include "compressors/frame/frame.h"
#include "compressors/numbers/spelling.h"
#include "compressors/wrappers/saturate.h"

namespace longhaul {
namespace {

struct Entry {
  std::string_view name;
  uint16_t id;  // in every frame, for ever
  std::shared_ptr<const Codec> (*make)(std::string_view name, uint16_t id, Isa isa);
};

// Adding a codec = its file in families/, a line in factories.h, one here, a word in CMakeLists.txt.
constexpr Entry kCodecs[] = {
    {"none", 0x01, NewIdentityCodec},
    {"bf16", 0x02, NewBf16Codec},
    {"fp16", 0x03, NewFp16Codec},
    {"identity", 0x05, NewIdentityCodec},
    {"fp8-e4m3-g16", 0x10, NewFp8Codec<Grid::kE4M3, 16>},
    {"fp8-e4m3-g128", 0x11, NewFp8Codec<Grid::kE4M3, 128>},
    {"fp8-e5m2-g16", 0x12, NewFp8Codec<Grid::kE5M2, 16>},
    {"int8-b64", 0x20, NewIntBlockCodec<8>},
    {"int8-b4096", 0x21, NewIntBlockCodec<8, Rotation::kNone, 4096>},
    {"q8_0", 0x22, NewQ8Codec},
    {"dyn8-b4096", 0x23, NewDynamicMapCodec},
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
    {"minmax2-tensor", 0x49, NewTensorMinMaxCodec<2>},
    {"minmax3-tensor", 0x4a, NewTensorMinMaxCodec<3>},
    {"minmax4-tensor", 0x4b, NewTensorMinMaxCodec<4>},
    {"minmax4-b64-h64", 0x4c, NewMinMaxCodec<4, Rotation::kHadamard>},
    {"mxfp4", 0x50, NewMxFp4Codec<Rotation::kNone>},
    {"mxfp4-h32", 0x51, NewMxFp4Codec<Rotation::kHadamard>},
    {"nvfp4", 0x52, NewNvFp4Codec},
    {"e3m0-b64", 0x54, NewE3m0BlockCodec},
    {"tah4-g64", 0x60, NewTahCodec<64>},
    {"tah4-g32", 0x61, NewTahCodec<32>},
    {"aqsgd2", 0x68, NewAqSgdCodec<2>},
    {"aqsgd4", 0x69, NewAqSgdCodec<4>},
    {"aqsgd8", 0x6a, NewAqSgdCodec<8>},
    {"gact4-g256", 0x6c, NewGactCodec},
    {"stat2", 0x80, NewStatCodec<2>},
    {"stat4", 0x81, NewStatCodec<4>},
    {"stat8", 0x82, NewStatCodec<8>},
    {"sign1", 0x88, NewSignCodec},
    {"qsgd4", 0x8c, NewQsgdCodec<4>},
    {"qsgd8", 0x8d, NewQsgdCodec<8>},
    {"diloco-x", 0x91, NewDilocoXCodec},
    {"demo-dct", 0xa1, NewDemoCodec},
};

// Codecs of one number: "powersgd-r4". In their frames it is param0.
struct Family {
  std::string_view prefix;
  uint16_t id;
  uint32_t most;  // 1 .. most
  std::shared_ptr<const Codec> (*make)(std::string_view name, uint32_t number, Isa isa);
  size_t (*max_frame_bytes)(Shape shape);  // of any number
};
// gauss sends fp32; powersgd factors only where they are smaller than that.
size_t MaxDenseFrameBytes(Shape shape) { return kFrameHeaderBytes + 4 * shape.elements(); }

constexpr Family kFamilies[] = {
    {"powersgd-r", kPowerSgdId, kMaxLowRank, NewPowerSgdCodec, MaxDenseFrameBytes}};

// The control of experiments: one codec for every error, in its frames as param0.
constexpr std::string_view kGaussPrefix = "gauss-";

// Composed names; each presents itself under its own name, the wire is that of its parts.
constexpr CodecAlias kAliases[] = {
    {"2x", "minmax7-b64"},
    {"4x", "minmax3-b64"},
    {"16x", "topk-456of4096+int4-b64+ef"},
    {"16x-randk", "randk-952of4096+int4-b64+ef"},
    {"100x", "topk-64of4096+stat2+ef95"},
    {"dgc", "topk-4of4096+fp16+mc"},
    {"sparseloco", "topk-64of4096+stat2+ef95"},
    {"onebit-adam", "sign1+ef"},
    {"onebit-sgd", "sign1+ef"},
};

// Suffixes that wrap any stateless codec; "+sat", which must stand last, any codec at all.
struct Wrapper {
  std::string_view suffix;
  std::shared_ptr<const Codec> (*wrap)(std::shared_ptr<const Codec> inner, std::string_view name,
                                       float parameter, Isa isa);
  float parameter;
};
constexpr std::string_view kStochastic = "+sr";  // of block codecs
constexpr std::string_view kSaturating = "+sat";
constexpr std::string_view kEf21 = "+ef21";
constexpr Wrapper kWrappers[] = {{"+ef95", NewErrorFeedbackCodec, 0.95f},
                                 {kEf21, NewEf21Codec, 0.0f},
                                 {"+ef", NewErrorFeedbackCodec, 1.0f},
                                 {"+mc", NewMomentumCorrectionCodec, 0.9f}};

constexpr size_t kNearest = 6;  // names that an error offers
absl::Status UnknownCodec(std::string_view name, std::string_view why) {
  std::vector<std::string> known = CodecNames();
  for (const CodecAlias& alias : kAliases) known.emplace_back(alias.name);
  for (std::string& example : ParametricExamples()) known.push_back(std::move(example));
  return absl::NotFoundError(fmt::format(
      "codec '{}' {}; nearest first: {}; `longhaul codecs` lists all (topk and randk take any k of "
      "C and any codec for their values, powersgd-r any rank in its range, gauss- any NMSE; "
      "each may end in +ef, +ef95, +ef21 or +mc, the block codecs in +sr, all in +sat)",
      name, why, fmt::join(Nearest(kNearest, name, std::move(known)), ", ")));
}

using MadeCodec = absl::StatusOr<std::shared_ptr<const Codec>>;

const Entry* FindEntry(std::string_view name) {
  const auto* found = std::find_if(std::begin(kCodecs), std::end(kCodecs),
                                   [name](const Entry& entry) { return entry.name == name; });
  return found == std::end(kCodecs) ? nullptr : found;
}
const Entry* FindEntry(uint16_t id) {
  const auto* found = std::find_if(std::begin(kCodecs), std::end(kCodecs),
                                   [id](const Entry& entry) { return entry.id == id; });
  return found == std::end(kCodecs) ? nullptr : found;
}

const Family* FindFamily(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kFamilies), std::end(kFamilies),
                   [name](const Family& family) { return name.starts_with(family.prefix); });
  return found == std::end(kFamilies) ? nullptr : found;
}

bool Stateless(const Codec& codec) {
  return codec.NewState({1, 1}) == nullptr && codec.NewDecoderState({1, 1}) == nullptr;
}

// The codec of a selection's values; nullptr when this entry cannot be one.
std::shared_ptr<const Codec> ValueCodec(const Entry* entry, Isa isa) {
  if (entry == nullptr) return nullptr;
  auto values = entry->make(entry->name, entry->id, isa);
  return Stateless(*values) ? values : nullptr;
}

// "topk-64of4096+fp16": `parts` begins like a selection.
MadeCodec MakeSelection(std::string_view parts, std::string_view shown, Gain gain, Isa isa) {
  const size_t plus = parts.find('+');
  const auto spec = ParseSelection(parts.substr(0, plus));
  if (!spec) return UnknownCodec(shown, "wants k of C with 1 <= k <= C and 2 <= C <= 65536");
  auto values =
      ValueCodec(plus == std::string_view::npos ? nullptr : FindEntry(parts.substr(plus + 1)), isa);
  if (values == nullptr) return UnknownCodec(shown, "needs a plain codec for its values");
  return NewSelectionCodec(shown, *spec, gain, std::move(values), isa);
}

MadeCodec MakeOfFamily(const Family& family, std::string_view parts, std::string_view shown,
                       Isa isa) {
  const auto number = ParseNumber(parts.substr(family.prefix.size()));
  if (number && *number <= family.most) return family.make(shown, *number, isa);
  return UnknownCodec(shown, fmt::format("wants a number from 1 to {}", family.most));
}

// One error has one name, so that arms of one codec are known as such.
MadeCodec MakeGauss(std::string_view parts, std::string_view shown, Isa isa) {
  const auto nmse = ParseGaussNmse(parts.substr(kGaussPrefix.size()));
  if (!nmse) {
    return UnknownCodec(shown, fmt::format("wants an NMSE from {} to {}, as in gauss-0.01",
                                           kLeastGaussNmse, kMostGaussNmse));
  }
  if (const std::string name = GaussName(*nmse); name != parts) {
    return UnknownCodec(shown, fmt::format("is written {}", name));
  }
  return NewGaussCodec(shown, *nmse, isa);
}

// `shown` is what the codec calls itself.
MadeCodec MakeParts(std::string_view parts, std::string_view shown, Gain gain, Isa isa) {
  if (const Entry* entry = FindEntry(parts)) return entry->make(shown, entry->id, isa);
  for (const CodecAlias& alias : kAliases) {
    if (alias.name == parts) return MakeParts(alias.parts, shown, gain, isa);
  }
  if (parts.ends_with(kSaturating)) {
    const std::string_view rest = parts.substr(0, parts.size() - kSaturating.size());
    MadeCodec inner = MakeParts(rest, rest, gain, isa);
    if (!inner.ok()) return inner.status();
    if (rest.ends_with(kSaturating)) return UnknownCodec(shown, "has +sat twice");
    return NewSaturatingCodec(*std::move(inner), shown, 0, isa);
  }
  if (parts.ends_with(kStochastic)) {
    const std::string_view rest = parts.substr(0, parts.size() - kStochastic.size());
    MadeCodec inner = MakeParts(rest, rest, gain, isa);
    if (!inner.ok()) return inner.status();
    auto rounded = WithStochasticRounding(**inner, shown);
    if (rounded == nullptr) return UnknownCodec(shown, "cannot round stochastically");
    return rounded;
  }
  for (const Wrapper& wrapper : kWrappers) {
    if (!parts.ends_with(wrapper.suffix)) continue;
    const std::string_view rest = parts.substr(0, parts.size() - wrapper.suffix.size());
    MadeCodec inner = MakeParts(rest, rest, Gain::kOne, isa);
    if (!inner.ok()) return inner.status();
    if (!Stateless(**inner)) return UnknownCodec(shown, "puts a state on a codec that has one");
    if (rest.ends_with(kSaturating)) return UnknownCodec(shown, "has +sat before its end");
    return wrapper.wrap(*std::move(inner), shown, wrapper.parameter, isa);
  }
  if (parts.starts_with("topk-") || parts.starts_with("randk-")) {
    return MakeSelection(parts, shown, gain, isa);
  }
  if (parts.starts_with(kGaussPrefix)) return MakeGauss(parts, shown, isa);
  if (const Family* family = FindFamily(parts)) return MakeOfFamily(*family, parts, shown, isa);
  return UnknownCodec(shown, "is unknown");
}

// The codec that made the frame, by its header alone, without +ef21; nullptr when there is none.
std::shared_ptr<const Codec> PlainCodecOf(const FrameHeader& header) {
  if (const auto spec = SelectionOf(header)) {
    auto values = ValueCodec(FindEntry(header.value_codec), BestIsa());
    if (values == nullptr) return nullptr;
    const std::string name = fmt::format("{}+{}", ToString(*spec), values->name());
    return NewSelectionCodec(name, *spec, Gain::kOne, std::move(values), BestIsa());
  }
  for (const Family& family : kFamilies) {
    if (family.id != header.codec || header.param0 > family.most) continue;
    // A dense frame of powersgd is one of every rank.
    const uint32_t number = header.param0 == 0 ? family.most : header.param0;
    return family.make(fmt::format("{}{}", family.prefix, number), number, BestIsa());
  }
  if (header.codec == kGaussId) {
    const auto nmse = std::bit_cast<float>(header.param0);
    if (!(nmse >= kLeastGaussNmse && nmse <= kMostGaussNmse)) return nullptr;
    return NewGaussCodec(GaussName(nmse), nmse, BestIsa());
  }
  const Entry* entry = FindEntry(header.codec);
  return entry == nullptr ? nullptr : entry->make(entry->name, entry->id, BestIsa());
}

std::shared_ptr<const Codec> CodecOf(const FrameHeader& header) {
  auto plain = PlainCodecOf(header);
  if (plain == nullptr || (header.flags & (kFlagFirstVisit | kFlagDifference)) == 0) return plain;
  if (plain->NewDecoderState({1, 1}) != nullptr) return plain;  // aqsgd: the marks are its own
  if (!Stateless(*plain)) return nullptr;
  const std::string name = fmt::format("{}{}", plain->name(), kEf21);
  return NewEf21Codec(std::move(plain), name, 0, BestIsa());
}

}  // namespace

MadeCodec MakeCodec(std::string_view name) { return MakeCodec(name, BestIsa()); }

MadeCodec MakeCodec(std::string_view name, Isa isa) {
  if (!IsaSupported(isa)) {
    return absl::FailedPreconditionError(
        fmt::format("codec '{}': this CPU has no {}", name, IsaName(isa)));
  }
  return MakeParts(name, name, Gain::kUnbiased, isa);
}

std::vector<std::string> CodecNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kCodecs) names.emplace_back(entry.name);
  return names;
}

std::span<const CodecAlias> CodecAliases() { return kAliases; }

std::vector<std::string> ParametricExamples() {
  return {"topk-64of4096+stat2", "randk-952of4096+int4-b64", "powersgd-r4", "gauss-0.01"};
}

size_t MaxFrameBytesOf(uint16_t id, Shape shape, DType dtype) {
  if (id == kTopKId || id == kRandKId) return MaxSelectionFrameBytes(shape);
  if (id == kGaussId) return MaxDenseFrameBytes(shape);
  for (const Family& family : kFamilies) {
    if (id == family.id) return family.max_frame_bytes(shape);
  }
  const Entry* entry = FindEntry(id);
  if (entry == nullptr) return 0;
  const auto codec = entry->make(entry->name, id, BestIsa());
  // What a wrapper encodes is fp32, whatever the tensor was.
  return std::max(codec->MaxFrameBytes(shape, dtype), codec->MaxFrameBytes(shape, DType::kF32));
}

absl::StatusOr<std::shared_ptr<const Codec>> CodecOfFrame(std::span<const std::byte> frame) {
  // Peeked fields decide who decodes; whether they are true is for that codec to check.
  if (auto codec = CodecOf(PeekHeader(frame))) return codec;
  if (const auto header = ParseFrame(frame); !header.ok()) return header.status();
  return absl::DataLossError(
      fmt::format("frame of codec 0x{:02x}, which no codec here has", PeekHeader(frame).codec));
}

absl::Status DecodeFrame(std::span<const std::byte> frame, Tensor x) {
  const auto codec = CodecOfFrame(frame);
  return codec.ok() ? (*codec)->Decode(frame, nullptr, x) : codec.status();
}

absl::StatusOr<std::string> NameOfFrame(std::span<const std::byte> frame) {
  if (const auto header = ParseFrame(frame); !header.ok()) return header.status();
  ASSIGN_OR_RETURN(const auto codec, CodecOfFrame(frame));
  return std::string(codec->name());
}

bool DecodingNeedsState(const Codec& codec) { return codec.NewDecoderState({1, 1}) != nullptr; }

}  // namespace longhaul
