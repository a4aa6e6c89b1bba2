#include "pp_group/models/expert_parallel.h"

#include <numeric>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "pp_group/engines/aten/ops.h"

namespace longhaul {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Counts = std::vector<int64_t>;

int64_t SumOf(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// Rows for rank 0, 1, ... go out, those of rank 0, 1, ... come back.
at::Tensor Exchange(ExpertPeers& peers, const at::Tensor& rows, Counts sent, Counts received) {
  const absl::Duration start = peers.now ? (*peers.now)() : absl::ZeroDuration();
  at::Tensor in = rows.contiguous(),
             out = at::empty({SumOf(received), rows.size(1)}, rows.options());
  peers.backend->alltoall_base(out, in, received, sent, {})->wait();
  if (peers.now) peers.waited += (*peers.now)() - start;
  return out;
}

// Its gradient goes the way back.
class ExchangeOp : public torch::autograd::Function<ExchangeOp> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, int64_t peers,
                            const Counts& sent, const Counts& received) {
    context->saved_data["peers"] = peers;
    context->saved_data["sent"] = sent;
    context->saved_data["received"] = received;
    return Exchange(*reinterpret_cast<ExpertPeers*>(peers), rows.detach(), sent, received);
  }
  static variable_list backward(AutogradContext* context, const variable_list& dy) {
    auto* const peers = reinterpret_cast<ExpertPeers*>(context->saved_data["peers"].toInt());
    return {Exchange(*peers, dy[0], context->saved_data["received"].toIntVector(),
                     context->saved_data["sent"].toIntVector()),
            {},
            {},
            {}};
  }
};

// counts [E] of this rank -> [R, E / R]: what each rank sends to this one's experts.
std::vector<Counts> CountsForOwn(ExpertPeers& peers, const Counts& counts) {
  const auto ranks = static_cast<int64_t>(peers.backend->getSize());
  const auto experts = static_cast<int64_t>(counts.size());
  const at::Tensor out = at::tensor(at::ArrayRef<int64_t>(counts), at::kLong).view({experts, 1});
  const Counts even(static_cast<size_t>(ranks), experts / ranks);
  const at::Tensor in = Exchange(peers, out, even, even);
  std::vector<Counts> of_rank;
  const auto* values = in.const_data_ptr<int64_t>();
  for (int64_t r = 0; r < ranks; ++r, values += experts / ranks) {
    of_rank.emplace_back(values, values + experts / ranks);
  }
  return of_rank;
}

// Where the rows that came, sorted by rank and within one by expert, stand when they are sorted by
// expert and within one by rank.
at::Tensor ByExpert(const std::vector<Counts>& of_rank) {
  Counts begin, order;
  int64_t at = 0;
  for (const Counts& counts : of_rank) {
    for (const int64_t count : counts) begin.push_back(std::exchange(at, at + count));
  }
  const size_t experts = of_rank.front().size();
  for (size_t e = 0; e < experts; ++e) {
    for (size_t r = 0; r < of_rank.size(); ++r) {
      for (int64_t i = 0; i < of_rank[r][e]; ++i) order.push_back(begin[r * experts + e] + i);
    }
  }
  return at::tensor(at::ArrayRef<int64_t>(order), at::kLong);
}

}  // namespace

at::Tensor RunSpreadExperts(
    ExpertPeers& peers, const at::Tensor& rows, const Counts& counts,
    const std::function<at::Tensor(const at::Tensor&, const Counts&)>& run) {
  const int ranks = peers.backend->getSize();
  const auto own =
      static_cast<size_t>(ShareOf(static_cast<int64_t>(counts.size()), 0, ranks).count);
  const std::vector<Counts> of_rank = CountsForOwn(peers, counts);
  Counts sent, received, of_expert(own, 0);
  for (size_t r = 0; r < of_rank.size(); ++r) {
    sent.push_back(SumOf({counts.begin() + static_cast<int64_t>(r * own),
                          counts.begin() + static_cast<int64_t>((r + 1) * own)}));
    received.push_back(SumOf(of_rank[r]));
    for (size_t e = 0; e < own; ++e) of_expert[e] += of_rank[r][e];
  }
  const auto handle = reinterpret_cast<int64_t>(&peers);
  const at::Tensor order = ByExpert(of_rank).to(rows.device());
  const at::Tensor came = ExchangeOp::apply(rows, handle, sent, received);
  at::Tensor back = at::empty_like(order);
  back.scatter_(0, order, at::arange(order.numel(), order.options()));
  const at::Tensor outputs = run(came.index_select(0, order), of_expert).index_select(0, back);
  return ExchangeOp::apply(outputs, handle, received, sent);
}

}  // namespace longhaul
