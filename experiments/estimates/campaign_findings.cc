// What a campaign's families say together: directions, depth, dose, and which tests count.
#include "experiments/estimates/campaign_findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "experiments/estimates/campaign_analysis.h"
#include "experiments/estimates/contrast_findings.h"
#include "experiments/estimates/efficiency.h"
#include "experiments/estimates/interval.h"
#include "experiments/estimates/seed_regression.h"
#include "experiments/estimates/time_to_loss.h"

namespace longhaul {
namespace {

constexpr double kLevel = 0.95;

bool OneDirection(const Family& family) { return family.directions() == 1; }

DepthArm ToDepthArm(const ArmResult& arm) {
  const int64_t boundaries =
      arm.crossings / ((arm.forward_codec != "none") + (arm.backward_codec != "none"));
  return {arm.stages, arm.forward_codec == "none" ? 0 : boundaries,
          arm.backward_codec == "none" ? 0 : boundaries, Losses(arm, EvalCodec::kOff)};
}

LossBySeed ReferenceLosses(const CampaignAnalysis& a, const ArmResult& arm) {
  const ArmResult* reference = FindArm(a, arm.reference);
  return reference == nullptr ? LossBySeed{} : Losses(*reference, EvalCodec::kOff);
}

// Why the arms of `families` say nothing together; "" where they may.
std::string Missing(const CampaignAnalysis& a, const std::vector<const Family*>& families) {
  if (!a.curve) return a.curve_note;
  for (const Family* family : families) {
    for (const ArmResult* arm : family->arms) {
      if (!arm->note.empty()) return fmt::format("arm '{}': {}", arm->arm, arm->note);
      if (!arm->off) return fmt::format("arm '{}' has no evaluation", arm->arm);
      if (arm->off->IsBound()) {
        return fmt::format("arm '{}' lies below the smallest reference budget", arm->arm);
      }
    }
  }
  return "";
}

// Arms of S = 16 that the plan keeps out of the family, all else being equal: a fit is tried on
// them.
std::vector<const ArmResult*> HeldOutOf(const CampaignAnalysis& a, const Family& family) {
  std::vector<const ArmResult*> out;
  const std::string key = FamilyKey(*family.arms.front(), true);
  for (const ArmResult& arm : a.arms) {
    if (!arm.held_out || arm.stages < kHeldOutStages || !arm.HasQ() || !arm.off) continue;
    if (!arm.off->IsBound() && FamilyKey(arm, true) == key) out.push_back(&arm);
  }
  return out;
}

absl::StatusOr<DepthComparison> Depths(const CampaignAnalysis& a,
                                       const std::vector<const Family*>& families) {
  if (const std::string why = Missing(a, families); !why.empty()) {
    return absl::FailedPreconditionError(why);
  }
  std::vector<DepthArm> arms;
  for (const Family* family : families) {
    for (const ArmResult* arm : family->arms) arms.push_back(ToDepthArm(*arm));
    for (const ArmResult* arm : HeldOutOf(a, *family)) arms.push_back(ToDepthArm(*arm));
  }
  return CompareDepths(*a.curve, ReferenceLosses(a, *families.front()->arms.front()), arms);
}

// Losses of the seeds that every arm has.
LossBySeed Common(LossBySeed reference, const std::vector<const Family*>& families) {
  for (const Family* family : families) {
    for (const ArmResult* arm : family->arms) {
      const LossBySeed losses = Losses(*arm, EvalCodec::kOff);
      std::erase_if(reference, [&](const auto& x) { return !losses.contains(x.first); });
    }
  }
  return reference;
}

Measured QOf(const Measured& a) {
  Measured q{.value = std::exp(-a.value)};
  if (a.interval) {
    q.interval = Interval{std::exp(-a.interval->high), std::exp(-a.interval->low),
                          a.interval->level, a.interval->method};
  }
  return q;
}

absl::StatusOr<JointEstimate> Joint(const CampaignAnalysis& a, const LossBySeed& reference,
                                    const Family& family) {
  std::vector<DepthPoint> points;
  for (const ArmResult* arm : family.arms) {
    if (family.arms.front()->stages < kHeldOutStages && arm->stages >= kHeldOutStages) continue;
    points.push_back({arm->crossings, Losses(*arm, EvalCodec::kOff)});
  }
  return EstimateJoint(*a.curve, reference, points);
}

void FitSymmetric(const CampaignAnalysis& a, const Family& forward, const Family& backward,
                  DirectionFinding& out) {
  out.note = Missing(a, {&forward, &backward});
  if (!out.note.empty()) return;
  const LossBySeed reference =
      Common(ReferenceLosses(a, *forward.arms.front()), {&forward, &backward});
  const auto f = Joint(a, reference, forward), b = Joint(a, reference, backward);
  if (!f.ok() || !b.ok()) {
    out.note = std::string((f.ok() ? b : f).status().message());
    return;
  }
  out.seeds = f->seeds;
  out.q_forward = f->q;
  out.q_backward = b->q;
  // Seeds are carried through the sum: luck that both share is counted once.
  std::vector<double> influence;
  for (size_t j = 0; j < f->influence.size(); ++j) {
    influence.push_back((f->influence[j] + b->influence[j]) / 2);
  }
  std::vector<CurveTerm> on_curve = f->on_curve;
  on_curve.insert(on_curve.end(), b->on_curve.begin(), b->on_curve.end());
  const Measured a_symmetric = FromInfluence((f->a.value + b->a.value) / 2, influence, kLevel);
  out.q_symmetric = QOf(Widened(a_symmetric, CurveError(*a.curve, on_curve) / 2));
}

const ArmResult* AtStages(const Family& family, int64_t stages) {
  const auto found = std::find_if(family.arms.begin(), family.arms.end(),
                                  [&](const ArmResult* arm) { return arm->stages == stages; });
  return found == family.arms.end() ? nullptr : *found;
}

void FindInteractions(const CampaignAnalysis& a, const Family& forward, const Family& backward,
                      const Family& both, DirectionFinding& out) {
  for (const ArmResult* arm : both.arms) {
    const ArmResult *f = AtStages(forward, arm->stages), *b = AtStages(backward, arm->stages);
    if (f == nullptr || b == nullptr) continue;
    DirectionFinding::Interaction interaction{arm->stages, std::nullopt, 0, ""};
    const LossBySeed reference = ReferenceLosses(a, *arm);
    std::vector<EtaTerm> terms;
    for (const auto& [weight, one] : {std::pair(1.0, arm), {-1.0, f}, {-1.0, b}}) {
      if (!one->note.empty()) interaction.note = fmt::format("arm '{}': {}", one->arm, one->note);
      terms.push_back({weight, reference, Losses(*one, EvalCodec::kOff)});
    }
    if (!a.curve) interaction.note = a.curve_note;
    if (interaction.note.empty()) {
      const auto contrast = EstimateContrast(*a.curve, terms, kLevel);
      if (contrast.ok()) {
        interaction.ln = contrast->ln;
        interaction.seeds = contrast->seeds;
      } else {
        interaction.note = std::string(contrast.status().message());
      }
    }
    out.interactions.push_back(std::move(interaction));
  }
}

DirectionFinding FindDirections(const CampaignAnalysis& a, const Family& forward,
                                const Family& backward, const Family* both) {
  DirectionFinding out{.forward_codec = forward.arms.front()->forward_codec,
                       .backward_codec = backward.arms.front()->backward_codec};
  std::vector<const Family*> all = {&forward, &backward};
  if (both != nullptr) all.push_back(both);
  for (const Family* family : all) {
    for (const ArmResult* arm : family->arms) out.arms.push_back(arm->arm);
  }
  FitSymmetric(a, forward, backward, out);
  if (both != nullptr) FindInteractions(a, forward, backward, *both, out);
  if (auto depths = Depths(a, all); depths.ok()) out.depths = *std::move(depths);
  return out;
}

// The family with these codecs and all else like `like`.
const Family* Sibling(const CampaignAnalysis& a, const Family& like, const std::string& forward,
                      const std::string& backward) {
  const std::string key = FamilyKey(*like.arms.front(), false);
  for (const Family& family : a.families) {
    const ArmResult& arm = *family.arms.front();
    if (arm.forward_codec == forward && arm.backward_codec == backward &&
        FamilyKey(arm, false) == key) {
      return &family;
    }
  }
  return nullptr;
}

// Pairs that arms with both directions name, and one codec against itself.
void CollectDirections(CampaignAnalysis& a) {
  for (const Family& family : a.families) {
    const ArmResult& arm = *family.arms.front();
    if (OneDirection(family)) {
      const std::string& codec = arm.forward_codec;
      const Family* backward = codec == "none" ? nullptr : Sibling(a, family, "none", codec);
      if (backward == nullptr || Sibling(a, family, codec, codec) != nullptr) continue;
      a.findings.directions.push_back(FindDirections(a, family, *backward, nullptr));
      continue;
    }
    const Family* forward = Sibling(a, family, arm.forward_codec, "none");
    const Family* backward = Sibling(a, family, "none", arm.backward_codec);
    if (forward == nullptr || backward == nullptr) continue;
    a.findings.directions.push_back(FindDirections(a, *forward, *backward, &family));
  }
}

void CompareEvaluations(CampaignAnalysis& a) {
  for (ArmResult& arm : a.arms) {
    if (arm.role != Role::kArm || arm.crossings == 0 || arm.lost > 0) continue;
    std::vector<double> differences;
    for (const Outcome& o : arm.outcomes) {
      if (o.loss_off && o.loss_on) differences.push_back(*o.loss_off - *o.loss_on);
    }
    if (!differences.empty()) arm.on_off = MeanWithInterval(differences, kLevel);
  }
}

std::string PlannedPrimary(const std::string& plan_text) {
  const absl::StatusOr<TomlValue> plan = ParseToml(plan_text, "plan");
  if (!plan.ok()) return "";
  const auto* name = FindAs<std::string>(*plan, "plan.primary");
  return name == nullptr ? "" : *name;
}

SecondaryTest TestArm(std::string name, const ArmResult& arm) {
  SecondaryTest test{.name = std::move(name), .arm = arm.arm};
  if (!arm.off) {
    test.note = arm.note;
    return test;
  }
  std::vector<double> deltas;
  for (const auto& [seed, delta] : arm.off->delta_by_seed) deltas.push_back(delta);
  if (deltas.size() < 2) test.note = "one seed";
  test.p = PairedP(deltas);
  return test;
}

// The other depths of the primary codec pair, each direction of it alone at the primary's S, and
// whether depth adds up; Holm over all of them. What cannot be tested stays in the family.
void TestSecondary(CampaignAnalysis& a) {
  const ArmResult* primary = FindArm(a, a.findings.primary);
  const auto family = std::find_if(a.families.begin(), a.families.end(), [&](const Family& f) {
    return std::find(f.arms.begin(), f.arms.end(), primary) != f.arms.end();
  });
  if (primary == nullptr || family == a.families.end()) return;
  std::vector<SecondaryTest>& tests = a.findings.secondary;
  for (const ArmResult* arm : family->arms) {
    if (arm == primary || arm->stages >= kHeldOutStages) continue;
    tests.push_back(TestArm(fmt::format("S = {}", arm->stages), *arm));
  }
  for (const auto& [name, forward, backward] :
       {std::tuple("forward only", primary->forward_codec, std::string("none")),
        {"backward only", std::string("none"), primary->backward_codec}}) {
    const Family* one = OneDirection(*family) ? nullptr : Sibling(a, *family, forward, backward);
    const ArmResult* arm = one == nullptr ? nullptr : AtStages(*one, primary->stages);
    if (arm != nullptr) tests.push_back(TestArm(name, *arm));
  }
  if (family->arms.size() > 1) {
    SecondaryTest test{.name = "M1 against a power of K", .arm = ""};
    const auto p = family->depths ? family->depths->BendP() : std::nullopt;
    test.p = p.value_or(1);
    if (!p) test.note = family->depths ? "M4 has no fit" : family->depths_note;
    tests.push_back(std::move(test));
  }
  std::vector<double> p_values;
  for (const SecondaryTest& test : tests) p_values.push_back(test.p);
  const std::vector<double> adjusted = HolmAdjusted(p_values);
  for (size_t i = 0; i < tests.size(); ++i) tests[i].adjusted = adjusted[i];
}

// NMSE of one direction summed over an arm's boundaries, mean over groups and seeds. nullopt: a
// compressed boundary has no sample.
absl::StatusOr<std::optional<double>> SummedError(const Record& record, const ArmResult& arm,
                                                  Direction direction) {
  double sum = 0, weight = 0;
  for (const Outcome& o : arm.outcomes) {
    const absl::StatusOr<std::vector<CrossingRow>> crossings = record.Crossings(o.run.id);
    if (!crossings.ok()) return crossings.status();
    for (const CrossingRow& c : *crossings) {
      if (c.direction != direction || c.codec == "none") continue;
      if (!c.nmse_mean) return std::optional<double>();
      sum += *c.nmse_mean;
    }
    weight += static_cast<double>(std::max<int64_t>(1, o.run.groups));
  }
  return std::optional<double>(weight > 0 ? sum / weight : 0);
}

bool IsNoise(const ArmResult& arm) {
  return arm.forward_codec.starts_with(kGaussianPrefix) ||
         arm.backward_codec.starts_with(kGaussianPrefix);
}

absl::Status CollectDoses(const Record& record, CampaignAnalysis& a) {
  std::vector<DosePoint> codecs, noise;
  for (const ArmResult& arm : a.arms) {
    if (!arm.HasQ() || !arm.off || arm.off->IsBound()) continue;
    const auto forward = SummedError(record, arm, Direction::kForward);
    const auto backward = SummedError(record, arm, Direction::kBackward);
    if (!forward.ok()) return forward.status();
    if (!backward.ok()) return backward.status();
    if (!*forward || !*backward || **forward + **backward <= 0) continue;
    DosePoint point{arm.arm, **forward, **backward, {}};
    for (const auto& [seed, delta] : arm.off->delta_by_seed) point.delta_by_seed[seed] = delta;
    (IsNoise(arm) ? noise : codecs).push_back(std::move(point));
  }
  Findings& f = a.findings;
  f.dose = FitDose(codecs);
  f.noise_dose = FitDose(noise);
  if (f.dose.kappa && f.noise_dose.kappa) {
    f.kappa_ratio = KappaRatio(f.dose, f.noise_dose);
    if (!f.kappa_ratio) f.kappa_ratio_note = "Gaussian noise costs nothing that can be seen";
  }
  return absl::OkStatus();
}

}  // namespace

bool DirectionFinding::OnlyBothFeedsThePlanner() const {
  return std::any_of(interactions.begin(), interactions.end(), [](const Interaction& i) {
    return i.ln && i.ln->interval && (i.ln->interval->low > 0 || i.ln->interval->high < 0);
  });
}

std::string DirectionFinding::Words() const {
  if (OnlyBothFeedsThePlanner()) {
    return "the directions do not add up: only arms with both feed the simulator";
  }
  const bool any = std::any_of(interactions.begin(), interactions.end(),
                               [](const Interaction& i) { return i.ln && i.ln->interval; });
  return any ? "no interaction of the directions is resolved" : "no interaction was measured";
}

absl::Status CollectFindings(const Record& record, CampaignAnalysis& a) {
  a.findings.primary = PlannedPrimary(a.experiment.plan_text);
  CompareEvaluations(a);
  for (Family& family : a.families) {
    absl::StatusOr<DepthComparison> depths = Depths(a, {&family});
    if (depths.ok()) {
      family.depths = *std::move(depths);
    } else {
      family.depths_note = std::string(depths.status().message());
    }
  }
  CollectDirections(a);
  CollectContrasts(a);
  TestSecondary(a);
  if (absl::Status s = CollectDiloco(record, a); !s.ok()) return s;
  if (absl::Status s = CollectTimesToLoss(record, a); !s.ok()) return s;
  return CollectDoses(record, a);
}

}  // namespace longhaul
