#include "experiments/price/untrained_price.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/status_macros.h"
#include "compressors/numbers/noise.h"
#include "experiments/price/price_input.h"
#include "experiments/price/price_model.h"
#include "experiments/price/price_plan.h"
#include "experiments/train/model_weights.h"
#include "experiments/train/spec_corpus.h"
#include "pp_group/memory/tensor_memory.h"

namespace longhaul {
namespace {

// Codecs without a state that any boundary has, each once.
std::vector<std::string> CodecsOfAll(std::span<const RunSpec> arms) {
  std::vector<std::string> names;
  for (const RunSpec& arm : arms) {
    for (int64_t b = 0; b + 1 < arm.schedule.stages; ++b) {
      const std::string name = CodecsOf(arm, b).forward;
      if (name == "none" || std::ranges::find(names, name) != names.end()) continue;
      if (PriceCodecs::Make({name}).ok()) names.push_back(name);
    }
  }
  return names;
}

std::optional<PriceArm> ArmOfSpec(const RunSpec& spec, const std::vector<std::string>& codecs) {
  const std::vector<int64_t> cuts = spec.schedule.cuts.empty()
                                        ? EqualCuts(spec.model.blocks, spec.schedule.stages)
                                        : spec.schedule.cuts;
  PriceArm arm;
  for (size_t b = 0; b < cuts.size(); ++b) {
    const std::string name = CodecsOf(spec, static_cast<int64_t>(b)).forward;
    if (name == "none") continue;
    const auto found = std::ranges::find(codecs, name);
    if (found == codecs.end()) return std::nullopt;
    arm.push_back({.block = cuts[b], .codec = static_cast<size_t>(found - codecs.begin())});
  }
  return arm;
}

UntrainedPrice PriceOf(const RowValues& with, const RowValues& without) {
  const auto n = static_cast<double>(with.size());
  double sum = 0, squares = 0;
  for (size_t i = 0; i < with.size(); ++i) sum += with[i] - without[i];
  for (size_t i = 0; i < with.size(); ++i) {
    const double off = with[i] - without[i] - sum / n;
    squares += off * off;
  }
  return {.nat = sum / n,
          .standard_error_nat = n > 1 ? std::sqrt(squares / (n - 1) / n) : 0,
          .rows = static_cast<int64_t>(with.size())};
}

}  // namespace

absl::StatusOr<std::vector<std::optional<UntrainedPrice>>> PriceUntrained(
    const RunSpec& reference, const std::string& weights, std::span<const RunSpec> arms,
    int64_t threads) {
  UseTensorMemory();
  at::set_num_threads(static_cast<int>(threads));
  RunSpec spec = reference;
  spec.model.expert_parallel = 1;
  ASSIGN_OR_RETURN(std::shared_ptr<const Corpus> text, OpenCorpus(spec));
  ASSIGN_OR_RETURN(const auto file, ModelWeights::Open(WeightsIn(weights), spec));
  ASSIGN_OR_RETURN(std::unique_ptr<PriceModel> model, PriceModel::Load(spec, *file));
  const std::vector<std::string> names = CodecsOfAll(arms);
  ASSIGN_OR_RETURN(PriceCodecs codecs, PriceCodecs::Make(names));

  PriceArms priced;
  const size_t without = priced.Add({});
  std::vector<std::optional<size_t>> places;
  for (const RunSpec& arm : arms) {
    const std::optional<PriceArm> one = ArmOfSpec(arm, names);
    places.push_back(one ? std::optional(priced.Add(*one)) : std::nullopt);
  }
  const PassNode tree = PassTree(priced.all());
  std::vector<RowValues> losses(priced.all().size());
  RowValues row(losses.size());
  std::vector<int64_t> ids(static_cast<size_t>(spec.model.context) + 1);
  for (int64_t r = 0; r < spec.eval.rows; ++r) {
    text->HeldOutRow(r, spec.model.context, ids);
    const uint64_t seed = FoldSeed({static_cast<uint64_t>(spec.seed), static_cast<uint64_t>(r)});
    RETURN_IF_ERROR(model->PriceRow(ids, tree, seed, &codecs, {}, row));
    for (size_t a = 0; a < row.size(); ++a) losses[a].push_back(row[a]);
  }
  std::vector<std::optional<UntrainedPrice>> prices;
  for (const std::optional<size_t> place : places) {
    prices.push_back(place ? std::optional(PriceOf(losses[*place], losses[without]))
                           : std::nullopt);
  }
  return prices;
}

}  // namespace longhaul
