// Tokens per second of processor time of the pipeline on one thread (on an idle machine that is
// wall time; on a busy one it does not count the others): the unsplit model and S stages in one
// process (lossless in-memory backend, so it is the pipeline that is measured, not a transport),
// on each engine, against the same model in eager Python torch, interleaved in one run so that all
// see the same machine.
//
//   pp_group_bench [--python PYTHON --script bench/eager_gpt.py] [--rounds 5] [--seconds 2]

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <time.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "pp_group/trainer.h"
#include "tests/pp_group/memory_backend.h"

namespace longhaul {
namespace {

absl::Duration Clock() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return absl::DurationFromTimespec(now);
}

// The demo's model and batch (docs/pp_group.md).
TrainSpec DemoSpec(const std::string& engine, int stages, int64_t microbatches) {
  return {
      .model =
          {.blocks = 8, .width = 64, .heads = 4, .context = 128, .vocab = 256, .engine = engine},
      .stages = stages,
      .groups = 1,
      .schedule = "1f1b",
      .microbatches = microbatches,
      .batch_rows = 16,
      .steps = 1000000,
      .inner = {.lr = 3e-3},
      .outer = {.inner_steps = 0},
      .seed = 1};
}

std::shared_ptr<const Corpus> GeneratedText() {
  const std::string path = absl::StrCat("/tmp/pp_group_bench_", getpid(), ".txt");
  std::FILE* file = std::fopen(path.c_str(), "wb");
  for (uint32_t i = 0, x = 1; i < 2000000; ++i, x = x * 1664525 + 1013904223) {
    std::fputc(static_cast<int>(x >> 24), file);
  }
  std::fclose(file);
  auto corpus = Corpus::Open("text:" + path, 256);
  std::remove(path.c_str());
  if (!corpus.ok()) std::abort();
  return *corpus;
}

std::unique_ptr<Trainer> Make(const TrainSpec& spec, const std::shared_ptr<const Corpus>& corpus) {
  const auto boundary = NewMemoryGroup(spec.stages), plain = NewMemoryGroup(spec.stages);
  std::vector<LocalRank> ranks;
  for (int s = 0; s < spec.stages; ++s) ranks.push_back({0, s, boundary[s], plain[s], nullptr});
  auto trainer = Trainer::Create(spec, ranks, corpus, Clock);
  if (!trainer.ok()) {
    std::fprintf(stderr, "%s\n", trainer.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(trainer);
}

double TokensPerSecond(Trainer& trainer, double seconds) {
  int64_t tokens = 0;
  const absl::Duration start = Clock();
  absl::Duration spent;
  do {
    const auto reports = trainer.Step();
    if (!reports.ok()) std::exit(1);
    tokens += reports->front().tokens;
    spent = Clock() - start;
  } while (absl::ToDoubleSeconds(spent) < seconds);
  return static_cast<double>(tokens) / absl::ToDoubleSeconds(spent);
}

// One run of the script; it prints tokens per second. 0: it could not run.
double EagerTokensPerSecond(const std::string& python, const std::string& script, double seconds) {
  std::FILE* pipe = popen(absl::StrCat("'", python, "' '", script, "' ", seconds).c_str(), "r");
  std::array<char, 64> line{};
  double rate = 0;
  const bool read = pipe != nullptr && std::fgets(line.data(), line.size(), pipe) != nullptr;
  if (pipe != nullptr) pclose(pipe);
  return read && absl::SimpleAtod(line.data(), &rate) ? rate : 0;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main(int argc, char** argv) {
  std::string python, script;
  int rounds = 5;
  double seconds = 2;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--python") python = value;
    if (key == "--script") script = value;
    if (key == "--rounds") rounds = std::max(1, std::atoi(value.c_str()));
    if (key == "--seconds") seconds = std::max(0.1, std::atof(value.c_str()));
  }
  at::set_num_threads(1);
  const auto corpus = GeneratedText();
  struct Case {
    std::string name;
    std::unique_ptr<Trainer> trainer;
    std::vector<double> rates;
  };
  std::vector<Case> cases;
  for (const char* engine : {"cpu", "aten"}) {
    for (int64_t microbatches : {1, 4}) {
      for (int stages : {1, 8}) {
        cases.push_back({absl::StrCat(engine, " S=", stages, " M=", microbatches),
                         Make(DemoSpec(engine, stages, microbatches), corpus),
                         {}});
      }
    }
  }
  std::vector<double> eager;
  for (Case& c : cases) TokensPerSecond(*c.trainer, 0.3);  // warm caches
  for (int round = 0; round < rounds; ++round) {
    for (Case& c : cases) c.rates.push_back(TokensPerSecond(*c.trainer, seconds));
    if (!script.empty()) eager.push_back(EagerTokensPerSecond(python, script, seconds));
  }
  std::printf(
      "8 blocks, width 64, context 128, batch 16 rows; tokens per CPU second, one thread; median "
      "of %d rounds\n",
      rounds);
  for (const Case& c : cases)
    std::printf("%-14s %8.0f tokens/s\n", c.name.c_str(), Median(c.rates));
  for (size_t i = 0; i + 1 < cases.size(); i += 2) {
    std::printf("%s costs %.3f of the step time of %s\n", cases[i + 1].name.c_str(),
                Median(cases[i].rates) / Median(cases[i + 1].rates), cases[i].name.c_str());
  }
  if (eager.empty()) return 0;
  const double rate = Median(eager);
  std::printf("%-14s %8.0f tokens/s\n", "eager", rate);
  if (rate == 0) return 1;
  for (const Case& c : cases) {
    std::printf("%s is %.2f times eager torch\n", c.name.c_str(), Median(c.rates) / rate);
  }
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) { return longhaul::Main(argc, argv); }
