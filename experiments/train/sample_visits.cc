#include "experiments/train/sample_visits.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/spec/boundary_policy.h"
#include "experiments/train/spec_corpus.h"
#include "pp_group/data/row_order.h"

namespace longhaul {
namespace {

constexpr int64_t kMostCounted = int64_t{1} << 25;

// 0: the data cannot be read.
int64_t WindowsOf(const RunSpec& spec) {
  const absl::StatusOr<std::shared_ptr<const Corpus>> corpus = OpenCorpus(spec);
  return corpus.ok() ? (*corpus)->train_rows(spec.model.context) : 0;
}

}  // namespace

std::vector<int> SampleBoundaries(const RunSpec& spec) {
  std::vector<int> boundaries;
  for (int64_t b = 0; b + 1 < spec.stages(); ++b) {
    if (RemembersSamples(CodecsOf(spec, b).forward)) boundaries.push_back(static_cast<int>(b));
  }
  return boundaries;
}

std::vector<SampleVisits> VisitsOf(const RunSpec& spec, int64_t done) {
  const int64_t groups = spec.outer.groups, rows = spec.train.batch_rows, steps = Steps(spec);
  const int64_t begun = spec.boundary.warmup_steps.value_or(0), from = std::max(done, begun);
  const int64_t windows = WindowsOf(spec), crossing = (steps - from) * rows;
  const bool whole_epochs = groups == 1 && begun == 0;  // each of them once in an epoch
  const bool counted = steps - begun <= kMostCounted / (rows * groups);
  std::vector<SampleVisits> visits;
  for (int64_t g = 0; g < groups; ++g) {
    SampleVisits own{.first = crossing};
    if (windows > 0 && whole_epochs) {
      own.first = std::min(steps * rows, windows) - std::min(from * rows, windows);
    } else if (windows > 0 && counted) {
      own.first = 0;
      std::vector<bool> had(static_cast<size_t>(windows));
      for (int64_t step = begun; step < steps; ++step) {
        for (int64_t i = 0; i < rows; ++i) {
          const int64_t index = (step * groups + g) * rows + i;
          const auto window =
              static_cast<size_t>(TrainWindow(static_cast<uint64_t>(spec.seed), index, windows));
          own.first += step >= from && !had[window];
          had[window] = true;
        }
      }
    }
    own.later = crossing - own.first;
    visits.push_back(own);
  }
  return visits;
}

std::vector<std::string> SampleAdvice(const RunSpec& spec) {
  const std::vector<int> boundaries = SampleBoundaries(spec);
  if (boundaries.empty()) return {};
  for (const SampleVisits& group : VisitsOf(spec)) {
    if (group.later > 0) return {};
  }
  return {fmt::format(
      "advice: no sample comes twice ({} rows of {} windows), so that '{}' sends every activation "
      "as its first, in fp16: train for more than an epoch, or take a codec without samples",
      Steps(spec) * spec.train.batch_rows * spec.outer.groups, WindowsOf(spec),
      CodecsOf(spec, boundaries.front()).forward)};
}

}  // namespace longhaul
