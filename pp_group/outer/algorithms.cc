#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/outer/algorithm.h"
#include "pp_group/outer/diloco.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {

// Each in a file of its name.
using NewOuter = absl::StatusOr<std::unique_ptr<OuterAlgorithm>>(const OuterSpec&, OuterRank);
NewOuter NewDataParallel, NewEager, NewHierarchical, NewHooked, NewNoloco;

namespace {

absl::Status Lacks(const char* hook) {
  return absl::InternalError(absl::StrCat("outer algorithm without ", hook));
}

}  // namespace

absl::Status OuterAlgorithm::BeginGradients(int64_t, const Stage&) { return Lacks("gradients"); }
absl::Status OuterAlgorithm::FinishGradients(Stage*) { return Lacks("gradients"); }
absl::Status OuterAlgorithm::Encode(const OuterExchange&) { return Lacks("exchanges"); }
absl::StatusOr<std::vector<double>> OuterAlgorithm::SquaredNorms(int64_t) {
  return Lacks("exchanges");
}
absl::Status OuterAlgorithm::Average(int64_t, const std::vector<bool>&) {
  return Lacks("exchanges");
}
absl::Status OuterAlgorithm::Apply(const OuterExchange&) { return Lacks("exchanges"); }
std::vector<std::pair<std::string, at::Tensor>> OuterAlgorithm::Tensors(int64_t) const {
  return {};
}

absl::StatusOr<std::unique_ptr<OuterAlgorithm>> NewOuterAlgorithm(const OuterSpec& spec,
                                                                  OuterRank rank) {
  RETURN_IF_ERROR(CheckOuterName(spec.algorithm));
  const OuterRule& rule = *FindOuterRule(spec.algorithm);
  if (rule.crosses == OuterRule::Crosses::kGradients) {
    return NewDataParallel(spec, std::move(rank));
  }
  if (spec.inner_steps == 0) return std::unique_ptr<OuterAlgorithm>();
  if (rule.in_python) return NewHooked(spec, std::move(rank));
  if (rule.meets == OuterRule::Meets::kLevels) return NewHierarchical(spec, std::move(rank));
  if (rule.crosses == OuterRule::Crosses::kParameters) return NewNoloco(spec, std::move(rank));
  if (rule.eager) return NewEager(spec, std::move(rank));
  return Diloco::Create(spec, std::move(rank));
}

}  // namespace longhaul
