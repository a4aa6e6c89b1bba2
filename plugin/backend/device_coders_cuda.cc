#include <map>
#include <mutex>

#include "plugin/backend/device_coders.h"
#include "plugin/core/device/device_coder.h"
#include "plugin/core/device/device_runtime.h"

namespace longhaul {

std::shared_ptr<Coder> DeviceCoderFor(const at::Tensor& tensor, std::string_view codec) {
  if (!tensor.is_cuda()) return nullptr;
  static std::mutex mu;
  // Never destroyed: a GPU's runtime ends before static objects do.
  static auto* const coders = new std::map<int, std::shared_ptr<DeviceCoder>>;
  const std::lock_guard lock(mu);
  std::shared_ptr<DeviceCoder>& coder = (*coders)[tensor.device().index()];
  if (coder == nullptr) {
    coder =
        std::make_shared<DeviceCoder>(NewCudaRuntime(tensor.device().index()), &MonotonicClock());
  }
  return codec.empty() || coder->Encodes(codec) ? coder : nullptr;
}

}  // namespace longhaul
