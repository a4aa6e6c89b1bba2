#include "experiments/run/branches.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "compressors/numbers/sha256.h"
#include "experiments/spec/spec_keys.h"
#include "pp_group/state/checkpoint.h"

namespace longhaul {
namespace {

int64_t StableSteps(const RunSpec& spec) {
  return Steps(spec) - DecaySteps(spec.train, Steps(spec));
}

bool MayBranch(const PlannedRun& run) {
  const RunSpec& spec = run.spec;
  const bool repeats = run.role == Role::kControl && run.budget_fraction == 1;
  return run.role != Role::kArm && !repeats && spec.train.schedule == "wsd" && !spec.program &&
         spec.net.transport == "loopback" && spec.schedule.stages == 1 && spec.outer.groups == 1 &&
         spec.checkpoint.from.empty();
}

// All of the spec but its length.
std::string SharedText(RunSpec spec) {
  spec.train.tokens.reset();
  spec.train.steps.reset();
  return ToToml(spec);
}

bool Holds(const std::string& folder, int64_t step) {
  return std::filesystem::exists(CheckpointPath(folder, /*group=*/0, /*stage=*/0, step));
}

}  // namespace

Branches::Branches(const std::string& folder, const std::vector<PlannedRun>& planned) {
  for (const PlannedRun& run : planned) {
    if (!MayBranch(run)) continue;
    const std::string shared = SharedText(run.spec);
    Family& family = families_[shared];
    family.folder = absl::StrCat(folder, "/branches/", Sha256Hex(shared).substr(0, 16));
    family.runs.push_back(&run);
  }
  for (auto& [shared, family] : families_) {
    std::ranges::stable_sort(family.runs, std::greater(),
                             [](const PlannedRun* run) { return Steps(run->spec); });
    if (family.runs.size() < 2) continue;
    for (const PlannedRun* run : family.runs) of_[run] = &family;
  }
}

const Branches::Family* Branches::FamilyOf(const PlannedRun& run) const {
  const auto found = of_.find(&run);
  return found == of_.end() ? nullptr : found->second;
}

bool Branches::IsTrunk(const PlannedRun& run) const {
  const Family* family = FamilyOf(run);
  return family != nullptr && family->runs.front() == &run;
}

const PlannedRun* Branches::TrunkOf(const PlannedRun& run) const {
  const Family* family = FamilyOf(run);
  if (family == nullptr || family->runs.front() == &run) return nullptr;
  const PlannedRun* trunk = family->runs.front();
  // A trunk that decays before the branch point has another state there.
  return StableSteps(run.spec) <= StableSteps(trunk->spec) ? trunk : nullptr;
}

int64_t Branches::SharedSteps(const PlannedRun& run) const {
  return TrunkOf(run) == nullptr ? 0 : StableSteps(run.spec);
}

int64_t Branches::count() const {
  return std::ranges::count_if(of_,
                               [this](const auto& run) { return SharedSteps(*run.first) > 0; });
}

int64_t Branches::SharedTokens() const {
  int64_t tokens = 0;
  for (const auto& [run, family] : of_) tokens += SharedSteps(*run) * TokensPerStep(run->spec);
  return tokens;
}

bool Branches::Ready(const PlannedRun& run) const {
  const int64_t step = SharedSteps(run);
  return step > 0 && Holds(absl::StrCat(FamilyOf(run)->folder, "/", step), step);
}

Branching Branches::Of(const PlannedRun& run) const {
  Branching branching;
  const Family* family = FamilyOf(run);
  if (family == nullptr) return branching;
  branching.leave_in = family->folder;
  if (Ready(run)) branching.begin_in = branching.FolderAfter(SharedSteps(run));
  if (!IsTrunk(run)) return branching;
  for (const PlannedRun* other : family->runs) {
    const int64_t step = SharedSteps(*other);
    if (step > 0 && !Ready(*other)) branching.leave_after.push_back(step);
  }
  return branching;
}

void Branches::Finished(const PlannedRun& run) const {
  const int64_t step = SharedSteps(run);
  if (step == 0) return;
  const std::filesystem::path family = FamilyOf(run)->folder;
  std::error_code ignored;  // what stays costs room and no result
  std::filesystem::remove_all(family / std::to_string(step), ignored);
  std::filesystem::remove(family, ignored);  // while they are empty
  std::filesystem::remove(family.parent_path(), ignored);
}

std::string WeightsFolder(const std::string& record_folder, const PlannedRun& planned) {
  const RunSpec& spec = planned.spec;
  const bool priced = planned.arm == kD0Reference && !spec.program && !spec.injected() &&
                      spec.eval.rows > 0 && spec.model.save.empty();
  if (!priced) return "";
  return (std::filesystem::path(record_folder) / "weights" / std::to_string(planned.seed)).string();
}

}  // namespace longhaul
