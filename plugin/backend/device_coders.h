#pragma once

#include <memory>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "plugin/core/coder.h"

namespace longhaul {

// The coder of the device that `tensor` lies on, with kernels for that codec of the catalogue (""
// for any: of a receive, which takes what comes). nullptr: there is none, and the tensor is staged
// through host memory. One per device of this process.
std::shared_ptr<Coder> DeviceCoderFor(const at::Tensor& tensor, std::string_view codec);

}  // namespace longhaul
