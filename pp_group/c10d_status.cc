#include "pp_group/c10d_status.h"

#include <exception>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

absl::StatusCode CodeIn(const std::string& message, absl::StatusCode otherwise) {
  for (absl::StatusCode code :
       {absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kUnavailable,
        absl::StatusCode::kInvalidArgument, absl::StatusCode::kDataLoss, absl::StatusCode::kAborted,
        absl::StatusCode::kFailedPrecondition}) {
    if (message.find(absl::StatusCodeToString(code)) != std::string::npos) return code;
  }
  return otherwise;
}

absl::Status Make(const std::string& where, const std::string& message,
                  absl::StatusCode otherwise) {
  return absl::Status(CodeIn(message, otherwise), absl::StrCat(where, ": ", message));
}

}  // namespace

absl::Status StatusOfCurrentException(const std::string& where) {
  try {
    throw;
  } catch (const Diverged& e) {
    return absl::OutOfRangeError(absl::StrCat(where, ": ", e.what()));
  } catch (const c10::DistNetworkError& e) {
    return Make(where, e.what_without_backtrace(), absl::StatusCode::kUnavailable);
  } catch (const c10::OutOfMemoryError& e) {
    const std::string said = e.what_without_backtrace();
    return absl::ResourceExhaustedError(absl::StrCat(
        where, ": ", said.substr(0, said.find('\n')),
        "; a worker may take its predicted share of a GPU (the record's gpu_memory_of_rank_N), and "
        "no more: lower train.batch_rows or model.width, or set train.recompute = true"));
  } catch (const c10::ValueError& e) {
    return Make(where, e.what_without_backtrace(), absl::StatusCode::kInvalidArgument);
  } catch (const c10::Error& e) {
    return Make(where, e.what_without_backtrace(), absl::StatusCode::kInternal);
  } catch (const std::exception& e) {
    return Make(where, e.what(), absl::StatusCode::kInternal);
  } catch (...) {
    return absl::UnknownError(where + ": not a std::exception");
  }
}

WorkPtr SendTensor(c10d::Backend& backend, const at::Tensor& tensor, int peer, int tag) {
  std::vector<at::Tensor> tensors{tensor};
  return backend.send(tensors, peer, tag);
}

WorkPtr ReceiveTensor(c10d::Backend& backend, const at::Tensor& tensor, int peer, int tag) {
  std::vector<at::Tensor> tensors{tensor};
  return backend.recv(tensors, peer, tag);
}

void WaitAndReset(WorkPtr* work) {
  if (*work == nullptr) return;
  (*work)->wait();
  work->reset();
}

}  // namespace longhaul
