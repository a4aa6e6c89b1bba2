// Encode and decode speed of every codec in GB/s of fp32 input, one thread and two, in the L2 cache
// and in memory, against what the memory allows in the same run:
//   limit   read bandwidth / (passes + bits per element / 32); `passes` is how often the algorithm
//           must read the tensor: once, or more where a figure of the whole tensor comes first
// In the cache tensors take turns: of one that it sees again and again a processor learns the
// branches by heart, which flatters whatever branches on data (torch.topk two- to threefold).
// Every codec is timed in rounds, each beside reading, copying and (with --ggml) ggml's C, so that
// what the machine's other users do hits all alike; the figures are medians over the rounds.
// Only ratios of one run mean anything.
//
// Usage: codecs_bench [--filter PART] [--only "NAME NAME"] [--json FILE] [--ggml LIBRARY]
//                     [--rounds N] [--isa NAME] [--place L2|DRAM|DRAM2] [--clock cpu]
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

#include "bench/codec_timing.h"
#include "bench/line_aligned.h"
#include "compressors/catalog.h"
#include "compressors/codec_threads.h"

namespace longhaul {
namespace {

struct Options {
  std::string filter, only, json, ggml;  // empty: all, all, nowhere, none
  std::string place;                     // empty: all
  Clock clock = Clock::kWall;
  int rounds = 9;
  Isa isa = BestIsa();
};

struct Place {
  const char* name;
  size_t elements;
  size_t threads;
  size_t tensors;  // that take turns; each is copied in before it is timed
};
// 128 KiB of fp32 in a cache of 512 KiB or more; 64 MiB, twice the last cache of the machine that
// the documented figures are of.
constexpr Place kPlaces[] = {{"L2", size_t{32} << 10, 1, 64},
                             {"DRAM", size_t{16} << 20, 1, 1},
                             {"DRAM", size_t{16} << 20, 2, 1}};

LineAligned<float> Gaussian(size_t n) {
  LineAligned<float> x(n);
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (float& v : x) v = normal(rng);
  return x;
}

struct Row {
  std::string name;
  Place place;
  double bits;  // per element, of the frame
  double passes;
  Timing encode, decode;
};

// How often encoding must see the whole tensor.
double PassesOf(std::string_view name) {
  if (name.starts_with("stat") && !name.ends_with("-rows")) return 2;  // mean and deviation, codes
  for (std::string_view two : {"nvfp4", "e3m0", "mix34-b64", "quantile8", "4x"}) {
    if (name == two) return 2;
  }
  return 1;
}

// A codec's tensors, made once per place.
class Bench {
 public:
  Bench(const Options& options, const Place& place)
      : options_(options),
        place_(place),
        all_(Gaussian(place.elements * place.tensors)),
        x_(all_.begin(), all_.begin() + static_cast<ptrdiff_t>(place.elements)),
        y_(place.elements) {}

  const Row* Codec(std::string_view name, std::vector<Row>& rows);
  void Ggml(const GgmlLibrary& ggml, std::vector<Row>& rows);
  Row References();

 private:
  // `work` on the next tensor, after `before`; what it writes, `floats` at `out`, is in the cache.
  Pass OnNext(std::function<void()> work, const void* out, size_t floats,
              std::function<void()> before = nullptr) {
    if (place_.tensors == 1) return {std::move(work), std::move(before)};
    return {std::move(work), [this, out, floats, before = std::move(before)] {
              turn_ = (turn_ + 1) % place_.tensors;
              std::memcpy(x_.data(), all_.data() + turn_ * place_.elements, 4 * place_.elements);
              if (before != nullptr) before();
              ReadAll(static_cast<const float*>(out), floats);
            }};
  }
  void Read() const {
    const Slices slices(place_.elements, size_t{64} << 10);
    CodecThreads::Process().Run(slices.count(), [&](size_t i) {
      ReadAll(x_.data() + slices.first(i), slices.last(i) - slices.first(i));
    });
  }
  Pass Reading() {
    return OnNext([this] { Read(); }, nullptr, 0);
  }
  void Copy() {
    const Slices slices(place_.elements, size_t{64} << 10);
    CodecThreads::Process().Run(slices.count(), [&](size_t i) {
      std::memcpy(y_.data() + slices.first(i), x_.data() + slices.first(i),
                  4 * (slices.last(i) - slices.first(i)));
    });
  }

  const Options& options_;
  const Place& place_;
  const LineAligned<float> all_;
  size_t turn_ = 0;
  LineAligned<float> x_, y_;
};

// A codec, a sender and a receiver of one tensor.
struct Ends {
  Ends(const Codec& codec, ConstTensor x, Tensor y)
      : codec(codec),
        x(x),
        y(y),
        sender(codec.NewState(x.shape)),
        receiver(codec.NewDecoderState(x.shape)),
        frame(codec.MaxFrameBytes(x.shape, x.dtype)) {}
  bool Encode() {
    const auto written = codec.Encode(x, 1, sender.get(), frame);
    bytes = written.value_or(0);
    return written.ok();
  }
  // What Encode wrote last: a state changes the frame.
  bool Decode() { return codec.Decode(std::span(frame).first(bytes), receiver.get(), y).ok(); }
  const Codec& codec;
  const ConstTensor x;
  const Tensor y;
  const std::unique_ptr<CodecState> sender, receiver;
  LineAligned<std::byte> frame;
  size_t bytes = 0;
};

const Row* Bench::Codec(std::string_view name, std::vector<Row>& rows) {
  const auto codec = MakeCodec(name, options_.isa);
  if (!codec.ok()) return nullptr;
  const Shape shape = {place_.elements / 4096, 4096};
  const ConstTensor x = {x_.data(), DType::kF32, shape};
  const Tensor y = {y_.data(), DType::kF32, shape};
  Ends ends(**codec, x, y), others(**codec, x, y);
  if (!ends.Encode()) return nullptr;
  bool good = true;
  const Pass encode =
      OnNext([&] { good &= ends.Encode(); }, ends.frame.data(), ends.frame.size() / 4);
  Pass decode = {[&] { good &= ends.Decode(); }};
  // Frames of differences decode once and in order.
  if (ends.receiver != nullptr || place_.tensors > 1) {
    decode = OnNext([&] { good &= others.Decode(); }, y_.data(), y_.size(),
                    [&] { good &= others.Encode(); });
  }
  auto times =
      TimeRounds(options_.rounds, place_.elements, Reading(), {encode, decode}, options_.clock);
  if (!good) return nullptr;
  const double bits =
      8 * static_cast<double>(ends.bytes - 64) / static_cast<double>(place_.elements);
  rows.push_back({std::string(name), place_, bits, PassesOf(name), times[0], times[1]});
  return &rows.back();
}

void Bench::Ggml(const GgmlLibrary& ggml, std::vector<Row>& rows) {
  LineAligned<std::byte> out(5 * place_.elements);
  const auto k = static_cast<int64_t>(place_.elements);
  for (const GgmlFormat& format : ggml.formats) {
    const auto encode = [&] { format.encode(x_.data(), out.data(), k); };
    Pass decode = {[&] { format.decode(out.data(), y_.data(), k); }};
    if (place_.tensors > 1) decode = OnNext(decode.work, y_.data(), y_.size(), encode);
    auto times = TimeRounds(options_.rounds, place_.elements, Reading(),
                            {OnNext(encode, out.data(), place_.elements), decode}, options_.clock);
    rows.push_back({format.name, place_, format.bits, 1, times[0], times[1]});
  }
}

// Reading and copying as a row: "encode" reads, "decode" copies.
Row Bench::References() {
  auto times =
      TimeRounds(options_.rounds, place_.elements, Reading(),
                 {Reading(), OnNext([&] { Copy(); }, y_.data(), y_.size())}, options_.clock);
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

double LimitShare(const Row& row, const Timing& timing, double passes) {
  return timing.of_read * (passes + row.bits / 32);
}

void Print(const Row& row) {
  std::printf("%-24s %5s %zuT %7.3f bits  encode %6.2f GB/s %4.0f %%  decode %6.2f GB/s %4.0f %%\n",
              row.name.c_str(), row.place.name, row.place.threads, row.bits, row.encode.gb_per_s,
              100 * LimitShare(row, row.encode, row.passes), row.decode.gb_per_s,
              100 * LimitShare(row, row.decode, 1));
  std::fflush(stdout);
}

void WriteJson(const Options& options, const std::vector<Row>& rows) {
  std::ofstream out(options.json);
  out << "{\"isa\": \"" << IsaName(options.isa) << "\", \"rows\": [\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    char line[512];
    std::snprintf(line, sizeof(line),
                  "  {\"name\": \"%s\", \"place\": \"%s\", \"threads\": %zu, \"elements\": %zu, "
                  "\"bits\": %.4f, \"passes\": %.0f, \"encode_gb_s\": %.4f, \"decode_gb_s\": %.4f, "
                  "\"encode_of_read\": %.4f, \"decode_of_read\": %.4f, "
                  "\"encode_of_limit\": %.4f, \"decode_of_limit\": %.4f}",
                  row.name.c_str(), row.place.name, row.place.threads, row.place.elements, row.bits,
                  row.passes, row.encode.gb_per_s, row.decode.gb_per_s, row.encode.of_read,
                  row.decode.of_read, LimitShare(row, row.encode, row.passes),
                  LimitShare(row, row.decode, 1));
    out << line << (i + 1 < rows.size() ? ",\n" : "\n");
  }
  out << "]}\n";
}

int RunAll(const Options& options) {
  const GgmlLibrary ggml = LoadGgml(options.ggml);
  std::vector<Row> rows;
  for (const Place& place : kPlaces) {
    const std::string key = place.name + std::string(place.threads > 1 ? "2" : "");
    if (!options.place.empty() && options.place != key) continue;
    CodecThreads::Process().SetCount(place.threads);
    Bench bench(options, place);
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
  }
  if (!options.json.empty()) WriteJson(options, rows);
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
