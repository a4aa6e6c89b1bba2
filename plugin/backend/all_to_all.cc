#include "plugin/backend/call.h"
#include "plugin/backend/process_group.h"

namespace longhaul {
namespace {

// Elements of `x` that belong to each rank. ValueError: the splits do not cut its first dim.
std::vector<int64_t> CountsOf(const at::Tensor& x, const std::vector<int64_t>& splits, int ranks,
                              const char* side, const std::string& where) {
  constexpr const char* kOp = "alltoall_base (all_to_all_single)";
  TORCH_CHECK_VALUE(x.defined() && x.dim() > 0, "longhaul: ", kOp, " (", where, "): the ", side,
                    " has no first dim to cut");
  const int64_t rows = x.size(0), row = rows == 0 ? 0 : x.numel() / rows;
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % ranks == 0, "longhaul: ", kOp, " (", where, "): the ", side, "'s ",
                      rows, " rows do not divide among ", ranks, " ranks; give splits");
    return std::vector<int64_t>(static_cast<size_t>(ranks), rows / ranks * row);
  }
  std::vector<int64_t> counts;
  int64_t left = rows;
  for (const int64_t split : splits) {
    left = split < 0 || split > left ? -1 : left - split;
    if (left < 0) break;
    counts.push_back(split * row);
  }
  TORCH_CHECK_VALUE(left == 0 && counts.size() == static_cast<size_t>(ranks), "longhaul: ", kOp,
                    " (", where, "): the ", side, " splits [", at::IntArrayRef(splits),
                    "] do not cut ", rows, " rows into ", ranks, " parts");
  return counts;
}

std::vector<int64_t> SizesOf(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> sizes;
  for (const at::Tensor& tensor : tensors) sizes.push_back(tensor.numel());
  return sizes;
}

}  // namespace

struct ProcessGroupLonghaul::Exchange {
  c10d::OpType type;
  const char* op;
  Staging in, out;
  std::vector<int64_t> send_counts, recv_counts;
};

c10::intrusive_ptr<LonghaulWork> ProcessGroupLonghaul::AllToAll(const Exchange& exchange,
                                                                const c10d::AllToAllOptions& opts) {
  const auto own = static_cast<size_t>(getRank());
  TORCH_CHECK_VALUE(exchange.in.host().dtype() == exchange.out.host().dtype() &&
                        exchange.send_counts[own] == exchange.recv_counts[own],
                    "longhaul: ", exchange.op, " (", where_, "): ", exchange.send_counts[own],
                    " elements of ", exchange.in.host().dtype(), " to itself, room for ",
                    exchange.recv_counts[own], " of ", exchange.out.host().dtype());
  const auto work = NewWork({.type = exchange.type,
                             .op = exchange.op,
                             .profiling_title = "longhaul:all_to_all",
                             .inputs = exchange.in.tensors(),
                             .stagings = {exchange.in, exchange.out},
                             .outputs = exchange.out.tensors(),
                             .timeout = opts.timeout});
  ++collectives_;
  LiveGroup()->AllToAll(exchange.in.wire(), exchange.send_counts, exchange.out.wire(),
                        exchange.recv_counts, DoneFor(work));
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::alltoall_base(
    at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
    std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) {
  constexpr const char* kOp = "alltoall_base";
  return AllToAll({.type = c10d::OpType::ALLTOALL_BASE,
                   .op = kOp,
                   .in = Staging::Of(input, Access::kRead, kOp),
                   .out = Staging::Of(output, Access::kWrite, kOp),
                   .send_counts = CountsOf(input, input_splits, getSize(), "input", where_),
                   .recv_counts = CountsOf(output, output_splits, getSize(), "output", where_)},
                  opts);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::alltoall(std::vector<at::Tensor>& outputs,
                                                              std::vector<at::Tensor>& inputs,
                                                              const c10d::AllToAllOptions& opts) {
  constexpr const char* kOp = "alltoall";
  const auto ranks = static_cast<size_t>(getSize());
  TORCH_CHECK_VALUE(inputs.size() == ranks && outputs.size() == ranks, "longhaul: ", kOp, " (",
                    where_, "): a tensor for each of ", ranks, " ranks is wanted, saw ",
                    inputs.size(), " inputs and ", outputs.size(), " outputs");
  return AllToAll({.type = c10d::OpType::ALLTOALL,
                   .op = kOp,
                   .in = Staging::OfList(inputs, Access::kRead, kOp),
                   .out = Staging::OfList(outputs, Access::kWrite, kOp),
                   .send_counts = SizesOf(inputs),
                   .recv_counts = SizesOf(outputs)},
                  opts);
}

}  // namespace longhaul
