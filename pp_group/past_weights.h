#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "pp_group/schedule/pipeline_program.h"
#include "pp_group/stage.h"

namespace longhaul {

// The weights that a stage of a pipeline without a flush computes with: of each micro-batch those of
// PipelineProgram::StepsLate steps ago, for its forward and its backward pass (PipeDream's weight
// stashing). The executor runs all micro-batches of a step between two updates, so what a real pipeline
// would have had is laid into the stage before each action. Weights of steps before the first are the
// first's: the pipeline fills.
class PastWeights {
 public:
  // Borrows both; the stage's weights are those of the first step.
  PastWeights(const PipelineProgram& program, Stage* stage);

  void BeginStep();           // the stage's weights are now the newest
  void Take(int microbatch);  // gives the stage this one's
  void EndStep();             // gives it the newest back
  void Forget();              // the pipeline begins anew with the stage's weights
  // What the next step needs beside the stage's own, by name; for checkpoints.
  std::vector<std::pair<std::string, at::Tensor>> Tensors() const;

 private:
  void Lay(int late);

  const PipelineProgram& program_;
  Stage* const stage_;
  std::deque<at::Tensor> weights_;  // of this step and of those before; as many as are needed
  int laid_ = 0;                    // of these, which one the stage has
};

}  // namespace longhaul
