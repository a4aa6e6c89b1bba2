// The gradients of one stage, as a hash: what processes that share a device must agree on
// (shared_device.py). A model of each kind, two micro-batches, forward to backward.
//
//   stage_hash DEVICE DTYPE ATTENTION ROUNDS    "ready", waits for a line on stdin, computes ROUNDS times;
//                                     then "hash KIND HEX" of every kind and "ran BEGIN END",
//                                     seconds of CLOCK_MONOTONIC. Exit status 77: no such device
//                                     here.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "compressors/numbers/noise.h"
#include "compressors/numbers/sha256.h"
#include "pp_group/device_check.h"
#include "pp_group/models/model.h"

namespace longhaul {
namespace {

constexpr int64_t kRows = 4, kMicrobatches = 2;

ModelSpec Model(const std::string& kind) {
  return {.blocks = 2,
          .width = 128,
          .heads = 4,
          .context = 64,
          .vocab = 256,
          .kind = kind,
          .engine = "aten"};
}

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<int64_t> Ids(const ModelSpec& model, uint64_t key) {
  std::vector<int64_t> ids(static_cast<size_t>(kRows * model.context));
  for (uint64_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int64_t>(FoldSeed({key, i}) % static_cast<uint64_t>(model.vocab));
  }
  return ids;
}

std::string GradientHash(Stage& stage, const ModelSpec& model) {
  stage.ZeroGradients();
  for (uint64_t m = 0; m < kMicrobatches; ++m) {
    const auto tokens = Ids(model, 10 + m), targets = Ids(model, 20 + m);
    const auto kept = stage.NewActivations(kRows);
    std::vector<double> losses(tokens.size());
    stage.Forward(tokens, {}, {}, kept.get());
    stage.Loss(targets, 1.0f / static_cast<float>(kMicrobatches * losses.size()), kept.get(),
               losses);
    stage.FinishLosses();
    stage.Backward(tokens, {}, {}, kept.get());
  }
  const at::Tensor host = stage.gradients().cpu();
  return Sha256Hex({static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()});
}

int Main(const ComputeSpec& compute, int rounds) {
  at::set_num_threads(1);
  if (const absl::Status there = CheckDevice(compute); !there.ok()) {
    std::cout << there.message() << std::endl;
    return 77;
  }
  struct Entry {
    ModelSpec model;
    std::unique_ptr<Stage> stage;
    std::set<std::string> hashes;
  };
  std::vector<Entry> all;
  for (const std::string& kind : ModelKinds()) {
    const ModelSpec model = Model(kind);
    auto stage = NewStage(
        model,
        {.stage = 0, .stages = 1, .seed = 1, .microbatches = kMicrobatches, .compute = compute});
    if (!stage.ok()) {
      std::cout << stage.status().message() << std::endl;
      return 1;
    }
    all.push_back({model, *std::move(stage), {}});
    GradientHash(*all.back().stage, model);  // what is made at the first use takes no part
  }
  std::cout << "ready" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  const double begin = Now();
  for (int round = 0; round < rounds; ++round) {
    for (Entry& entry : all) entry.hashes.insert(GradientHash(*entry.stage, entry.model));
  }
  const double end = Now();
  for (const Entry& entry : all) {
    for (const std::string& hash : entry.hashes) {
      std::printf("hash %s %s\n", entry.model.kind.c_str(), hash.c_str());
    }
  }
  std::printf("ran %.6f %.6f\n", begin, end);
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: stage_hash DEVICE DTYPE ATTENTION ROUNDS\n";
    return 2;
  }
  return longhaul::Main({.device = argv[1], .dtype = argv[2], .attention = argv[3]},
                        std::atoi(argv[4]));
}
