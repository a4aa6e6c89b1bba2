// libFuzzer target: no bytes may make a decoder crash, read or write out of bounds, allocate from
// an unchecked length or loop; and the scalar and the fastest kernels must answer alike.
//
// Random bytes never have a right checksum, so the input is bent towards a frame in one of three
// degrees, chosen by its first byte:
//   raw      as it is
//   sealed   magic, length and CRC made right, everything else from the input
//   shaped   the header of a true frame, a few of its bytes changed, the payload from the input
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "compressors/catalog.h"
#include "compressors/crc32c.h"
#include "compressors/frame.h"

namespace longhaul {
namespace {

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

const std::vector<std::string>& Names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = CodecNames();
    for (const char* name :
         {"topk-64of4096+fp16", "topk-3of7+none", "topk-40of100+int4-b64", "randk-9of64+stat2",
          "topk-1of4096+quantile8", "int4-b64+sr", "mxfp4-h32+sr"}) {
      all.emplace_back(name);
    }
    return all;
  }();
  return names;
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
  Put<uint32_t>(frame, 60, 0);
  frame[9] = static_cast<std::byte>(static_cast<uint8_t>(frame[9]) % 3);
  Seal(frame);
  return frame;
}

std::vector<std::byte> ShapedFrame(Input in, Shape shape, const Codec& codec) {
  const std::vector<float> zeros(shape.elements());
  std::vector<std::byte> frame(codec.MaxFrameBytes(shape, DType::kF32));
  const auto bytes = codec.Encode({zeros.data(), DType::kF32, shape}, 1, nullptr, frame);
  if (!bytes.ok()) std::abort();
  frame.resize(*bytes);
  for (int changes = in.Byte() % 3; changes > 0; --changes) {
    const size_t at = in.Byte() % 24;
    frame[at] = static_cast<std::byte>(in.Byte());
  }
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

void DecodeEverywhere(const std::vector<std::byte>& frame, Shape shape, const std::string& name) {
  std::vector<float> a(shape.elements()), b(shape.elements());
  std::vector<uint16_t> half(shape.elements());
  const absl::Status scalar =
      (*MakeCodec(name, Isa::kScalar))->Decode(frame, nullptr, {a.data(), DType::kF32, shape});
  const absl::Status fast =
      (*MakeCodec(name))->Decode(frame, nullptr, {b.data(), DType::kF32, shape});
  if (scalar.code() != fast.code() || (scalar.ok() && !Alike(a, b))) {
    std::fprintf(stderr, "%s: scalar and fastest kernels differ\n", name.c_str());
    std::abort();
  }
  (void)DecodeFrame(frame, {half.data(), DType::kBF16, shape});
  (void)DecodeFrame(frame, {half.data(), DType::kF16, shape});
}

}  // namespace
}  // namespace longhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace longhaul;
  Input in = {bytes, size};
  const uint8_t degree = in.Byte() % 4;
  const std::string& name = Names()[in.Byte() % Names().size()];
  const Shape shape = {1 + in.Byte() % 4u, 1 + in.Byte() % 200u};
  const std::vector<std::byte> frame = degree == 0   ? RawFrame(in)
                                       : degree == 1 ? SealedFrame(in, shape)
                                                     : ShapedFrame(in, shape, **MakeCodec(name));
  DecodeEverywhere(frame, shape, name);
  return 0;
}
