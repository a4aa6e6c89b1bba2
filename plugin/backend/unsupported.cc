// What this backend does not do. Each operation says so itself, with what to use instead.
#include "plugin/backend/process_group.h"

namespace longhaul {

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::allreduce_sparse(
    std::vector<at::Tensor>&, const c10d::AllreduceOptions&) {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              "longhaul: allreduce of sparse tensors is not supported by the "
                              "backend longhaul; use to_dense() first");
}

}  // namespace longhaul
