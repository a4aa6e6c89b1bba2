#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pp_group/group_average.h"

namespace longhaul {

// How G groups become one training.
enum class OuterAlgorithm {
  kDiloco,        // H inner steps apart, then an outer step over what they moved (outer_sync.h)
  kDataParallel,  // gradients are averaged in every inner step, before AdamW: no outer step
};

struct OuterSpec {
  int64_t inner_steps;  // H; 0: no outer step ever (G must be 1, or the algorithm kDataParallel)
  double lr = 0.7;
  double momentum = 0.9;       // Nesterov
  std::string codec = "none";  // of the outer delta or the gradients, e.g. "int4-b64-h64+ef"
  OuterAlgorithm algorithm = OuterAlgorithm::kDiloco;
};

// Whether an outer step follows inner step `step` (1-based): after every H, and after the last.
inline bool OuterStepIsDue(const OuterSpec& spec, int64_t step, int64_t steps) {
  return spec.inner_steps > 0 && (step % spec.inner_steps == 0 || step == steps);
}

// DiLoCo's outer step (Douillard et al. 2023) of one stage among its G peers:
//   outer_delta = theta_start - theta                               [N], after H inner steps
//   average     = GroupAverage of the members' outer deltas, without those that would poison it
//                 (poison.h)
//   momentum    = mu momentum + average
//   theta_start = theta_start - lr (average + mu momentum)          Nesterov
//   theta       = theta_start
// A member that was left out takes the outer step like the others, and forgets what its outer codec
// remembered. The parts are apart as GroupAverage's are.
class OuterSync {
 public:
  // theta: [N] f32, contiguous, shared with the stage. Errors: GroupAverage::Create's.
  static absl::StatusOr<std::unique_ptr<OuterSync>> Create(const OuterSpec& spec,
                                                           GroupAverage::Place place,
                                                           at::Tensor theta);

  // `step` (1-based inner step) keys the codec's noise. Throws what c10d does.
  absl::Status Encode(int64_t step);  // then exchange().Send()
  // Of all members' deltas on this stage, squared; by place in exchange().members().
  absl::StatusOr<std::vector<double>> SquaredNorms();
  // `left_out`: PoisonedMembers of the norms over all stages, by the same place.
  absl::Status Finish(const std::vector<bool>& left_out);

  GroupAverage& exchange() { return *exchange_; }

  // For checkpoints. [N] f32 each.
  const at::Tensor& theta_start() const { return theta_start_; }
  const at::Tensor& momentum() const { return momentum_; }

 private:
  OuterSync() = default;

  double lr_ = 0, mu_ = 0;
  at::Tensor theta_, theta_start_, momentum_, delta_;  // [N]; delta_ is scratch between steps
  std::unique_ptr<GroupAverage> exchange_;
};

}  // namespace longhaul
