#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "absl/status/status.h"
#include "plugin/backend/finisher.h"
#include "plugin/backend/staging.h"

namespace longhaul {

// One operation of a ProcessGroupLonghaul: it holds the tensors, and finishes when each of its
// parts has reported its Status. Thread safe.
//
// wait(0) waits for the operation's own timeout (the group's, enforced by core, unless the call
// named one); wait(t) for t. Running out of time while waiting throws DistBackendError and leaves
// the operation running. A failed operation rethrows its exception (torch_error.h) at every wait.
class LonghaulWork : public c10d::Work {
 public:
  struct Spec {
    c10d::OpType type;
    const char* op;                                  // "send"; stands in errors
    std::string where;                               // "group 'pp' rank 1"; stands in errors
    uint64_t sequence = 0;                           // of the group's operations
    int parts = 1;                                   // how many Complete() calls finish it
    std::chrono::milliseconds timeout = kUnsetWait;  // of wait(0), when the call named one
    // What makes the outputs, once all parts have ended well, on the finisher's thread; is gone, and
    // what it holds, when the work is finished.
    std::function<std::vector<at::Tensor>()> assemble = nullptr;
    const char* profiling_title = nullptr;
  };
  static constexpr std::chrono::milliseconds kUnsetWait{-1};

  // `outputs`: what result() and the Future hold. `stagings` live until the work is finished.
  LonghaulWork(int rank, Spec spec, std::vector<Staging> stagings, std::vector<at::Tensor> outputs,
               const std::vector<at::Tensor>& profiled_inputs, std::shared_ptr<Finisher> finisher);

  // One part has ended. Called by core's callbacks, `parts` times; the first error wins.
  // Runs nothing of ATen or Python on the calling thread.
  void Complete(absl::Status status);
  void CompleteFrom(absl::StatusOr<int> source);

  const Staging& staging(size_t i = 0) const { return stagings_[i]; }
  // Known before the end for recv, at the end for a receive from any rank.
  void set_source_rank(int rank) { source_rank_ = rank; }

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override {}  // outputs are in place once the work is complete, on any stream
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  // Makes wait() return false at once, now and later; the operation itself runs on.
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return spec_.sequence; }

 private:
  void Finish(std::exception_ptr exception);
  void Settle();
  absl::Status Named(const absl::Status& status) const;

  Spec spec_;
  std::vector<Staging> stagings_;
  std::vector<at::Tensor> outputs_;
  const std::shared_ptr<Finisher> finisher_;
  const int lane_ = Finisher::LaneHere();
  // Guarded by Work::mutex_ from here on.
  int parts_left_;
  absl::Status status_;
  int source_rank_ = -1;
  bool aborted_ = false;
  bool settled_ = false;  // somebody completes, or has completed, future_
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace longhaul
