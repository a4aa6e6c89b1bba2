// How far a sum with a codec is from the exact one, by way and number of ranks: against the closed form
// of independent errors, and the table of docs/compressed-collectives.md, which LONGHAUL_WRITE_DOCS=1
// writes anew.
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compressors/catalog.h"
#include "tests/plugin/group_fixture.h"

namespace longhaul {
namespace {

using Way = CodecPolicy::Collectives::Way;
using Values = std::vector<float>;

constexpr size_t kCount = 1 << 16;
constexpr int kRanks[] = {2, 4, 8, 16};

// Sums of twelve uniform numbers: almost normal, the same on every machine.
Values Normal(uint64_t seed) {
  Values sum(kCount);
  for (uint64_t i = 0; i < 12; ++i) {
    const Values uniform = Noise(kCount, 1000 * seed + i);
    for (size_t k = 0; k < kCount; ++k) sum[k] += uniform[k];
  }
  return sum;
}

double Nmse(const Values& got, const std::vector<double>& exact) {
  double error = 0, power = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += (got[i] - exact[i]) * (got[i] - exact[i]);
    power += exact[i] * exact[i];
  }
  return error / power;
}

// Of the codec alone.
double NmseOf(const std::string& name) {
  const auto codec = MakeCodec(name).value();
  const Values x = Normal(99);
  const Shape shape{1, kCount};
  std::vector<std::byte> frame(codec->MaxFrameBytes(shape, DType::kF32));
  frame.resize(codec->Encode({x.data(), DType::kF32, shape}, 1, nullptr, frame).value());
  Values back(kCount);
  EXPECT_TRUE(DecodeFrame(frame, {back.data(), DType::kF32, shape}).ok());
  return Nmse(back, std::vector<double>(x.begin(), x.end()));
}

struct Measured {
  double nmse;
  double bits;  // that a rank sends per element, headers included
};

Measured Measure(const Cluster& cluster, const std::vector<Values>& in, const std::string& codec,
                 Way way) {
  const auto n = cluster.nodes.size();
  const auto group = cluster.MakeGroup("error", [&](GroupOptions& options) {
    options.codecs.collectives = {.all_reduce = codec, .way = way};
  });
  std::vector<Values> x(in.begin(), in.begin() + static_cast<ptrdiff_t>(n));
  std::vector<double> exact(kCount);
  for (const Values& one : x) {
    for (size_t i = 0; i < kCount; ++i) exact[i] += one[i];
  }
  std::vector<Outcome> outcomes(n);
  for (size_t r = 0; r < n; ++r) {
    group[r]->AllReduce(F32(x[r]), ReduceOp::kSum, outcomes[r].done());
  }
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.Wait(), absl::OkStatus());
  for (size_t r = 1; r < n; ++r) EXPECT_EQ(x[r], x[0]);
  int64_t bytes = 0;
  for (const CrossingCounters& row : group[0]->counters()) {
    bytes += row.sent ? row.collective_bytes : 0;
  }
  return {Nmse(x[0], exact), 8.0 * static_cast<double>(bytes) / kCount};
}

constexpr std::string_view kBegin = "<!-- collective_error_test: begin -->\n";
constexpr std::string_view kEnd = "<!-- collective_error_test: end -->\n";

TEST(CollectiveError, IsTheClosedFormsAndTheTableOfTheDocs) {
  std::vector<Values> in;
  for (uint64_t r = 0; r < 16; ++r) in.push_back(Normal(r));
  std::string table =
      "| codec, way | 2 ranks | 4 | 8 | 16 | bits sent, 2 | 4 | 8 | 16 |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  std::vector<Cluster> clusters;
  for (const int n : kRanks) clusters.emplace_back(TransportKind::kLoopback, n);
  for (const std::string codec : {"int8-b64", "int4-b64-h64", "topk-256of4096+bf16"}) {
    const double once = NmseOf(codec);
    for (const auto& [way, name] :
         {std::pair{Way::kDirect, "direct"}, std::pair{Way::kGather, "gather"},
          std::pair{Way::kRing, "ring"}}) {
      std::string errors, bits;
      for (const Cluster& cluster : clusters) {
        const Measured got = Measure(cluster, in, codec, way);
        errors += fmt::format(" {:.2g} |", got.nmse);
        bits += fmt::format(" {:.1f} |", got.bits);
        if (codec.starts_with("topk")) continue;  // its errors are values, and no more independent
        // Each encoding adds `once` of the power that it encodes, of 1, 2, ... ranks' values.
        const auto n = static_cast<double>(cluster.nodes.size());
        const double encodings = way == Way::kDirect   ? 2 - 1 / n
                                 : way == Way::kGather ? 1
                                                       : (n - 1) / 2 + 1;
        EXPECT_NEAR(got.nmse / (once * encodings), 1, 0.08) << codec << " " << name << " " << n;
      }
      table += fmt::format("| `{}`, {} |{}{}\n", codec, name, errors, bits);
    }
  }
  const std::string path = LONGHAUL_DOCS_DIR "/compressed-collectives.md";
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  std::string page = read.str();
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << path;
  const size_t first = begin + kBegin.size();
  if (std::getenv("LONGHAUL_WRITE_DOCS") != nullptr) {
    page.replace(first, end - first, table);
    std::ofstream(path) << page;
  } else {
    EXPECT_EQ(page.substr(first, end - first), table) << "LONGHAUL_WRITE_DOCS=1 writes it";
  }
}

}  // namespace
}  // namespace longhaul
