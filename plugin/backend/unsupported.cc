// What this backend does not do. Each operation says so itself, with what to use instead.
#include "plugin/backend/process_group.h"

namespace longhaul {
namespace {

[[noreturn]] void Missing(const char* op, const char* instead) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "longhaul: ", op,
                              " is not supported by the backend longhaul; ", instead);
}

constexpr const char* kUseAllReduce = "use all_reduce and ignore it on the other ranks";
constexpr const char* kUseAllGather = "use all_gather";
constexpr const char* kUseBroadcast = "use broadcast, or send to each rank";
constexpr const char* kUseAllReduceSlice = "use all_reduce and take a slice";
constexpr const char* kUseGlooGroup = "use a group of the backend gloo beside this one";

}  // namespace

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using List = std::vector<at::Tensor>;

WorkPtr ProcessGroupLonghaul::allreduce_sparse(List&, const c10d::AllreduceOptions&) {
  Missing("allreduce of sparse tensors", "use to_dense() first");
}

WorkPtr ProcessGroupLonghaul::reduce(List&, const c10d::ReduceOptions&) {
  Missing("reduce", kUseAllReduce);
}

WorkPtr ProcessGroupLonghaul::allgather_coalesced(std::vector<List>&, List&,
                                                  const c10d::AllgatherOptions&) {
  Missing("allgather_coalesced", kUseAllGather);
}

WorkPtr ProcessGroupLonghaul::gather(std::vector<List>&, List&, const c10d::GatherOptions&) {
  Missing("gather", kUseAllGather);
}

WorkPtr ProcessGroupLonghaul::scatter(List&, std::vector<List>&, const c10d::ScatterOptions&) {
  Missing("scatter", kUseBroadcast);
}

WorkPtr ProcessGroupLonghaul::reduce_scatter(List&, std::vector<List>&,
                                             const c10d::ReduceScatterOptions&) {
  Missing("reduce_scatter", kUseAllReduceSlice);
}

WorkPtr ProcessGroupLonghaul::_reduce_scatter_base(at::Tensor&, at::Tensor&,
                                                   const c10d::ReduceScatterOptions&) {
  Missing("_reduce_scatter_base (reduce_scatter_tensor)", kUseAllReduceSlice);
}

WorkPtr ProcessGroupLonghaul::reduce_scatter_tensor_coalesced(List&, List&,
                                                              const c10d::ReduceScatterOptions&) {
  Missing("reduce_scatter_tensor_coalesced", kUseAllReduceSlice);
}

void ProcessGroupLonghaul::monitoredBarrier(const c10d::BarrierOptions&, bool) {
  Missing("monitored_barrier", kUseGlooGroup);
}

}  // namespace longhaul
