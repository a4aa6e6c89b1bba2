#include "plugin/backend/torch_error.h"

#include <c10/util/Exception.h>

namespace longhaul {

void ThrowIfError(const absl::Status& status) {
  if (status.ok()) return;
  const std::string text = status.ToString();
  TORCH_CHECK_VALUE(!absl::IsInvalidArgument(status) && !absl::IsOutOfRange(status) &&
                        !absl::IsNotFound(status),  // a name that the caller chose
                    text);
  TORCH_CHECK_NOT_IMPLEMENTED(!absl::IsUnimplemented(status), text);
  TORCH_CHECK_WITH(DistNetworkError, !absl::IsUnavailable(status), text);
  TORCH_CHECK_WITH(DistBackendError, false, text);
}

std::exception_ptr ExceptionOf(const absl::Status& status) {
  try {
    ThrowIfError(status);
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace longhaul
