// How fast runs go in simulated time: 10^4 rounds of 1,000 groups of 64 stages, each group killed
// every 100 rounds on average, on one core. Bar: a minute. Exit status 1 beyond it.
#include <chrono>
#include <cstdio>
#include <string>

#include "experiments/planning/scale.h"
#include "experiments/spec/known_names.h"

namespace {

constexpr double kBarSeconds = 60;

constexpr char kSpec[] = R"(seed = 1
[model]
kind = "gpt"
blocks = 64
width = 256
heads = 4
context = 64
vocab = 256
[data]
source = "headers"
[train]
steps = 1000000
batch_rows = 64
microbatches = 64
lr = 3e-3
[compute]
forward_s = 0.02
backward_s = 0.04
optimizer_s = 0.01
[schedule]
kind = "1f1b"
stages = 64
[boundary]
forward = "int4-b64-h64"
backward = "int8-b64"
[outer]
groups = 1000
inner_steps = 100
codec = "int4-b64-h64"
[net]
transport = "ucx"
profile = "continental-us"
[eval]
rows = 1
[[fault]]
what = "kill"
where = "any group"
mean_time_between_steps = 10000
)";

}  // namespace

int main() {
  using namespace longhaul;
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<TomlValue> root = ParseToml(kSpec, "scale.toml");
  if (!root.ok()) return 1;
  const auto spec = scale::ReadScaleSpec(*std::move(root), CatalogNames());
  if (!spec.ok())
    return std::fprintf(stderr, "%s\n", std::string(spec.status().message()).c_str()), 1;
  auto pace = scale::GroupPace::Of(*spec);
  if (!pace.ok()) return 1;
  const scale::ScaleResult r = scale::SimulateRounds(*spec, *pace, 1);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool held = seconds < kBarSeconds && r.rounds == 10'000 && r.faults > 90'000;
  std::printf(
      "S 64, G 1000: %lld rounds, %lld faults, %.3g simulated days in %.2f s; bar %.0f s\n%s\n",
      static_cast<long long>(r.rounds), static_cast<long long>(r.faults), r.seconds / 86400,
      seconds, kBarSeconds, held ? "held" : "MISSED");
  return held ? 0 : 1;
}
