#include "plugin/backend/call.h"
#include "plugin/backend/process_group.h"

namespace longhaul {
namespace {

ReduceOp ReduceOpOf(const c10d::ReduceOp& op, const char* where) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::kSum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::kAvg;
    case c10d::ReduceOp::PRODUCT:
      return ReduceOp::kProduct;
    case c10d::ReduceOp::MIN:
      return ReduceOp::kMin;
    case c10d::ReduceOp::MAX:
      return ReduceOp::kMax;
    case c10d::ReduceOp::BAND:
      return ReduceOp::kBAnd;
    case c10d::ReduceOp::BOR:
      return ReduceOp::kBOr;
    case c10d::ReduceOp::BXOR:
      return ReduceOp::kBXor;
    default:
      break;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "longhaul: ", where,
                              ": PREMUL_SUM is not supported; multiply first and use SUM");
}

}  // namespace

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::broadcast(std::vector<at::Tensor>& tensors,
                                                               const c10d::BroadcastOptions& opts) {
  const bool root = opts.rootRank == getRank();
  TORCH_CHECK_VALUE(opts.rootRank >= 0 && opts.rootRank < getSize(), "longhaul: broadcast (",
                    where_, "): root ", opts.rootRank, " is not a rank of a group of ", getSize());
  const Staging x = Staging::Of(OnlyTensor(tensors, "broadcast"),
                                root ? Access::kRead : Access::kWrite, "broadcast");
  const auto work = NewWork({.type = c10d::OpType::BROADCAST,
                             .op = "broadcast",
                             .profiling_title = "longhaul:broadcast",
                             .inputs = tensors,
                             .stagings = {x},
                             .outputs = x.tensors(),
                             .timeout = opts.timeout});
  ++collectives_;
  LiveGroup()->Broadcast(x.wire(), static_cast<int>(opts.rootRank), DoneFor(work));
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::allreduce(std::vector<at::Tensor>& tensors,
                                                               const c10d::AllreduceOptions& opts) {
  OnlyTensor(tensors, "allreduce");
  return AllReduceList(tensors, opts, c10d::OpType::ALLREDUCE, "allreduce", "longhaul:all_reduce");
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::allreduce_coalesced(
    std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  return AllReduceList(tensors, opts, c10d::OpType::ALLREDUCE_COALESCED, "allreduce_coalesced",
                       "longhaul:all_reduce_coalesced");
}

c10::intrusive_ptr<LonghaulWork> ProcessGroupLonghaul::AllReduceList(
    const std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& opts, c10d::OpType type,
    const char* op, const char* profiling_title) {
  const ReduceOp reduce = ReduceOpOf(opts.reduceOp, op);
  const Staging x = Staging::OfList(tensors, Access::kReadWrite, op);
  const auto work = NewWork({.type = type,
                             .op = op,
                             .profiling_title = profiling_title,
                             .inputs = tensors,
                             .stagings = {x},
                             .outputs = x.tensors(),
                             .timeout = opts.timeout});
  ++collectives_;
  LiveGroup()->AllReduce(x.wire(), reduce, DoneFor(work));
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::allgather(
    std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& opts) {
  const at::Tensor& input = OnlyTensor(inputs, "allgather");
  TORCH_CHECK_VALUE(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(getSize()),
                    "longhaul: allgather (", where_, "): one list of ", getSize(),
                    " output tensors is wanted");
  for (const at::Tensor& output : outputs[0]) {
    TORCH_CHECK_VALUE(output.numel() == input.numel() && output.dtype() == input.dtype(),
                      "longhaul: allgather (", where_, "): outputs must be like the input, ",
                      input.sizes(), " of ", input.dtype(), "; saw ", output.sizes(), " of ",
                      output.dtype());
  }
  return AllGatherPairs({Staging::Of(input, Access::kRead, "allgather")},
                        {Staging::OfList(outputs[0], Access::kWrite, "allgather")}, opts,
                        c10d::OpType::ALLGATHER, "allgather", "longhaul:all_gather");
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) {
  return AllGatherPairs({Staging::Of(input, Access::kRead, "_allgather_base")},
                        {Staging::Of(output, Access::kWrite, "_allgather_base")}, opts,
                        c10d::OpType::_ALLGATHER_BASE, "_allgather_base",
                        "longhaul:_all_gather_base");
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::allgather_into_tensor_coalesced(
    std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& opts) {
  constexpr const char* kOp = "allgather_into_tensor_coalesced";
  TORCH_CHECK_VALUE(!inputs.empty() && inputs.size() == outputs.size(), "longhaul: ", kOp, " (",
                    where_, "): as many outputs as inputs are wanted, saw ", outputs.size(),
                    " and ", inputs.size());
  std::vector<Staging> in, out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(Staging::Of(inputs[i], Access::kRead, kOp));
    out.push_back(Staging::Of(outputs[i], Access::kWrite, kOp));
  }
  return AllGatherPairs(in, out, opts, c10d::OpType::COALESCED, kOp,
                        "longhaul:all_gather_into_tensor_coalesced");
}

c10::intrusive_ptr<LonghaulWork> ProcessGroupLonghaul::AllGatherPairs(
    const std::vector<Staging>& in, const std::vector<Staging>& out,
    const c10d::AllgatherOptions& opts, c10d::OpType type, const char* op,
    const char* profiling_title) {
  std::vector<at::Tensor> inputs, outputs;
  std::vector<Staging> stagings;
  for (size_t i = 0; i < in.size(); ++i) {
    TORCH_CHECK_VALUE(out[i].host().numel() == in[i].host().numel() * getSize() &&
                          out[i].host().dtype() == in[i].host().dtype(),
                      "longhaul: ", op, " (", where_, "): the output must hold ", getSize(),
                      " times the input's ", in[i].host().numel(), " elements of ",
                      in[i].host().dtype(), "; saw ", out[i].host().numel(), " of ",
                      out[i].host().dtype());
    inputs.insert(inputs.end(), in[i].tensors().begin(), in[i].tensors().end());
    outputs.insert(outputs.end(), out[i].tensors().begin(), out[i].tensors().end());
    stagings.push_back(in[i]);
    stagings.push_back(out[i]);
  }
  const auto work = NewWork({.type = type,
                             .op = op,
                             .profiling_title = profiling_title,
                             .inputs = inputs,
                             .stagings = std::move(stagings),
                             .outputs = std::move(outputs),
                             .parts = static_cast<int>(in.size()),
                             .timeout = opts.timeout});
  for (size_t i = 0; i < in.size(); ++i) {
    ++collectives_;
    LiveGroup()->AllGather(in[i].wire(), out[i].wire(), DoneFor(work));
  }
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::barrier(const c10d::BarrierOptions& opts) {
  const auto work = NewWork({.type = c10d::OpType::BARRIER,
                             .op = "barrier",
                             .profiling_title = "longhaul:barrier",
                             .inputs = {},
                             .stagings = {},
                             .outputs = {},
                             .timeout = opts.timeout});
  ++collectives_;
  LiveGroup()->Barrier(DoneFor(work));
  return work;
}

}  // namespace longhaul
