// Encode and decode speed of every codec in GB/s of fp32 input, one thread and two, in the L2 cache
// and in memory, against what the memory allows in the same run:
//   limit   read bandwidth / (passes + bits per element / 32); `passes` is how often the algorithm
//           must read the tensor: once, or more where a figure of the whole tensor comes first
// Tensors take turns. In the cache, because of one that it sees again and again a processor learns
// the branches by heart, which flatters whatever branches on data (torch.topk two- to threefold);
// in memory, because part of one is still in the last cache when its turn comes again. Every codec
// is timed in rounds, each beside reading, and codecs that ggml has too in turns with its C (with
// --ggml), so that what the machine's other users do hits all alike; the figures are medians over
// the rounds. Only ratios of one run mean anything.
//
// Usage: codecs_bench [--filter PART] [--only "NAME NAME"] [--json FILE] [--ggml LIBRARY]
//                     [--rounds N] [--isa NAME] [--place L2|DRAM|DRAM2] [--clock cpu]
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/codec_rows.h"
#include "bench/codec_timing.h"
#include "bench/line_aligned.h"
#include "compressors/catalog.h"
#include "compressors/numbers/codec_threads.h"

namespace longhaul {
namespace {

struct Options {
  std::string filter, only, json, ggml;  // empty: all, all, nowhere, none
  std::string place;                     // empty: all
  Clock clock = Clock::kWall;
  int rounds = 9;
  Isa isa = BestIsa();
};

// Of the core that this runs on, as the kernel lists it: sysconf() counts the caches of a whole
// socket on some processors.
size_t LastCacheBytes() {
  size_t bytes = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream in("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    size_t kib = 0;  // "32768K"
    if (in >> kib) bytes = std::max(bytes, kib << 10);
  }
  return bytes > 0 ? bytes : size_t{32} << 20;
}

// 128 KiB of fp32 in a cache of 512 KiB or more. In memory tensors of 64 MiB, together at least
// eight times the last cache: of one of twice the cache that is read again and again, a quarter is
// still there and reading looks a third faster than memory is. What is written takes turns too. No
// more than half of the machine's memory, though: values, outputs and two frames of each.
std::vector<Place> Places() {
  constexpr size_t kBytes = size_t{64} << 20;
  const size_t wanted = (8 * LastCacheBytes() + kBytes - 1) / kBytes;
  const size_t memory =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t tensors = std::max<size_t>(2, std::min(wanted, memory / (2 * 4 * kBytes)));
  return {{"L2", size_t{32} << 10, 1, 64, true},
          {"DRAM", kBytes / 4, 1, tensors, false},
          {"DRAM", kBytes / 4, 2, tensors, false}};
}

// Of all places: to touch fresh memory can take a virtual machine seconds per GiB.
struct Memory {
  LineAligned<float> x, in_cache, y;
  LineAligned<std::byte> frames, other_frames;
};

template <typename T>
void Grow(LineAligned<T>& memory, size_t n) {
  if (memory.size() < n) memory = LineAligned<T>(n);
}

// `tensors` of n elements to x; in memory all have the same values.
void DrawGaussian(size_t n, size_t tensors, bool same, LineAligned<float>& x) {
  Grow(x, n * tensors);
  const size_t drawn = same ? n : n * tensors;
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::generate_n(x.begin(), drawn, [&] { return normal(rng); });
  for (size_t i = drawn; i < n * tensors; i += n) std::copy_n(x.data(), n, x.data() + i);
}

// A place's tensors, and the slots of memory that codecs read and write: one in a cache, as many as
// there are tensors in memory.
class Bench {
 public:
  Bench(const Options& options, const Place& place, Memory& memory)
      : options_(options),
        place_(place),
        slots_(place.cached ? 1 : place.tensors),
        memory_(memory) {
    DrawGaussian(place.elements, place.tensors, !place.cached, memory.x);
    Grow(memory.in_cache, place.elements * (place.cached ? 1 : 0));
    Grow(memory.y, place.elements * slots_);
  }

  const Row* Codec(std::string_view name, std::vector<Row>& rows);
  void Ggml(const GgmlLibrary& ggml, std::vector<Row>& rows);
  void BesideGgml(std::string_view name, const GgmlFormat& format, std::vector<Ratio>& ratios);
  Row References();

 private:
  using Work = std::function<void(size_t slot)>;
  const float* X(size_t slot) const {
    return place_.cached ? memory_.in_cache.data() : memory_.x.data() + slot * place_.elements;
  }
  float* Y(size_t slot) { return memory_.y.data() + slot * place_.elements; }

  // What a pass writes: `floats` at `at`, in every slot.
  struct Output {
    const void* at;
    size_t floats;
  };
  Output Values() const { return {memory_.y.data(), place_.elements}; }

  // `work` on the next tensor, after `before`. In a cache its output is there too.
  Pass OnNext(Work work, Output out, Work before = nullptr) {
    if (!place_.cached && before == nullptr) {
      return {[this, work = std::move(work)] { work(NextTurn()); }};
    }
    return {[this, work = std::move(work)] { work(place_.cached ? 0 : turn_); },
            [this, out, before = std::move(before)] {
              const size_t turn = NextTurn();
              if (place_.cached) CopyIn(turn);
              if (before != nullptr) before(place_.cached ? 0 : turn);
              if (place_.cached) ReadAll(static_cast<const float*>(out.at), out.floats);
            }};
  }
  void CopyIn(size_t turn) {
    std::copy_n(memory_.x.data() + turn * place_.elements, place_.elements,
                memory_.in_cache.data());
  }
  size_t NextTurn() { return turn_ = (turn_ + 1) % place_.tensors; }

  Pass Reading() {
    return OnNext(
        [this](size_t slot) {
          InSlices([x = X(slot)](size_t first, size_t n) { ReadAll(x + first, n); });
        },
        {});
  }
  Pass Copying() {
    return OnNext(
        [this](size_t slot) {
          InSlices([x = X(slot), y = Y(slot)](size_t first, size_t n) {
            std::memcpy(y + first, x + first, 4 * n);
          });
        },
        Values());
  }
  template <typename F>
  void InSlices(const F& work) const {
    const Slices slices(place_.elements, size_t{64} << 10);
    CodecThreads::Process().Run(
        slices.count(), [&](size_t i) { work(slices.first(i), slices.last(i) - slices.first(i)); });
  }

  const Options& options_;
  const Place& place_;
  const size_t slots_;
  Memory& memory_;
  size_t turn_ = 0;
};

// A codec, a sender and a receiver, with a frame for every slot in `memory`, which only grows.
struct Ends {
  Ends(const Codec& codec, Shape shape, size_t slots, LineAligned<std::byte>& memory)
      : codec(codec),
        shape(shape),
        sender(codec.NewState(shape)),
        receiver(codec.NewDecoderState(shape)),
        room((codec.MaxFrameBytes(shape, DType::kF32) + 63) / 64 * 64),
        frames(memory),
        bytes(slots) {
    Grow(frames, room * slots);
  }
  std::span<std::byte> Frame(size_t slot) { return std::span(frames).subspan(slot * room, room); }
  bool Encode(const float* x, size_t slot) {
    const auto written = codec.Encode({x, DType::kF32, shape}, 1, sender.get(), Frame(slot));
    last_bytes = bytes[slot] = written.value_or(0);
    return written.ok();
  }
  // What Encode wrote last: a state changes the frame.
  bool Decode(size_t slot, float* y) {
    return codec.Decode(Frame(slot).first(bytes[slot]), receiver.get(), {y, DType::kF32, shape})
        .ok();
  }
  const Codec& codec;
  const Shape shape;
  const std::unique_ptr<CodecState> sender, receiver;
  const size_t room;
  LineAligned<std::byte>& frames;
  std::vector<size_t> bytes;
  size_t last_bytes = 0;  // the first frames of a codec with a state may be larger
};

const Row* Bench::Codec(std::string_view name, std::vector<Row>& rows) {
  const auto codec = MakeCodec(name, options_.isa);
  if (!codec.ok()) return nullptr;
  const Shape shape = {place_.elements / 4096, 4096};
  Ends ends(**codec, shape, slots_, memory_.frames);
  for (size_t slot = 0; slot < slots_; ++slot) {
    if (place_.cached) CopyIn(0);
    if (!ends.Encode(X(slot), slot)) return nullptr;
  }
  bool good = true;
  const Pass encode = OnNext([&](size_t slot) { good &= ends.Encode(X(slot), slot); },
                             {ends.frames.data(), ends.room / 4});
  Pass decode = OnNext([&](size_t slot) { good &= ends.Decode(slot, Y(slot)); }, Values());
  // Frames of differences decode once and in order.
  std::unique_ptr<Ends> others;
  if (ends.receiver != nullptr || place_.cached) {
    others = std::make_unique<Ends>(**codec, shape, slots_, memory_.other_frames);
    decode = OnNext([&](size_t slot) { good &= others->Decode(slot, Y(slot)); }, Values(),
                    [&](size_t slot) { good &= others->Encode(X(slot), slot); });
  }
  auto times =
      TimeRounds(options_.rounds, place_.elements, Reading(), {encode, decode}, options_.clock);
  if (!good) return nullptr;
  const double bits =
      8 * static_cast<double>(ends.last_bytes - 64) / static_cast<double>(place_.elements);
  rows.push_back({std::string(name), place_, bits, PassesOf(name), times[0], times[1]});
  return &rows.back();
}

void Bench::Ggml(const GgmlLibrary& ggml, std::vector<Row>& rows) {
  const size_t room = 5 * place_.elements;
  LineAligned<std::byte>& out = memory_.frames;
  Grow(out, room * slots_);
  const auto k = static_cast<int64_t>(place_.elements);
  for (const GgmlFormat& format : ggml.formats) {
    const Work encode = [&](size_t slot) { format.encode(X(slot), &out[slot * room], k); };
    const Work decode = [&](size_t slot) { format.decode(&out[slot * room], Y(slot), k); };
    for (size_t slot = 0; slot < slots_; ++slot) encode(slot);
    auto times = TimeRounds(options_.rounds, place_.elements, Reading(),
                            {OnNext(encode, {out.data(), place_.elements}),
                             OnNext(decode, Values(), place_.cached ? encode : nullptr)},
                            options_.clock);
    rows.push_back({format.name, place_, format.bits, 1, times[0], times[1]});
  }
}

void Bench::BesideGgml(std::string_view name, const GgmlFormat& format,
                       std::vector<Ratio>& ratios) {
  const auto codec = MakeCodec(name, options_.isa);
  if (!codec.ok()) return;
  const size_t room = 5 * place_.elements;
  LineAligned<std::byte>& out = memory_.frames;
  Grow(out, room * slots_);
  const auto k = static_cast<int64_t>(place_.elements);
  const Work encode = [&](size_t slot) { format.encode(X(slot), &out[slot * room], k); };
  const Work decode = [&](size_t slot) { format.decode(&out[slot * room], Y(slot), k); };
  Ends ends(**codec, {place_.elements / 4096, 4096}, slots_, memory_.other_frames);
  bool good = true;
  const Work our_encode = [&](size_t slot) { good &= ends.Encode(X(slot), slot); };
  const Work our_decode = [&](size_t slot) { good &= ends.Decode(slot, Y(slot)); };
  for (size_t slot = 0; slot < slots_; ++slot) {
    encode(slot);
    our_encode(slot);
  }
  const bool cached = place_.cached;
  const auto encoding =
      TimeRounds(options_.rounds, place_.elements, OnNext(encode, {out.data(), place_.elements}),
                 {OnNext(our_encode, {ends.frames.data(), ends.room / 4})}, options_.clock);
  const auto decoding = TimeRounds(
      options_.rounds, place_.elements, OnNext(decode, Values(), cached ? encode : nullptr),
      {OnNext(our_decode, Values(), cached ? our_encode : nullptr)}, options_.clock);
  if (!good) return;
  ratios.push_back(
      {std::string(name), format.name, place_, encoding[0].of_read, decoding[0].of_read});
}

// Reading and copying as a row: "encode" reads, "decode" copies.
Row Bench::References() {
  auto times = TimeRounds(options_.rounds, place_.elements, Reading(), {Reading(), Copying()},
                          options_.clock);
  return {"read, memcpy", place_, 0, 1, times[0], times[1]};
}

std::vector<std::string> Names(const Options& options) {
  std::vector<std::string> names = CodecNames();
  for (const CodecAlias& alias : CodecAliases()) names.emplace_back(alias.name);
  for (const char* name :
       {"int4-b64-h64+ef", "int8-b64+ef21", "int8-b64+sr", "int4-b64+sr", "mxfp4-h32+sr",
        "topk-64of4096+none", "topk-410of4096+fp16", "randk-410of4096+fp16"}) {
    names.emplace_back(name);
  }
  const std::string only = " " + options.only + " ";
  std::erase_if(names, [&](const std::string& name) {
    return name.find(options.filter) == std::string::npos ||
           (!options.only.empty() && only.find(" " + name + " ") == std::string::npos);
  });
  return names;
}

int RunAll(const Options& options) {
  const GgmlLibrary ggml = LoadGgml(options.ggml);
  std::vector<Row> rows;
  std::vector<Ratio> ratios;
  Memory memory;
  for (const Place& place : Places()) {
    const std::string key = place.name + std::string(place.threads > 1 ? "2" : "");
    if (!options.place.empty() && options.place != key) continue;
    CodecThreads::Process().SetCount(place.threads);
    Bench bench(options, place, memory);
    Print(rows.emplace_back(bench.References()));
    for (const std::string& name : Names(options)) {
      if (const Row* row = bench.Codec(name, rows)) {
        Print(*row);
      } else {
        std::fprintf(stderr, "codecs_bench: %s is not timed: it refuses this tensor\n",
                     name.c_str());
      }
    }
    if (place.threads > 1) continue;
    const size_t before = rows.size();
    bench.Ggml(ggml, rows);
    for (size_t i = before; i < rows.size(); ++i) Print(rows[i]);
    const size_t no_ratios = ratios.size();
    for (const GgmlFormat& format : ggml.formats) {
      if (format.name.starts_with("ggml q8_0")) bench.BesideGgml("q8_0", format, ratios);
      if (format.name == "ggml q4_0") bench.BesideGgml("int4-b64", format, ratios);
    }
    for (size_t i = no_ratios; i < ratios.size(); ++i) Print(ratios[i]);
  }
  if (!options.json.empty()) WriteJson(options.json, options.isa, rows, ratios);
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  longhaul::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view key = argv[i];
    const char* value = argv[i + 1];
    if (key == "--filter") options.filter = value;
    if (key == "--only") options.only = value;
    if (key == "--json") options.json = value;
    if (key == "--ggml") options.ggml = value;
    if (key == "--rounds") options.rounds = std::max(1, std::atoi(value));
    if (key == "--place") options.place = value;
    if (key == "--clock" && std::string_view(value) == "cpu") options.clock = longhaul::Clock::kCpu;
    if (key == "--isa") {
      for (longhaul::Isa isa : longhaul::AllIsas()) {
        if (longhaul::IsaName(isa) == value) options.isa = isa;
      }
    }
  }
  return longhaul::RunAll(options);
}
