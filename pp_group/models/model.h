#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pp_group/injected_compute.h"
#include "pp_group/models/model_spec.h"
#include "pp_group/stage.h"

namespace longhaul {

// One stage of a run: which, and on what it computes.
struct StageOptions {
  int stage, stages;
  uint64_t seed;                       // of the initial values
  std::span<const int64_t> cuts = {};  // as EmptyLayout takes them
  int64_t microbatches = 1;            // M; scales losses that are means over a micro-batch
  ComputeSpec compute = {};
  // Not null: a stage that sleeps so instead, by `now`.
  const InjectedCompute* injected = nullptr;
  // A clock, borrowed; null: waiting for expert_peers is not timed.
  const std::function<absl::Duration()>* now = nullptr;
  // Of moe: each block's experts are spread over the ranks of this group (expert_parallel.h), which
  // run the same stage on rows of their own, in step. The stage's layout has the own experts alone
  // (OnExpertRank). null: all experts are here.
  c10::intrusive_ptr<c10d::Backend> expert_peers = {};
  // [flat_elements] f32 on the device of `compute`: where parameters() are to lie. Undefined: in memory
  // of their own.
  at::Tensor flat = {};
};

// InvalidArgument in one line: a number below 1, heads that do not divide, what EngineOf
// refuses; FailedPrecondition: a device that is not there.
absl::Status CheckModel(const ModelSpec& model, const ComputeSpec& compute);

// What CheckModel has passed. InvalidArgument: experts that do not divide over expert_peers.
absl::StatusOr<std::unique_ptr<Stage>> NewStage(const ModelSpec& model,
                                                const StageOptions& options);

// Of what CheckDevice has passed. From then on the process sums 16-bit products in f32; a GPU also
// makes it deterministic.
at::Device DeviceOf(const ComputeSpec& compute);

}  // namespace longhaul
