#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/status.h"

namespace longhaul {

// Training has diverged: a tensor that must cross a lossy boundary is not finite. Becomes
// OutOfRange.
class Diverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The Status of the exception that is being handled; call it in a catch block only. c10d says
// what went wrong by type and by text: DistNetworkError is Unavailable; a message that names a
// Status code keeps it (DEADLINE_EXCEEDED, ...); a c10::ValueError is InvalidArgument; a device
// whose memory is full is ResourceExhausted; anything else is Internal. `where` goes in front of
// the message.
absl::Status StatusOfCurrentException(const std::string& where);

// Runs f, which may throw, and returns what happened. STYLE: no exception leaves a Status function.
template <typename F>
absl::Status StatusFromTorch(const std::string& where, F f) {
  try {
    f();
    return absl::OkStatus();
  } catch (...) {
    return StatusOfCurrentException(where);
  }
}

// One tensor to or from one rank of `backend`, FIFO per peer and tag.
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
constexpr int kTrainingTag = 0;
constexpr int kEvaluationTag = 1;
// Where a rank has several stages, tensors of both kinds and of several boundaries go from one rank
// to the same other one, and the tag says which they are: that of plugin/core/tensor_kind.h whose
// channel is the boundary. An evaluation's have channels of their own.
constexpr int kActivationTag = 1 << 29;
constexpr int kGradientTag = kActivationTag | 1 << 28;
constexpr int kEvaluationChannel = 1 << 27;
// Of boundaries that send by sample (TrainSpec::sample_boundaries) an activation's channel is its
// sample's; rows of an evaluation, which are no samples of the training, have this tag.
constexpr int kSampleChannel = 1 << 26;
constexpr int kSampleEvaluationTag = 2;
WorkPtr SendTensor(c10d::Backend& backend, const at::Tensor& tensor, int peer,
                   int tag = kTrainingTag);
WorkPtr ReceiveTensor(c10d::Backend& backend, const at::Tensor& tensor, int peer,
                      int tag = kTrainingTag);

// Waits if there is something to wait for, then forgets it. Throws what the operation failed with.
void WaitAndReset(WorkPtr* work);

}  // namespace longhaul
