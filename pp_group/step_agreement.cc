#include "pp_group/step_agreement.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

// One round of the agreement: allgather of one int64 per rank, all local ranks posted before any
// is waited for.
using BackendOf = c10::intrusive_ptr<c10d::Backend> (*)(const RankState&);
void SmallestOver(std::span<const std::unique_ptr<RankState>> ranks, BackendOf backend_of,
                  std::vector<int64_t>* offers) {
  std::vector<WorkPtr> works;
  std::vector<std::vector<std::vector<at::Tensor>>> outputs(ranks.size());
  std::vector<std::vector<at::Tensor>> inputs(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto backend = backend_of(*ranks[i]);
    inputs[i] = {at::full({1}, (*offers)[i], at::kLong)};
    outputs[i].resize(1);
    for (int r = 0; r < backend->getSize(); ++r) {
      outputs[i][0].push_back(at::empty({1}, at::kLong));
    }
    works.push_back(backend->allgather(outputs[i], inputs[i]));
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    WaitAndReset(&works[i]);
    for (const at::Tensor& offer : outputs[i][0]) {
      (*offers)[i] = std::min((*offers)[i], offer.item<int64_t>());
    }
  }
}

// The smallest of every process' offer over all S*G ranks: over the plain group of each pipeline,
// then over the peers of each stage.
int64_t AgreeOnSmallest(std::span<const std::unique_ptr<RankState>> ranks, int64_t offer) {
  std::vector<int64_t> offers(ranks.size(), offer);
  const auto& plain = ranks.front()->rank.plain;
  if (plain != nullptr && plain->getSize() > 1) {
    SmallestOver(
        ranks, [](const RankState& s) { return s.rank.plain; }, &offers);
  }
  if (ranks.front()->rank.outer != nullptr) {
    SmallestOver(
        ranks, [](const RankState& s) { return s.rank.outer; }, &offers);
  }
  return *std::min_element(offers.begin(), offers.end());
}

// How a worker fares with its file of a step; the worst of all workers is what all do.
enum Fare : int64_t { kRefused, kUnusable, kWhole };

Fare FareOf(const absl::Status& tried) {
  if (tried.ok()) return kWhole;
  const bool unusable =
      absl::IsDataLoss(tried) || absl::IsNotFound(tried) || absl::IsInvalidArgument(tried);
  return unusable ? kUnusable : kRefused;
}

// A fare and whose it is as one number, ordered by fare first.
constexpr int64_t kRanks = int64_t{1} << 32;
int64_t OfferOf(Fare fare, const RankState& state) {
  return fare * kRanks + int64_t{state.rank.group} * state.stage->layout().stages +
         state.rank.stage;
}
std::string WorkerOf(int64_t offer, const RankState& state) {
  const int64_t rank = offer % kRanks, stages = state.stage->layout().stages;
  return absl::StrCat("group ", rank / stages, ", stage ", rank % stages);
}

}  // namespace

absl::StatusOr<LoadedStep> LoadNewestStep(std::span<const std::unique_ptr<RankState>> ranks,
                                          const StepLoad& load) {
  LoadedStep result{.step = INT64_MAX, .passed_over = {}};
  absl::Status none = absl::NotFoundError(
      absl::StrCat("checkpoint directory ", load.directory, ": not every rank has a checkpoint"));
  for (;;) {
    result.step = AgreeOnSmallest(ranks, load.newest(result.step));
    if (result.step < 0) return none;
    const absl::Status tried = load.try_step(result.step);
    // All or none: a rank that cannot load stops the others before anything has changed.
    const int64_t worst = AgreeOnSmallest(ranks, OfferOf(FareOf(tried), *ranks.front()));
    if (worst / kRanks == kWhole) break;
    const absl::Status why =
        !tried.ok() ? tried
                    : absl::DataLossError(absl::StrCat("checkpoint of step ", result.step, ": ",
                                                       WorkerOf(worst, *ranks.front()),
                                                       " cannot load its file"));
    if (worst / kRanks == kRefused) return why;
    if (absl::IsNotFound(none)) none = why;  // the newest one's, where no older step is whole
    if (!tried.ok()) result.passed_over.emplace_back(tried.message());
    --result.step;
  }
  const absl::Status own = load.restore();
  // Nobody sends before everybody's channels know which message comes next.
  const bool restored = AgreeOnSmallest(ranks, own.ok()) == 1;
  if (!own.ok()) return own;
  if (!restored) {
    return absl::InternalError(
        absl::StrCat("checkpoint of step ", result.step, ": another rank failed to take it over"));
  }
  return result;
}

}  // namespace longhaul
