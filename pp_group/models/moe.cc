#include "pp_group/models/models.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "pp_group/models/expert_parallel.h"
#include "pp_group/models/llama.h"

namespace longhaul {
namespace {

constexpr int64_t kChosen = 2;  // experts of a token
constexpr int64_t kExpertParameters = 4;

// The experts' matrices lie one below the other.
void AddExperts(const ModelSpec& spec, const std::string& name, int64_t index,
                LayoutBuilder* builder) {
  const int64_t d = spec.width, hidden = spec.hidden_width(), experts = spec.experts;
  const ExpertShare own = spec.expert_rank < 0
                              ? ExpertShare{0, experts}
                              : ShareOf(experts, static_cast<int>(spec.expert_rank),
                                        static_cast<int>(spec.expert_parallel));
  const auto add = [&](const char* matrix, int64_t at, int64_t rows, int64_t cols, double scale) {
    builder->MatrixRows(name + matrix, index + at, own.begin * rows, own.count * rows,
                        experts * rows, cols, scale);
  };
  const double residual = kLlamaInitialScale / std::sqrt(2.0 * static_cast<double>(spec.blocks));
  builder->Matrix(name + "router", index + 0, experts, d, kLlamaInitialScale);
  add("experts.gate", 1, hidden, d, kLlamaInitialScale);
  add("experts.up", 2, hidden, d, kLlamaInitialScale);
  add("experts.down", 3, d, hidden, residual);
}

// Which of the 2 n choices goes where: sorted by expert, in the order of tokens within one.
struct Routing {
  at::Tensor token;             // [2 n] token of each sorted choice
  at::Tensor place;             // [2 n] sorted place of each choice, token by token
  std::vector<int64_t> counts;  // [experts] choices of each
};

Routing Route(const at::Tensor& chosen, int64_t experts) {  // [n, 2] expert ids
  const at::Tensor flat = chosen.reshape({-1});
  const at::Tensor order = std::get<1>(at::sort(flat, /*stable=*/true, /*dim=*/0, false));
  Routing routing{
      .token = at::floor_divide(order, kChosen), .place = at::empty_like(order), .counts = {}};
  routing.place.scatter_(0, order, at::arange(order.numel(), order.options()));
  const at::Tensor counts = flat.unsqueeze(0)
                                .eq(at::arange(experts, flat.options()).unsqueeze(1))
                                .sum(at::IntArrayRef{1})
                                .to(at::kCPU);
  routing.counts.assign(counts.const_data_ptr<int64_t>(),
                        counts.const_data_ptr<int64_t>() + experts);
  return routing;
}

class MoeModel : public LlamaModel {
 public:
  MoeModel(const ModelSpec& spec, const StageOptions& options, const StageLayout& layout,
           AtenParameters* parameters)
      : LlamaModel(spec, layout, parameters),
        spec_(spec),
        balance_weight_(spec.balance_loss / static_cast<double>(options.microbatches)),
        peers_{.backend = options.expert_peers, .now = options.now} {
    for (int64_t b = 0; b < layout.num_blocks; ++b) {
      const std::string name = absl::StrCat("block", layout.first_block + b, ".");
      blocks_.push_back({parameters->Find(name + "router"), parameters->Find(name + "experts.gate"),
                         parameters->Find(name + "experts.up"),
                         parameters->Find(name + "experts.down")});
    }
  }

  absl::Duration waited() const override { return peers_.waited; }

 protected:
  at::Tensor FeedForward(int64_t index, const at::Tensor& x) override {
    const Experts& p = blocks_[static_cast<size_t>(index)];
    const int64_t n = x.size(0), d = spec_.width;
    const at::Tensor logits = Linear(x, p.router).to(at::kFloat);                  // [n, experts]
    const at::Tensor chosen = std::get<1>(at::topk(logits.detach(), kChosen, 1));  // [n, 2]
    const at::Tensor weights = at::softmax(logits.gather(1, chosen), 1).to(x.scalar_type());
    const Routing routing = Route(chosen, spec_.experts);
    const at::Tensor outputs = RunExperts(p, x.index_select(0, routing.token), routing.counts);
    const at::Tensor each = outputs.index_select(0, routing.place).view({n, kChosen, d});
    const at::Tensor y = (each * weights.unsqueeze(2)).sum(at::IntArrayRef{1});
    if (spec_.balance_loss == 0) return y;
    return WithLoss(y, BalanceLoss(logits, routing.counts), balance_weight_);
  }

 private:
  struct Experts {
    AtenParameter router, gate, up, down;
  };

  // x: [2 n, D], sorted by expert. What an expert does not take adds nothing.
  at::Tensor RunExperts(const Experts& p, const at::Tensor& x, const std::vector<int64_t>& counts) {
    const int64_t capacity = Capacity(x.size(0));
    std::vector<int64_t> taken;
    std::vector<at::Tensor> rows;
    int64_t begin = 0;
    for (const int64_t count : counts) {
      taken.push_back(std::min(count, capacity));
      rows.push_back(x.narrow(0, begin, taken.back()));
      begin += count;
    }
    if (taken == counts) return RunTaken(p, x, counts);
    const at::Tensor outputs = RunTaken(p, at::cat(rows, 0), taken);
    std::vector<at::Tensor> all;
    begin = 0;
    for (size_t e = 0; e < counts.size(); ++e) {
      all.push_back(outputs.narrow(0, begin, taken[e]));
      all.push_back(at::zeros({counts[e] - taken[e], spec_.width}, x.options()));
      begin += taken[e];
    }
    return at::cat(all, 0);
  }

  at::Tensor RunTaken(const Experts& p, const at::Tensor& x, const std::vector<int64_t>& counts) {
    if (peers_.backend == nullptr) return RunOwn(p, x, counts);
    return RunSpreadExperts(peers_, x, counts,
                            [&](const at::Tensor& rows, const std::vector<int64_t>& of_own) {
                              return RunOwn(p, rows, of_own);
                            });
  }

  // The experts that are here: x [k, D], sorted by expert -> [k, D].
  at::Tensor RunOwn(const Experts& p, const at::Tensor& x, const std::vector<int64_t>& counts) {
    const int64_t d = spec_.width, hidden = spec_.hidden_width();
    // An expert without rows adds nothing; the first keeps the graph whole where none has any.
    std::vector<at::Tensor> outputs = {x.narrow(0, 0, 0)};
    int64_t begin = 0, e = 0;
    for (const int64_t count : counts) {
      if (count > 0) {
        outputs.push_back(SwiGlu(x.narrow(0, begin, count), p.gate.Rows(e * hidden, hidden),
                                 p.up.Rows(e * hidden, hidden), p.down.Rows(e * d, d)));
      }
      begin += count;
      ++e;
    }
    return at::cat(outputs, 0);
  }

  int64_t Capacity(int64_t choices) const {
    if (spec_.capacity_factor == 0) return choices;
    return static_cast<int64_t>(std::ceil(spec_.capacity_factor * static_cast<double>(choices) /
                                          static_cast<double>(spec_.experts)));
  }

  at::Tensor BalanceLoss(const at::Tensor& logits, const std::vector<int64_t>& counts) const {
    const double choices = static_cast<double>(logits.size(0) * kChosen);
    const at::Tensor share =
        at::tensor(at::ArrayRef<int64_t>(counts), logits.options().device(at::kCPU))
            .div(choices)
            .to(logits.device());
    const at::Tensor probability = at::softmax(logits, 1).mean(at::IntArrayRef{0});
    return (share * probability).sum() * static_cast<double>(spec_.experts);
  }

  const ModelSpec spec_;
  const double balance_weight_;
  ExpertPeers peers_;  // no backend: all experts are here
  std::vector<Experts> blocks_;
};

}  // namespace

StageLayout MoeLayout(const ModelSpec& spec, int stage, int stages, std::span<const int64_t> cuts) {
  return LlamaLayoutWith(spec, stage, stages, cuts, AddExperts, kExpertParameters);
}

std::unique_ptr<AtenModel> NewAtenMoe(const ModelSpec& spec, const StageOptions& options,
                                      const StageLayout& layout, AtenParameters* parameters) {
  return std::make_unique<MoeModel>(spec, options, layout, parameters);
}

}  // namespace longhaul
