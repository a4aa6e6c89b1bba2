#include "plugin/backend/call.h"
#include "plugin/backend/process_group.h"
#include "plugin/backend/torch_error.h"

namespace longhaul {
namespace {

// Those of stagings[1] and after, as aliases without a Python object.
std::vector<at::Tensor> TensorsBehindTheFirst(const std::vector<Staging>& stagings) {
  std::vector<at::Tensor> tensors;
  for (size_t i = 1; i < stagings.size(); ++i) tensors.push_back(stagings[i].tensors().front());
  return tensors;
}

}  // namespace
c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::broadcast(std::vector<at::Tensor>& tensors,
                                                               const c10d::BroadcastOptions& opts) {
  const bool root = CheckedRoot(opts.rootRank, "broadcast") == getRank();
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

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::allgather(
    std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& opts) {
  const at::Tensor& input = OnlyTensor(inputs, "allgather");
  TORCH_CHECK_VALUE(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(getSize()),
                    "longhaul: allgather (", where_, "): one list of ", getSize(),
                    " output tensors is wanted");
  for (const at::Tensor& output : outputs[0]) CheckAlike(output, input, "allgather");
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

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::allgather_coalesced(
    std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& opts) {
  constexpr const char* kOp = "allgather_coalesced";
  TORCH_CHECK_VALUE(!inputs.empty() && outputs.size() == static_cast<size_t>(getSize()),
                    "longhaul: ", kOp, " (", where_, "): a list of outputs for each of ", getSize(),
                    " ranks is wanted, saw ", outputs.size());
  std::vector<Staging> in, out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<at::Tensor> by_rank;
    for (const std::vector<at::Tensor>& list : outputs) {
      TORCH_CHECK_VALUE(list.size() == inputs.size(), "longhaul: ", kOp, " (", where_,
                        "): ", inputs.size(), " inputs, but a list of ", list.size(), " outputs");
      CheckAlike(list[i], inputs[i], kOp);
      by_rank.push_back(list[i]);
    }
    in.push_back(Staging::Of(inputs[i], Access::kRead, kOp));
    out.push_back(Staging::OfList(by_rank, Access::kWrite, kOp));
  }
  return AllGatherPairs(in, out, opts, c10d::OpType::ALLGATHER_COALESCED, kOp,
                        "longhaul:all_gather");
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

void ProcessGroupLonghaul::CheckAlike(const at::Tensor& one, const at::Tensor& other,
                                      const char* op) const {
  TORCH_CHECK_VALUE(one.numel() == other.numel() && one.dtype() == other.dtype(), "longhaul: ", op,
                    " (", where_, "): outputs must be like the input, ", other.sizes(), " of ",
                    other.dtype(), "; saw ", one.sizes(), " of ", one.dtype());
}

// Where this rank has one, what is of each rank, end to end.
std::vector<WireTensor> ProcessGroupLonghaul::StageOfRanks(
    const std::vector<std::vector<at::Tensor>>& lists, const at::Tensor& own, Access access,
    const char* op, std::vector<Staging>& stagings) const {
  TORCH_CHECK_VALUE(lists.size() == 1 && lists[0].size() == static_cast<size_t>(getSize()),
                    "longhaul: ", op, " (", where_, "): the root needs one list of ", getSize(),
                    " tensors");
  std::vector<WireTensor> parts;
  for (const at::Tensor& tensor : lists[0]) {
    CheckAlike(tensor, own, op);
    stagings.push_back(Staging::Of(tensor, access, op));
    parts.push_back(stagings.back().wire());
  }
  return parts;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::gather(
    std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::GatherOptions& opts) {
  constexpr const char* kOp = "gather";
  const int root = CheckedRoot(opts.rootRank, kOp);
  const at::Tensor& input = OnlyTensor(inputs, kOp);
  const Staging in = Staging::Of(input, Access::kRead, kOp);
  std::vector<Staging> stagings = {in};
  std::vector<WireTensor> out;
  std::vector<at::Tensor> written;
  if (root == getRank()) {
    out = StageOfRanks(outputs, input, Access::kWrite, kOp, stagings);
    written = TensorsBehindTheFirst(stagings);
  } else {
    TORCH_CHECK_VALUE(outputs.empty(), "longhaul: ", kOp, " (", where_,
                      "): outputs are the root's alone");
  }
  const auto work = NewWork({.type = c10d::OpType::GATHER,
                             .op = kOp,
                             .profiling_title = "longhaul:gather",
                             .inputs = inputs,
                             .stagings = std::move(stagings),
                             .outputs = std::move(written),
                             .timeout = opts.timeout});
  ++collectives_;
  LiveGroup()->Gather(in.wire(), out, root, DoneFor(work));
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::scatter(
    std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
    const c10d::ScatterOptions& opts) {
  constexpr const char* kOp = "scatter";
  const int root = CheckedRoot(opts.rootRank, kOp);
  const at::Tensor& output = OnlyTensor(outputs, kOp);
  const Staging out = Staging::Of(output, Access::kWrite, kOp);
  std::vector<Staging> stagings = {out};
  std::vector<WireTensor> in;
  std::vector<at::Tensor> read;
  if (root == getRank()) {
    in = StageOfRanks(inputs, output, Access::kRead, kOp, stagings);
    read = TensorsBehindTheFirst(stagings);
  } else {
    TORCH_CHECK_VALUE(inputs.empty(), "longhaul: ", kOp, " (", where_,
                      "): inputs are the root's alone");
  }
  const auto work = NewWork({.type = c10d::OpType::SCATTER,
                             .op = kOp,
                             .profiling_title = "longhaul:scatter",
                             .inputs = std::move(read),
                             .stagings = std::move(stagings),
                             .outputs = out.tensors(),
                             .timeout = opts.timeout});
  ++collectives_;
  LiveGroup()->Scatter(in, out.wire(), root, DoneFor(work));
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

// Blocks. Errors read as gloo's do, and name the ranks that are missing on every rank.
void ProcessGroupLonghaul::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const auto limit = opts.timeout == c10d::kUnsetTimeout ? options_->timeout : opts.timeout;
  if (limit.count() <= 0) {
    ThrowIfError(absl::DeadlineExceededError(c10::str("longhaul: Rank ", getRank(),
                                                      " timed out in monitoredBarrier after ",
                                                      limit.count(), " ms, before it began")));
  }
  const auto work = NewWork({.type = c10d::OpType::BARRIER,
                             .op = "monitored_barrier",
                             .profiling_title = "longhaul:monitored_barrier",
                             .inputs = {},
                             .stagings = {},
                             .outputs = {}});
  ++collectives_;
  const auto named = [rank = getRank(), done = DoneFor(work)](absl::Status status) {
    if (rank != 0 && absl::IsDeadlineExceeded(status)) {
      status = absl::DeadlineExceededError(
          c10::str("Rank ", rank,
                   " successfully reached monitoredBarrier, but received errors while waiting for "
                   "send/recv from rank 0: ",
                   std::string(status.message())));
    }
    done(std::move(status));
  };
  LiveGroup()->MonitoredBarrier(absl::FromChrono(limit), wait_all_ranks, named);
  work->wait();
}

}  // namespace longhaul
