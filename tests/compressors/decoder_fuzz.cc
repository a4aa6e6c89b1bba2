// libFuzzer target: no bytes may make a decoder crash, read or write out of bounds, allocate from
// an unchecked length or loop; the scalar and the fastest kernels must answer alike; and a state
// must be as it was when a frame is refused.
//
// One program, one target per family: its name says which, compressors_decoder_FAMILY_fuzz are
// links to compressors_decoder_fuzz, which tries all. Random bytes never have a right checksum, so
// the input is bent towards a frame in one of three degrees, chosen by its first byte:
//   raw      as it is
//   sealed   magic, length and CRC made right, everything else from the input
//   shaped   the header of a true frame, a few of its bytes changed, the payload from the input
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "compressors/catalog.h"
#include "compressors/frame/frame.h"
#include "compressors/frame_receiver.h"
#include "compressors/numbers/crc32c.h"

namespace longhaul {
namespace {

struct Family {
  std::string_view name;
  std::vector<std::string> codecs;
};
const std::vector<Family>& Families() {
  static const std::vector<Family> families = {
      {"cast", {"none", "identity", "bf16", "fp16"}},
      {"fp8", {"fp8-e4m3-g16", "fp8-e4m3-g128", "fp8-e5m2-g16"}},
      {"int_block", {"int8-b64", "int8-b4096", "int4-b64", "int4-b64-h64", "int4-b64+sr"}},
      {"ggml_block", {"q8_0", "q4_0"}},
      {"dynamic_map", {"dyn8-b4096"}},
      {"minmax",
       {"minmax2-b64", "minmax3-b64", "minmax4-b64", "minmax5-b64", "minmax6-b64", "minmax7-b64",
        "minmax8-b64", "minmax4-b64-h64", "minmax3-b64+sr"}},
      {"tensor_minmax", {"minmax2-tensor", "minmax3-tensor", "minmax4-tensor"}},
      {"fp4", {"mxfp4", "mxfp4-h32", "mxfp4-h32+sr", "nvfp4", "e3m0-b64"}},
      {"tah", {"tah4-g64", "tah4-g32"}},
      {"aqsgd", {"aqsgd2", "aqsgd4", "aqsgd8"}},
      {"gact", {"gact4-g256"}},
      {"gauss", {"gauss-0.01"}},
      {"topk",
       {"topk-64of4096+fp16", "topk-3of7+none", "topk-40of100+int4-b64", "topk-1of4096+dyn8-b4096",
        "topk-9of64+stat2"}},
      {"randk", {"randk-9of64+stat2", "randk-3of7+none", "randk-40of100+sign1"}},
      {"statistical", {"stat2", "stat4", "stat8"}},
      {"sign", {"sign1"}},
      {"qsgd", {"qsgd4", "qsgd8"}},
      {"powersgd", {"powersgd-r1", "powersgd-r3"}},
      {"diloco_x", {"diloco-x"}},
      {"demo", {"demo-dct"}},
      {"ef21", {"none+ef21", "int4-b64+ef21", "topk-9of64+stat2+ef21"}},
      {"frame", {"none"}},
  };
  return families;
}

const Family* chosen = nullptr;  // nullptr: all

struct Input {
  const uint8_t* at;
  size_t left;
  uint8_t Byte() {
    if (left == 0) return 0;
    --left;
    return *at++;
  }
};

template <typename T>
void Put(std::vector<std::byte>& frame, size_t at, T value) {
  std::memcpy(frame.data() + at, &value, sizeof(T));
}

void Seal(std::vector<std::byte>& frame) {
  std::memcpy(frame.data(), "LHC1", 4);
  Put<uint64_t>(frame, 48, frame.size() - kFrameHeaderBytes);
  Put<uint32_t>(frame, 56, 0);
  Put<uint32_t>(frame, 56, Crc32c(frame));
}

// One name with scalar and with the fastest kernels.
struct Both {
  explicit Both(const std::string& name)
      : name(name), scalar(*MakeCodec(name, Isa::kScalar)), fast(*MakeCodec(name)) {}
  std::string name;
  std::shared_ptr<const Codec> scalar, fast;
};
const Both& CodecsOf(const std::string& name) {
  static std::map<std::string, Both> made;
  return made.try_emplace(name, name).first->second;
}

// What a true sender sends for this codec and shape: the only frame, or a first one and a
// difference, and what the receiver then holds.
struct TrueFrames {
  std::vector<std::byte> last;
  std::unique_ptr<CodecState> received;  // before `last`
  uint32_t tag = 0;
};

std::vector<std::byte> Encoded(const Codec& codec, Shape shape, float value, CodecState* state) {
  const std::vector<float> x(shape.elements(), value);
  std::vector<std::byte> frame(codec.MaxFrameBytes(shape, DType::kF32));
  const auto bytes = codec.Encode({x.data(), DType::kF32, shape}, 1, state, frame);
  if (!bytes.ok()) {
    std::fprintf(stderr, "%s\n", bytes.status().ToString().c_str());
    std::abort();
  }
  frame.resize(*bytes);
  return frame;
}

const TrueFrames& TrueFramesOf(const Both& codecs, Shape shape) {
  static std::map<std::tuple<std::string, uint64_t, uint64_t>, TrueFrames> known;
  if (known.size() > 2000) known.clear();
  TrueFrames& frames = known[{codecs.name, shape.rows, shape.cols}];
  if (!frames.last.empty()) return frames;
  const auto state = codecs.fast->NewState(shape);
  frames.received = codecs.fast->NewDecoderState(shape);
  frames.last = Encoded(*codecs.fast, shape, 0, state.get());
  if (frames.received == nullptr) return frames;
  std::vector<float> y(shape.elements());
  if (!codecs.fast->Decode(frames.last, frames.received.get(), {y.data(), DType::kF32, shape})
           .ok()) {
    std::abort();
  }
  frames.last = Encoded(*codecs.fast, shape, 1, state.get());
  frames.tag = PeekHeader(frames.last).state;
  return frames;
}

std::vector<std::byte> RawFrame(Input in) {
  std::vector<std::byte> frame(in.left);
  if (in.left > 0) std::memcpy(frame.data(), in.at, in.left);
  return frame;
}

std::vector<std::byte> SealedFrame(Input in, Shape shape) {
  std::vector<std::byte> frame = RawFrame(in);
  if (frame.size() < kFrameHeaderBytes) frame.resize(kFrameHeaderBytes);
  Put(frame, 24, shape.rows);
  Put(frame, 32, shape.cols);
  if ((PeekHeader(frame).flags & kFlagDifference) == 0) Put<uint32_t>(frame, 60, 0);
  frame[9] = static_cast<std::byte>(static_cast<uint8_t>(frame[9]) % 3);
  Seal(frame);
  return frame;
}

std::vector<std::byte> ShapedFrame(Input in, const TrueFrames& frames) {
  std::vector<std::byte> frame = frames.last;
  for (int changes = in.Byte() % 3; changes > 0; --changes) {
    const size_t at = in.Byte() % 24;
    frame[at] = static_cast<std::byte>(in.Byte());
  }
  const size_t cut = in.Byte();  // sometimes another length
  if (cut > 240) frame.resize(std::max(kFrameHeaderBytes, frame.size() - (cut - 240)));
  for (size_t i = kFrameHeaderBytes; i < frame.size() && in.left > 0; ++i) {
    frame[i] = static_cast<std::byte>(in.Byte());
  }
  Seal(frame);
  return frame;
}

// Equal bits, or both NaN.
bool Alike(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], 4) != 0 && !(a[i] != a[i] && b[i] != b[i])) return false;
  }
  return true;
}

void Fail(const std::string& name, const char* what) {
  std::fprintf(stderr, "%s: %s\n", name.c_str(), what);
  std::abort();
}

std::vector<std::byte> Saved(const CodecState* state) {
  std::vector<std::byte> saved(state == nullptr ? 0 : state->bytes());
  if (state != nullptr) state->Save(saved);
  return saved;
}

// A copy of what the receiver held.
std::unique_ptr<CodecState> CopyOf(const Codec& codec, const CodecState* state) {
  if (state == nullptr) return nullptr;
  auto copy = codec.NewDecoderState(state->shape());
  if (!copy->Load(Saved(state)).ok()) std::abort();
  return copy;
}

void DecodeEverywhere(const std::vector<std::byte>& frame, Shape shape, const Both& codecs,
                      const CodecState* held) {
  std::vector<float> a(shape.elements()), b(shape.elements());
  const auto scalar_state = CopyOf(*codecs.scalar, held), fast_state = CopyOf(*codecs.fast, held);
  const absl::Status scalar =
      codecs.scalar->Decode(frame, scalar_state.get(), {a.data(), DType::kF32, shape});
  const absl::Status fast =
      codecs.fast->Decode(frame, fast_state.get(), {b.data(), DType::kF32, shape});
  if (scalar.code() != fast.code() || (scalar.ok() && !Alike(a, b))) {
    Fail(codecs.name, "scalar and fastest kernels differ");
  }
  const auto after = Saved(fast_state.get());
  if (after != Saved(scalar_state.get())) Fail(codecs.name, "states differ");
  if (!fast.ok() && after != Saved(held)) Fail(codecs.name, "a refused frame changed the state");
}

// By what the frame says of itself, as a receiver that does not know what will come.
void DecodeByHeader(const std::vector<std::byte>& frame, Shape shape, DType dtype) {
  std::vector<std::byte> y(shape.elements() * BytesPerElement(dtype));
  (void)DecodeFrame(frame, {y.data(), dtype, shape});
  FrameReceiver receiver;
  (void)receiver.Decode(frame, {y.data(), dtype, shape});
  (void)receiver.Decode(frame, {y.data(), dtype, shape});
  (void)DescribeFrame(frame);
}

// Low-rank factors begin at 4096 elements; tiles have edges of up to 64, and the larger the slower.
Shape ShapeOf(Input& in, std::string_view name) {
  const uint64_t r = in.Byte(), c = in.Byte();
  if (name.starts_with("powersgd") || name.starts_with("diloco")) return {60 + r % 12, 64 + c % 9};
  if (name.starts_with("demo") && r == 255) return {60 + r % 9, 60 + c % 80};
  if (name.starts_with("demo")) return {1 + r % 9, 1 + c % 20};
  return {1 + r % 4, 1 + c % 200};
}

}  // namespace
}  // namespace longhaul

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace longhaul;
  std::string_view name = *argc > 0 ? (*argv)[0] : "";
  name.remove_prefix(name.rfind('/') + 1);
  constexpr std::string_view kBefore = "compressors_decoder_", kAfter = "_fuzz";
  if (!name.starts_with(kBefore) || name.size() <= kBefore.size() + kAfter.size()) return 0;
  name = name.substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size());
  for (const Family& family : Families()) {
    if (family.name == name) chosen = &family;
  }
  if (chosen == nullptr) {
    std::fprintf(stderr, "no family is called %.*s\n", static_cast<int>(name.size()), name.data());
    std::exit(1);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace longhaul;
  Input in = {bytes, size};
  const Family& family = chosen != nullptr ? *chosen : Families()[in.Byte() % Families().size()];
  const uint8_t kind = in.Byte();
  const bool header_only = family.name == "frame";
  const std::string& name = family.codecs[in.Byte() % family.codecs.size()];
  const Shape shape = ShapeOf(in, name);
  const Both& codecs = CodecsOf(name);
  if (header_only || kind % 8 < 2) {
    const auto frame = kind % 2 == 0 ? RawFrame(in) : SealedFrame(in, shape);
    DecodeByHeader(frame, shape, static_cast<DType>(kind / 8 % 3));
    if (!header_only) {
      DecodeEverywhere(frame, shape, codecs, codecs.fast->NewDecoderState(shape).get());
    }
    return 0;
  }
  const TrueFrames& frames = TrueFramesOf(codecs, shape);
  const auto frame = ShapedFrame(in, frames);
  DecodeEverywhere(frame, shape, codecs, frames.received.get());
  if (kind % 8 == 2) DecodeByHeader(frame, shape, static_cast<DType>(kind / 8 % 3));
  return 0;
}
