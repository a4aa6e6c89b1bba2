#pragma once

#include <exception>

#include "absl/status/status.h"

namespace longhaul {

// The only place where an absl::Status becomes an exception of torch.
//
//   InvalidArgument, OutOfRange   ValueError            the call is wrong
//   NotFound                      ValueError            a codec that does not exist
//   Unimplemented                 NotImplementedError   not a thing this backend does
//   Unavailable                   DistNetworkError      a peer is gone
//   everything else               DistBackendError      DeadlineExceeded, Aborted, Internal, ...
//
// The names are Python's; all but the first two are subclasses of torch.distributed.DistError and
// of RuntimeError. The text is Status::ToString(): it starts with the code's name.
void ThrowIfError(const absl::Status& status);

// The same exception for Work and Future; nullptr when the status is ok.
std::exception_ptr ExceptionOf(const absl::Status& status);

}  // namespace longhaul
