// Codecs allocate in their first calls only, and no more than the documentation says
// (compressors/README.md, "Scratch memory"). The operators of this program count.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <new>
#include <thread>

#include "tests/compressors/tensors.h"

namespace {

thread_local size_t allocations = 0, live_bytes = 0, most_bytes = 0;

void* Allocate(size_t bytes) {
  void* p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) std::abort();
  ++allocations;
  live_bytes += malloc_usable_size(p);
  most_bytes = live_bytes > most_bytes ? live_bytes : most_bytes;
  return p;
}
void Free(void* p) {
  if (p != nullptr) live_bytes -= malloc_usable_size(p);
  std::free(p);
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void operator delete(void* p) noexcept { Free(p); }
void operator delete[](void* p) noexcept { Free(p); }
void operator delete(void* p, size_t) noexcept { Free(p); }
void operator delete[](void* p, size_t) noexcept { Free(p); }

namespace longhaul {
namespace {

// Bytes of scratch memory per element, in 1/1024, beside a fixed MiB. Everything else: none.
size_t ScratchPer1024(std::string_view name) {
  if (name.ends_with("+sat")) return ScratchPer1024(name.substr(0, name.rfind('+')));
  // Two tensors, and at most a copy of the frame.
  if (name.ends_with("+ef21")) return 12 * 1024 + ScratchPer1024(name.substr(0, name.rfind('+')));
  if (name.starts_with("aqsgd")) return 7 * 1024;
  if (name.starts_with("powersgd-") || name == "diloco-x" || name == "demo-dct") return 8 * 1024;
  if (name.ends_with("+ef") || name.ends_with("+ef95")) {
    const bool sparse = name.starts_with("topk-") || name.starts_with("randk-") ||
                        name == "sparseloco" || name == "16x" || name == "16x-randk" ||
                        name == "100x";
    if (!sparse) return 8 * 1024;
    name = name.substr(0, name.rfind('+'));
  }
  if (name.ends_with("+mc") || name == "dgc") return 12 * 1024;
  if (name == "onebit-adam" || name == "onebit-sgd") return 8 * 1024;
  if (name.starts_with("topk-") || name.starts_with("randk-") || name.starts_with("16x") ||
      name == "100x" || name == "sparseloco") {
    return 8 * 1024 / 4;  // 8 bytes per kept element, of which there is at most one in four here
  }
  if (name.starts_with("tah4-")) return 2 * (1024 / 32 + 1024 / 256);
  return 0;
}

std::vector<std::string> Names() {
  std::vector<std::string> names = TestedNames();
  for (const CodecAlias& alias : CodecAliases()) names.emplace_back(alias.name);
  names.emplace_back("int4-b64-h64+ef");
  return names;
}

TEST(AllocationTest, NoneAfterTheFirstCallAndNoMoreScratchThanDocumented) {
  const Shape shape = {256, 1024};
  const OwnedTensor x(Draw(Distribution::kGaussian, shape.elements(), 3), shape, DType::kF32);
  for (const std::string& name : Names()) {
    // A thread of its own: what it keeps as scratch memory is this codec's alone.
    std::thread([&] {
      const auto codec = *MakeCodec(name);
      const auto state = codec->NewState(shape), decoder_state = codec->NewDecoderState(shape);
      std::vector<std::byte> frame(codec->MaxFrameBytes(shape, DType::kF32));
      OwnedTensor y(shape, DType::kF32);
      const size_t before = live_bytes;
      most_bytes = live_bytes;
      size_t calls = 0;
      for (int round = 0; round < 3; ++round) {
        calls = allocations;
        const auto bytes = codec->Encode(x.view(), 7, state.get(), frame);
        ASSERT_TRUE(bytes.ok()) << name << " " << bytes.status();
        const absl::Status decoded =
            codec->Decode(std::span(frame).first(*bytes), decoder_state.get(), y.mutable_view());
        ASSERT_TRUE(decoded.ok()) << name << " " << decoded;
        calls = allocations - calls;
      }
      EXPECT_EQ(calls, 0u) << name << ": allocations in the third round";
      const size_t documented = (size_t{1} << 20) + shape.elements() * ScratchPer1024(name) / 1024;
      EXPECT_LE(most_bytes - before, documented) << name;
    }).join();
  }
}

}  // namespace
}  // namespace longhaul
