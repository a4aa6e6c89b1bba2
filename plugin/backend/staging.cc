#include "plugin/backend/staging.h"

#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace longhaul {
namespace {

ElementType WireType(at::ScalarType type, const char* op) {
  switch (type) {
    case at::kFloat:
      return ElementType::kF32;
    case at::kBFloat16:
      return ElementType::kBF16;
    case at::kHalf:
      return ElementType::kF16;
    case at::kDouble:
      return ElementType::kF64;
    case at::kChar:
      return ElementType::kI8;
    case at::kByte:
      return ElementType::kU8;
    case at::kShort:
      return ElementType::kI16;
    case at::kInt:
      return ElementType::kI32;
    case at::kLong:
      return ElementType::kI64;
    case at::kBool:
      return ElementType::kBool;
    case at::kComplexFloat:
      return ElementType::kComplex64;
    case at::kComplexDouble:
      return ElementType::kComplex128;
    case at::kUInt16:
      return ElementType::kU16;
    case at::kUInt32:
      return ElementType::kU32;
    case at::kUInt64:
      return ElementType::kU64;
    case at::kFloat8_e4m3fn:
      return ElementType::kF8E4M3;
    case at::kFloat8_e5m2:
      return ElementType::kF8E5M2;
    case at::kFloat8_e4m3fnuz:
      return ElementType::kF8E4M3Fnuz;
    case at::kFloat8_e5m2fnuz:
      return ElementType::kF8E5M2Fnuz;
    case at::kFloat8_e8m0fnu:
      return ElementType::kF8E8M0;
    default:
      break;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "longhaul: ", op, ": dtype ", type,
                              " does not cross the wire; send it as view(torch.uint8)");
}

void CheckSupported(const at::Tensor& tensor, const char* op) {
  TORCH_CHECK_VALUE(tensor.defined(), "longhaul: ", op, ": undefined tensor");
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, "longhaul: ", op, ": layout ",
                              tensor.layout(), " is not supported; use a dense (strided) tensor");
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.is_cpu() || tensor.is_cuda(), "longhaul: ", op, ": device ",
                              tensor.device(), " is not supported; use cpu or cuda");
  WireType(tensor.scalar_type(), op);
}

bool IsWireMemory(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor HostBuffer(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes,
                   at::TensorOptions(like.dtype()).device(at::kCPU).pinned_memory(like.is_cuda()));
}

// Until the kernels that the caller has queued on this tensor's device are done.
void AwaitCurrentStream(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return;
  c10::impl::VirtualGuardImpl guard(tensor.device().type());
  guard.getStream(tensor.device()).synchronize();
}

}  // namespace

Staging Staging::Of(const at::Tensor& tensor, Access access, const char* op) {
  CheckSupported(tensor, op);
  Staging s;
  s.access_ = access;
  s.tensors_ = {tensor.detach()};
  if (IsWireMemory(tensor)) {
    s.host_ = s.tensors_[0];
    return s;
  }
  s.staged_ = true;
  s.host_ = HostBuffer(tensor.sizes(), tensor);
  if (access == Access::kWrite) {
    AwaitCurrentStream(tensor);
  } else {
    s.host_.copy_(s.tensors_[0]);
  }
  return s;
}

Staging Staging::InPlace(const at::Tensor& tensor, std::shared_ptr<Coder> coder, const char* op) {
  CheckSupported(tensor, op);
  Staging s;
  s.tensors_ = {tensor.detach()};
  s.host_ = s.tensors_[0];
  s.coder_ = std::move(coder);
  c10::impl::VirtualGuardImpl guard(tensor.device().type());
  const auto event = std::make_shared<c10::Event>(tensor.device().type());
  event->record(guard.getStream(tensor.device()));
  s.after_ = std::shared_ptr<void>(event, event->eventId());
  return s;
}

Staging Staging::OfList(const std::vector<at::Tensor>& tensors, Access access, const char* op) {
  TORCH_CHECK_VALUE(!tensors.empty(), "longhaul: ", op, ": an empty list of tensors");
  if (tensors.size() == 1) return Of(tensors[0], access, op);
  Staging s;
  s.access_ = access;
  s.staged_ = true;
  int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) {
    CheckSupported(tensor, op);
    TORCH_CHECK_VALUE(
        tensor.scalar_type() == tensors[0].scalar_type() && tensor.device() == tensors[0].device(),
        "longhaul: ", op, ": tensors of one dtype and device are wanted, saw ",
        tensors[0].scalar_type(), " on ", tensors[0].device(), " and ", tensor.scalar_type(),
        " on ", tensor.device());
    s.tensors_.push_back(tensor.detach());
    elements += tensor.numel();
  }
  s.host_ = HostBuffer({elements}, tensors[0]);
  if (access == Access::kWrite) {
    AwaitCurrentStream(tensors[0]);
    return s;
  }
  int64_t begin = 0;
  for (const at::Tensor& tensor : s.tensors_) {
    s.host_.narrow(0, begin, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    begin += tensor.numel();
  }
  return s;
}

WireTensor Staging::wire() const {
  return {.values = host_.data_ptr(),
          .type = WireType(host_.scalar_type(), "tensor"),
          .dims = host_.sizes().vec(),
          .coder = coder_,
          .after = after_};
}

void Staging::CopyBack() const {
  if (!needs_copy_back()) return;
  int64_t begin = 0;
  const at::Tensor flat = host_.view({-1});
  for (const at::Tensor& tensor : tensors_) {
    // Blocking also from pinned memory: when this returns, any stream may read the values.
    tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

WireTensor DescribedForWire(const at::Tensor& tensor) {
  return {.values = nullptr,
          .type = WireType(tensor.scalar_type(), "tensor"),
          .dims = tensor.sizes().vec()};
}

const at::Tensor& OnlyTensor(const std::vector<at::Tensor>& tensors, const char* op) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "longhaul: ", op, ": one tensor a call is wanted, saw ",
                    tensors.size());
  return tensors[0];
}

}  // namespace longhaul
