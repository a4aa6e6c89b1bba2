#include "pp_group/outer/data_parallel.h"

#include <utility>

#include <ATen/ATen.h>

#include "pp_group/optimizer/adamw.h"

namespace longhaul {
namespace {

std::vector<FlatRange> Between(const std::vector<FlatRange>& ranges, int64_t elements) {
  std::vector<FlatRange> gaps;
  int64_t at = 0;
  for (const FlatRange& range : ranges) {
    if (at < range.begin) gaps.push_back({at, range.begin});
    at = range.end;
  }
  if (at < elements) gaps.push_back({at, elements});
  return gaps;
}

at::Tensor Part(const at::Tensor& flat, const FlatRange& range) {
  return flat.narrow(0, range.begin, range.end - range.begin);
}

}  // namespace

absl::StatusOr<std::unique_ptr<OuterAlgorithm>> DataParallel::Create(const OuterSpec& spec,
                                                                     OuterRank rank) {
  const StageLayout& layout = rank.stage->layout();
  std::unique_ptr<DataParallel> average(new DataParallel);
  average->groups_ = rank.place.groups;
  average->experts_ = std::move(rank.experts);
  average->shared_ = SharedRanges(layout);
  average->spread_ = Between(average->shared_, layout.flat_elements);
  const int64_t elements = SharedElements(layout);
  rank.place.parts = FrameParts(layout);
  if (!average->spread_.empty()) average->parts_ = at::empty({elements}, at::kFloat);
  auto exchange = GroupAverage::Create(spec.codec, std::move(rank.place), elements);
  if (!exchange.ok()) return exchange.status();
  average->exchange_ = *std::move(exchange);
  return average;
}

absl::Status DataParallel::BeginGradients(int64_t step, const Stage& stage) {
  if (spread_.empty()) return exchange_->Begin(step, stage.gradients().cpu());
  int64_t at = 0;
  for (const FlatRange& range : shared_) {
    const at::Tensor part = Part(stage.gradients(), range);
    parts_.narrow(0, at, part.numel()).copy_(part);
    at += part.numel();
  }
  return exchange_->Begin(step, parts_);
}

absl::Status DataParallel::FinishGradients(Stage* stage) {
  const at::Tensor& gradients = stage->gradients();
  if (spread_.empty()) {
    const absl::StatusOr<at::Tensor> average = exchange_->Finish(
        gradients.is_cpu() ? gradients : at::empty(gradients.sizes(), at::kFloat));
    if (average.ok()) gradients.copy_(*average);
    return average.status();
  }
  const absl::StatusOr<at::Tensor> average = exchange_->Finish(parts_);
  if (!average.ok()) return average.status();
  int64_t at = 0;
  for (const FlatRange& range : shared_) {
    const at::Tensor part = Part(gradients, range);
    part.copy_(average->narrow(0, at, part.numel()));
    at += part.numel();
  }
  for (const FlatRange& range : spread_) Part(gradients, range).div_(groups_);
  return absl::OkStatus();
}

void DataParallel::BeginSquares(const Stage& stage) {
  own_squares_ = {at::tensor(at::ArrayRef<double>(ClipSquaresOf(stage).spread), at::kDouble)};
  all_squares_.assign(1, {});
  for (int g = 0; g < experts_->getSize(); ++g) {
    all_squares_[0].push_back(at::empty_like(own_squares_[0]));
  }
  gathering_ = experts_->allgather(all_squares_, own_squares_);
}

std::vector<double> DataParallel::FinishSquares() {
  WaitAndReset(&gathering_);
  std::vector<double> sums(static_cast<size_t>(own_squares_[0].numel()), 0);
  for (const at::Tensor& squares : all_squares_[0]) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += squares.const_data_ptr<double>()[i];
  }
  return sums;
}

}  // namespace longhaul
