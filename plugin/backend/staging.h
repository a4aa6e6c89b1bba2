#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plugin/core/group.h"

namespace longhaul {

// What an operation does with the caller's memory.
enum class Access { kRead, kWrite, kReadWrite };

// The tensors of one operation beside the one piece of contiguous host memory that goes on the
// wire: the caller's own memory where possible, else a buffer (pinned when the tensor is on a GPU)
// that is filled at the call and copied back at the end. Several tensors are laid end to end.
//
// Holds aliases of the caller's tensors that have no Python object, so the last reference may be
// dropped on any thread without taking the interpreter's lock.
class Staging {
 public:
  Staging() = default;

  // One tensor. Throws NotImplementedError for a device, layout or dtype that never crosses the
  // wire, naming it and `op`. A kRead or kReadWrite of a GPU tensor blocks until its values are on
  // the host; a kWrite waits for the work that the current stream still has on it.
  static Staging Of(const at::Tensor& tensor, Access access, const char* op);

  // One contiguous tensor of a device, for a coder that reads or writes it where it lies, once the
  // work that the current stream has on it now is done. Never blocks.
  static Staging InPlace(const at::Tensor& tensor, std::shared_ptr<Coder> coder, const char* op);

  // Tensors of one dtype and device, end to end. ValueError: none at all, or mixed.
  static Staging OfList(const std::vector<at::Tensor>& tensors, Access access, const char* op);

  // The memory as a wire tensor: dims of the tensor, or [elements] for a list.
  WireTensor wire() const;

  // Whether CopyBack has something to do once the operation has succeeded.
  bool needs_copy_back() const { return access_ != Access::kRead && staged_; }
  // Blocks until the caller's tensors hold the values. May throw what ATen throws.
  void CopyBack() const;

  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  const at::Tensor& host() const { return host_; }

 private:
  std::vector<at::Tensor> tensors_;
  at::Tensor host_;
  Access access_ = Access::kRead;
  bool staged_ = false;           // host_ is a buffer of ours
  std::shared_ptr<Coder> coder_;  // of host_, which then is the device's own memory
  std::shared_ptr<void> after_;   // what the current stream had to do
};

// dtype and dims of a tensor, wherever it lies; its values are not named.
WireTensor DescribedForWire(const at::Tensor& tensor);

// ValueError naming `op` unless there is exactly one tensor.
const at::Tensor& OnlyTensor(const std::vector<at::Tensor>& tensors, const char* op);

}  // namespace longhaul
