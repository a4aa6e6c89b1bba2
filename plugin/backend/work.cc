#include "plugin/backend/work.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include "plugin/backend/torch_error.h"

namespace longhaul {
namespace {

// A Future must know the devices of its value to hand on stream order.
std::vector<c10::Device> AcceleratorsOf(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::Device> devices;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_cpu()) devices.push_back(tensor.device());
  }
  return devices;
}

}  // namespace

LonghaulWork::LonghaulWork(int rank, Spec spec, std::vector<Staging> stagings,
                           std::vector<at::Tensor> outputs,
                           const std::vector<at::Tensor>& profiled_inputs,
                           std::shared_ptr<Finisher> finisher)
    : c10d::Work(rank, spec.type, spec.profiling_title, profiled_inputs),
      spec_(std::move(spec)),
      stagings_(std::move(stagings)),
      outputs_(std::move(outputs)),
      finisher_(std::move(finisher)),
      parts_left_(spec_.parts) {}

absl::Status LonghaulWork::Named(const absl::Status& status) const {
  return absl::Status(status.code(),
                      c10::str("longhaul: ", spec_.op, " (", spec_.where, ", operation ",
                               spec_.sequence, "): ", std::string(status.message())));
}

void LonghaulWork::Complete(absl::Status status) {
  bool copy_back = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    if (--parts_left_ > 0) return;
    for (const Staging& staging : stagings_) copy_back |= staging.needs_copy_back();
    status = status_;
  }
  // It may hold the caller's own tensors: they must go on a thread that may take Python's lock.
  auto assemble = std::exchange(spec_.assemble, nullptr);
  if (!status.ok()) {
    if (assemble) finisher_->PostCopy([held = std::move(assemble)] {});
    return Finish(ExceptionOf(Named(status)));
  }
  if (!copy_back && !assemble) return Finish(nullptr);
  finisher_->PostCopy([self = c10::intrusive_ptr<LonghaulWork>::reclaim_copy(this),
                       assemble = std::move(assemble)] {
    try {
      for (const Staging& staging : self->stagings_) staging.CopyBack();
      if (assemble) self->outputs_ = assemble();
    } catch (...) {
      return self->Finish(std::current_exception());
    }
    self->Finish(nullptr);
  });
}

void LonghaulWork::CompleteFrom(absl::StatusOr<int> source) {
  if (source.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    source_rank_ = *source;
  }
  Complete(source.status());
}

void LonghaulWork::Finish(std::exception_ptr exception) {
  c10d::Work::finish(std::move(exception));
  std::vector<Staging> released;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    released.swap(stagings_);
    if (!future_ || settled_) return;
    settled_ = true;
  }
  finisher_->Post(
      lane_, [self = c10::intrusive_ptr<LonghaulWork>::reclaim_copy(this)] { self->Settle(); });
}

// Runs the Future's callbacks.
void LonghaulWork::Settle() {
  if (exception_) {
    future_->setError(exception_);
  } else {
    future_->markCompleted(c10::IValue(outputs_));
  }
}

bool LonghaulWork::isCompleted() {
  std::lock_guard<std::mutex> lock(mutex_);
  return completed_;
}

bool LonghaulWork::isSuccess() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return completed_ && !exception_;
}

std::exception_ptr LonghaulWork::exception() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return exception_;
}

int LonghaulWork::sourceRank() const {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK_VALUE(source_rank_ >= 0, "longhaul: ", spec_.op,
                    ": sourceRank is known for recv, and for recv from any rank once it is done");
  return source_rank_;
}

std::vector<at::Tensor> LonghaulWork::result() {
  TORCH_CHECK(isSuccess(), "longhaul: ", spec_.op,
              ": result() of an operation that is not (successfully) completed; wait() first");
  return outputs_;
}

bool LonghaulWork::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout) timeout = spec_.timeout;
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ended = [this] { return completed_ || aborted_; };
  if (timeout.count() <= 0) {
    cv_.wait(lock, ended);  // core ends every operation at the group's timeout
  } else if (!cv_.wait_for(lock, timeout, ended)) {
    lock.unlock();
    ThrowIfError(Named(absl::DeadlineExceededError(
        c10::str("not complete after a wait of ", timeout.count(), " ms; it goes on"))));
  }
  if (aborted_) return false;
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void LonghaulWork::abort() {
  std::lock_guard<std::mutex> lock(mutex_);
  aborted_ = true;
  cv_.notify_all();
}

c10::intrusive_ptr<c10::ivalue::Future> LonghaulWork::getFuture() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                     AcceleratorsOf(outputs_));
  if (!completed_) return future_;
  settled_ = true;
  lock.unlock();
  Settle();
  return future_;
}

}  // namespace longhaul
