// Operations that add up.
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

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::allreduce(std::vector<at::Tensor>& tensors,
                                                               const c10d::AllreduceOptions& opts) {
  if (OnlyTensor(tensors, "allreduce").is_sparse()) return allreduce_sparse(tensors, opts);
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

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::reduce(std::vector<at::Tensor>& tensors,
                                                            const c10d::ReduceOptions& opts) {
  constexpr const char* kOp = "reduce";
  const int root = CheckedRoot(opts.rootRank, kOp);
  const ReduceOp reduce = ReduceOpOf(opts.reduceOp, kOp);
  const Staging x = Staging::Of(OnlyTensor(tensors, kOp),
                                root == getRank() ? Access::kReadWrite : Access::kRead, kOp);
  const auto work = NewWork({.type = c10d::OpType::REDUCE,
                             .op = kOp,
                             .profiling_title = "longhaul:reduce",
                             .inputs = tensors,
                             .stagings = {x},
                             .outputs = x.tensors(),
                             .timeout = opts.timeout});
  ++collectives_;
  LiveGroup()->Reduce(x.wire(), root, reduce, DoneFor(work));
  return work;
}

struct ProcessGroupLonghaul::Scattered {
  Staging in, out;
  std::vector<int64_t> counts;  // elements of each rank's part of `in`
};

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::reduce_scatter(
    std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
    const c10d::ReduceScatterOptions& opts) {
  constexpr const char* kOp = "reduce_scatter";
  TORCH_CHECK_VALUE(inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(getSize()),
                    "longhaul: ", kOp, " (", where_, "): one list of ", getSize(),
                    " input tensors is wanted");
  Scattered one{.in = Staging::OfList(inputs[0], Access::kRead, kOp),
                .out = Staging::Of(OnlyTensor(outputs, kOp), Access::kWrite, kOp),
                .counts = {}};
  for (const at::Tensor& part : inputs[0]) one.counts.push_back(part.numel());
  return ReduceScatters({std::move(one)}, opts, c10d::OpType::REDUCE_SCATTER, kOp);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) {
  return ReduceScatters({EvenlyScattered(input, output, "_reduce_scatter_base")}, opts,
                        c10d::OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base");
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::reduce_scatter_tensor_coalesced(
    std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::ReduceScatterOptions& opts) {
  constexpr const char* kOp = "reduce_scatter_tensor_coalesced";
  TORCH_CHECK_VALUE(!inputs.empty() && inputs.size() == outputs.size(), "longhaul: ", kOp, " (",
                    where_, "): as many outputs as inputs are wanted, saw ", outputs.size(),
                    " and ", inputs.size());
  std::vector<Scattered> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    all.push_back(EvenlyScattered(inputs[i], outputs[i], kOp));
  }
  return ReduceScatters(std::move(all), opts, c10d::OpType::COALESCED, kOp);
}

ProcessGroupLonghaul::Scattered ProcessGroupLonghaul::EvenlyScattered(const at::Tensor& input,
                                                                      const at::Tensor& output,
                                                                      const char* op) const {
  TORCH_CHECK_VALUE(input.numel() == output.numel() * getSize(), "longhaul: ", op, " (", where_,
                    "): the input must hold ", getSize(), " times the output's ", output.numel(),
                    " elements; saw ", input.numel());
  return {.in = Staging::Of(input, Access::kRead, op),
          .out = Staging::Of(output, Access::kWrite, op),
          .counts = std::vector<int64_t>(static_cast<size_t>(getSize()), output.numel())};
}

c10::intrusive_ptr<LonghaulWork> ProcessGroupLonghaul::ReduceScatters(
    std::vector<Scattered> all, const c10d::ReduceScatterOptions& opts, c10d::OpType type,
    const char* op) {
  const ReduceOp reduce = ReduceOpOf(opts.reduceOp, op);
  std::vector<at::Tensor> inputs, outputs;
  std::vector<Staging> stagings;
  for (const Scattered& one : all) {
    const at::Tensor& in = one.in.host();
    const at::Tensor& out = one.out.host();
    TORCH_CHECK_VALUE(
        in.dtype() == out.dtype() && out.numel() == one.counts[getRank()], "longhaul: ", op, " (",
        where_, "): the output must be like this rank's part ", "of the input, ",
        one.counts[getRank()], " of ", in.dtype(), "; saw ", out.numel(), " of ", out.dtype());
    inputs.insert(inputs.end(), one.in.tensors().begin(), one.in.tensors().end());
    outputs.insert(outputs.end(), one.out.tensors().begin(), one.out.tensors().end());
    stagings.push_back(one.in);
    stagings.push_back(one.out);
  }
  const auto work = NewWork({.type = type,
                             .op = op,
                             .profiling_title = "longhaul:reduce_scatter",
                             .inputs = inputs,
                             .stagings = std::move(stagings),
                             .outputs = std::move(outputs),
                             .parts = static_cast<int>(all.size()),
                             .timeout = opts.timeout});
  for (const Scattered& one : all) {
    ++collectives_;
    LiveGroup()->ReduceScatter(one.in.wire(), one.counts, one.out.wire(), reduce, DoneFor(work));
  }
  return work;
}

}  // namespace longhaul
