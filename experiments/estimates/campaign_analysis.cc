#include "experiments/estimates/campaign_analysis.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/estimates/comparability.h"
#include "experiments/estimates/interval.h"

namespace longhaul {
namespace {

bool Ended(RunStatus status) {
  return status == RunStatus::kOk || status == RunStatus::kDiverged ||
         status == RunStatus::kFailed || status == RunStatus::kInvalid;
}

bool Lost(const Outcome& outcome) {
  return Ended(outcome.run.status) && !outcome.loss_off.has_value();
}

int64_t Crossings(const RunRow& run) {
  return CompressedCrossings(run.stages, run.forward_codec, run.backward_codec);
}

absl::StatusOr<Outcome> ToOutcome(const Record& record, const RunRow& run) {
  Outcome outcome{run, std::nullopt, std::nullopt, /*evaluated=*/false};
  if (run.status != RunStatus::kOk) return outcome;
  absl::StatusOr<std::vector<EvaluationRow>> evaluations = record.Evaluations(run.id);
  if (!evaluations.ok()) return evaluations.status();
  for (const EvaluationRow& e : *evaluations) {  // in the order of steps: the last one stays
    if (e.codec == EvalCodec::kOff) outcome.evaluated = true;
    std::optional<double>& loss = e.codec == EvalCodec::kOff ? outcome.loss_off : outcome.loss_on;
    loss.reset();
    if (std::isfinite(e.loss_nat)) loss = e.loss_nat;
  }
  // Without any codec both are the same.
  if (!outcome.loss_on && Crossings(run) == 0) outcome.loss_on = outcome.loss_off;
  return outcome;
}

absl::StatusOr<std::vector<ArmResult>> CollectArms(const Record& record, int64_t experiment) {
  absl::StatusOr<std::vector<RunRow>> runs = record.Runs(experiment);
  if (!runs.ok()) return runs.status();
  std::vector<ArmResult> arms;
  for (const RunRow& run : *runs) {
    auto arm = std::find_if(arms.begin(), arms.end(),
                            [&](const ArmResult& a) { return a.arm == run.arm; });
    if (arm == arms.end()) {
      ArmResult fresh{};
      fresh.arm = run.arm;
      fresh.role = run.role;
      fresh.budget_fraction = run.budget_fraction;
      fresh.stages = run.stages;
      fresh.forward_codec = run.forward_codec;
      fresh.backward_codec = run.backward_codec;
      fresh.crossings = Crossings(run);
      arm = arms.insert(arms.end(), std::move(fresh));
    }
    absl::StatusOr<Outcome> outcome = ToOutcome(record, run);
    if (!outcome.ok()) return outcome.status();
    auto& all = arm->outcomes;
    const auto same_seed = std::find_if(all.begin(), all.end(),
                                        [&](const Outcome& o) { return o.run.seed == run.seed; });
    if (same_seed == all.end()) {
      all.push_back(*std::move(outcome));
    } else if (Ended(run.status) || !Ended(same_seed->run.status)) {
      *same_seed = *std::move(outcome);
    }
  }
  for (ArmResult& arm : arms) {
    arm.seeds = static_cast<int64_t>(arm.outcomes.size());
    arm.lost = std::count_if(arm.outcomes.begin(), arm.outcomes.end(), Lost);
    // A run that ended with a loss that is no number diverged too; one without a loss was not
    // evaluated.
    arm.diverged = std::count_if(arm.outcomes.begin(), arm.outcomes.end(), [](const Outcome& o) {
      return Lost(o) && (o.run.status == RunStatus::kDiverged ||
                         (o.run.status == RunStatus::kOk && o.evaluated));
    });
    arm.not_evaluated = std::count_if(
        arm.outcomes.begin(), arm.outcomes.end(),
        [](const Outcome& o) { return o.run.status == RunStatus::kOk && !o.evaluated; });
    arm.open = std::count_if(arm.outcomes.begin(), arm.outcomes.end(),
                             [](const Outcome& o) { return !Ended(o.run.status); });
  }
  return arms;
}

// Who is compared with whom, as the plan has it, and what lies between them.
absl::Status PairArms(CampaignAnalysis& a) {
  absl::StatusOr<std::map<std::string, std::string>> named =
      PlannedReferences(a.experiment.plan_text);
  if (!named.ok()) return named.status();
  const absl::StatusOr<std::set<std::string>> held_out = PlannedHeldOut(a.experiment.plan_text);
  if (!held_out.ok()) return held_out.status();
  for (ArmResult& arm : a.arms) {
    if (arm.role == Role::kReference) continue;
    arm.held_out = held_out->contains(arm.arm);
    const auto own = named->find(arm.arm);
    arm.reference = own == named->end() ? kD0Reference : own->second;
    const ArmResult* reference = FindArm(a, arm.reference);
    if (reference == nullptr || arm.role != Role::kArm) continue;
    arm.changes = ChangesBesideCodecs(reference->outcomes.front().run.spec_toml,
                                      arm.outcomes.front().run.spec_toml);
  }
  return absl::OkStatus();
}

void FitCurve(CampaignAnalysis& a) {
  // A curve through the survivors would be one of the runs that happened to train well.
  for (const ArmResult& arm : a.arms) {
    if (arm.role != Role::kReference || arm.lost == 0) continue;
    a.curve_note +=
        fmt::format("{}{} {}", a.curve_note.empty() ? "" : ", ", arm.arm, arm.LostText());
  }
  if (!a.curve_note.empty()) {
    a.curve_note = "no reference curve over survivors: " + a.curve_note;
    return;
  }
  // Budgets as they were trained: tokens are rounded to whole steps.
  double d0_tokens = 0;
  for (const ArmResult& arm : a.arms) {
    if (arm.role == Role::kReference && arm.budget_fraction == 1 && !arm.outcomes.empty()) {
      d0_tokens = static_cast<double>(arm.outcomes.front().run.train_tokens);
    }
  }
  std::vector<ReferenceRun> runs;
  for (ArmResult& arm : a.arms) {
    if (d0_tokens == 0) continue;
    arm.trained_fraction = static_cast<double>(arm.outcomes.front().run.train_tokens) / d0_tokens;
    for (const Outcome& o : arm.outcomes) {
      if (arm.role != Role::kReference || !o.loss_off) continue;
      runs.push_back({o.run.seed, arm.trained_fraction, *o.loss_off});
    }
  }
  absl::StatusOr<ReferenceCurve> curve = FitReference(runs);
  if (curve.ok()) {
    a.curve = *std::move(curve);
  } else {
    a.curve_note = std::string(curve.status().message());
  }
}

void EstimateArms(CampaignAnalysis& a) {
  for (ArmResult& arm : a.arms) {
    if (arm.role == Role::kReference) continue;
    if (arm.lost > 0) {
      arm.note = arm.LostText();
      continue;
    }
    if (!a.curve) {
      arm.note = a.curve_note;
      continue;
    }
    const ArmResult* reference = FindArm(a, arm.reference);
    if (reference == nullptr || reference->lost > 0) {
      arm.note = reference == nullptr
                     ? fmt::format("its reference '{}' has no run", arm.reference)
                     : fmt::format("its reference '{}' {}", arm.reference, reference->LostText());
      continue;
    }
    // The curve is of D0's text, which is to be the arm's own and its reference's.
    for (const ArmResult* other : {reference, FindArm(a, kD0Reference)}) {
      const std::string text = other == nullptr ? "" : OtherText(*other, arm);
      if (!text.empty()) arm.note = "losses on different texts have no difference: " + text;
    }
    if (!arm.note.empty()) continue;
    for (const EvalCodec codec : {EvalCodec::kOff, EvalCodec::kOn}) {
      absl::StatusOr<Efficiency> e =
          EstimateArm(*a.curve, Losses(*reference, EvalCodec::kOff), Losses(arm, codec),
                      arm.HasQ() ? arm.crossings : 0);
      if (e.ok()) (codec == EvalCodec::kOff ? arm.off : arm.on) = *std::move(e);
      if (e.ok() || codec == EvalCodec::kOn) continue;
      arm.note = std::string(e.status().message());
      arm.delta_alone = DeltaWithoutEta(Losses(*reference, codec), Losses(arm, codec));
    }
  }
}

absl::StatusOr<double> BitsPerElement(const Record& record, const Family& family) {
  int64_t bytes = 0, elements = 0;
  for (const ArmResult* arm : family.arms) {
    for (const Outcome& o : arm->outcomes) {
      absl::StatusOr<std::vector<CrossingRow>> crossings = record.Crossings(o.run.id);
      if (!crossings.ok()) return crossings.status();
      for (const CrossingRow& c : *crossings) {
        if (c.direction != Direction::kForward && c.direction != Direction::kBackward) continue;
        if (c.codec == "none") continue;  // a direction or a boundary that nothing compresses
        bytes += c.payload_bytes;
        elements += c.elements;
      }
    }
  }
  return elements == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(elements);
}

absl::StatusOr<JointEstimate> FitDepths(const CampaignAnalysis& a, const Family& family,
                                        EvalCodec codec) {
  std::vector<DepthPoint> points;
  const bool shallow = family.arms.front()->stages < kHeldOutStages;  // sorted by S
  for (const ArmResult* arm : family.arms) {
    if (shallow && arm->stages >= kHeldOutStages) continue;  // it tests what the others say
    const auto without = [&](std::string_view why) {
      return absl::FailedPreconditionError(fmt::format("no joint q: arm '{}': {}", arm->arm, why));
    };
    if (!arm->note.empty()) return without(arm->note);
    const std::optional<Efficiency>& e = codec == EvalCodec::kOff ? arm->off : arm->on;
    if (!e) return without("no such evaluation");
    // What its loss says about q lies where the curve was not measured.
    if (e->IsBound()) return without("below the smallest reference budget");
    points.push_back({arm->crossings, Losses(*arm, codec)});
  }
  return EstimateJoint(
      *a.curve, Losses(*FindArm(a, family.arms.front()->reference), EvalCodec::kOff), points);
}

void FitFamily(const CampaignAnalysis& a, Family& family) {
  for (const EvalCodec codec : {EvalCodec::kOff, EvalCodec::kOn}) {
    const bool off = codec == EvalCodec::kOff;
    absl::StatusOr<JointEstimate> joint = FitDepths(a, family, codec);
    if (joint.ok()) {
      (off ? family.off : family.on) = *std::move(joint);
    } else {
      (off ? family.note : family.on_note) = std::string(joint.status().message());
    }
  }
}

absl::Status CollectFamilies(const Record& record, CampaignAnalysis& a) {
  std::vector<std::string> keys;
  for (const ArmResult& arm : a.arms) {
    if (!arm.HasQ() || arm.held_out) continue;
    const RunRow& run = arm.outcomes.front().run;
    const std::string key = FamilyKey(arm, true);
    const auto found = std::find(keys.begin(), keys.end(), key);
    if (found == keys.end()) {
      keys.push_back(key);
      a.families.emplace_back();
      a.families.back().codecs = run.forward_codec + " / " + run.backward_codec;
      a.families.back().arms.push_back(&arm);
    } else {
      a.families[static_cast<size_t>(found - keys.begin())].arms.push_back(&arm);
    }
  }
  for (Family& family : a.families) {
    std::sort(family.arms.begin(), family.arms.end(),
              [](const ArmResult* x, const ArmResult* y) { return x->stages < y->stages; });
    if (a.curve) family.smallest_budget = a.curve->smallest_budget;
    FitFamily(a, family);
    absl::StatusOr<double> bits = BitsPerElement(record, family);
    if (!bits.ok()) return bits.status();
    family.bits_per_element = *bits;
  }
  return absl::OkStatus();
}

void EstimateNoise(CampaignAnalysis& a) {
  double squares = 0, freedom = 0;
  for (const ArmResult& arm : a.arms) {
    if (!arm.off || arm.off->seeds < 2) continue;
    if (arm.role == Role::kArm && !arm.HasQ()) continue;
    // An arm that lost most of its tokens scatters by what it lost, not by the luck of a seed.
    if (arm.off->IsBound()) continue;
    const auto& deltas = arm.off->delta_by_seed;
    if (std::all_of(deltas.begin(), deltas.end(), [](const auto& d) { return d.second == 0; })) {
      continue;
    }
    const double df = static_cast<double>(arm.off->seeds - 1);
    squares += df * arm.off->sd_delta_nat * arm.off->sd_delta_nat;
    freedom += df;
  }
  if (freedom == 0) return;
  a.sd_delta_nat = std::sqrt(squares / freedom);
  if (a.curve && a.curve->sigma_nat > 0) {
    const double sigma = a.curve->sigma_nat;
    a.rho = std::clamp(1 - a.sd_delta_nat * a.sd_delta_nat / (2 * sigma * sigma), -1.0, 1.0);
  }
}

// Weights of the GPT: token and position embeddings, 12 D^2 a block, an untied head. Biases and
// norms, under 2 % at the smallest sizes, are left out; the run's own count wins.
int64_t Parameters(const RunRow& run) {
  const std::string counted = FactOf(run.facts, "parameters");
  if (!counted.empty()) return std::atoll(counted.c_str());
  const absl::StatusOr<TomlValue> spec = ParseToml(run.spec_toml, "record");
  if (!spec.ok()) return 0;
  const auto number = [&](const char* path) {
    const int64_t* read = FindAs<int64_t>(*spec, path);
    return read == nullptr ? int64_t{0} : *read;
  };
  const int64_t width = number("model.width");
  return 12 * number("model.blocks") * width * width +
         (2 * number("model.vocab") + number("model.context")) * width;
}

}  // namespace

LossBySeed Losses(const ArmResult& arm, EvalCodec codec) {
  LossBySeed losses;
  for (const Outcome& o : arm.outcomes) {
    const std::optional<double>& loss = codec == EvalCodec::kOff ? o.loss_off : o.loss_on;
    if (loss) losses[o.run.seed] = *loss;
  }
  return losses;
}

const ArmResult* FindArm(const CampaignAnalysis& a, const std::string& name) {
  const auto found = std::find_if(a.arms.begin(), a.arms.end(),
                                  [&](const ArmResult& arm) { return arm.arm == name; });
  return found == a.arms.end() ? nullptr : &*found;
}

std::string FamilyKey(const ArmResult& arm, bool codecs) {
  const std::string& spec = arm.outcomes.front().run.spec_toml;
  std::string key = arm.reference + "\n";
  for (size_t at = 0; at < spec.size();) {
    const size_t end = std::min(spec.find('\n', at), spec.size());
    const std::string line = spec.substr(at, end - at);
    const bool codec = line.starts_with("forward =") || line.starts_with("backward =");
    const bool left_out = line.starts_with("stages =") || line.starts_with("seed =");
    if (!left_out && (codecs || !codec)) key += line + "\n";
    at = end + 1;
  }
  return key;
}

Verdict ArmResult::verdict() const {
  if (diverged > 0) return Verdict::kDiverged;
  if (lost > 0) return Verdict::kIncomplete;
  if (!HasQ()) return Verdict::kNoQ;
  if (controls_failed) return Verdict::kNoConclusion;
  if (!off || !off->q) return Verdict::kNoInterval;
  return AgainstAssumed(*off->q, directions());
}

int64_t ArmResult::directions() const {
  return (forward_codec != "none") + (backward_codec != "none");
}

std::string ArmResult::LostText() const {
  if (lost == 0) return "";
  std::vector<std::string_view> what;
  if (diverged > 0) what.emplace_back("diverged");
  if (lost > diverged + not_evaluated) what.emplace_back("failed");
  if (not_evaluated > 0) what.emplace_back("without a held-out loss:");
  return fmt::format("{} {} of {}", fmt::join(what, " or "), lost, seeds);
}

Verdict Family::verdict() const {
  if (arms.front()->controls_failed) return Verdict::kNoConclusion;
  return off ? AgainstAssumed(off->q, directions()) : Verdict::kNoInterval;
}

int64_t Family::fitted_depths() const {
  if (arms.front()->stages >= kHeldOutStages) return static_cast<int64_t>(arms.size());
  return std::count_if(arms.begin(), arms.end(),
                       [](const ArmResult* arm) { return arm->stages < kHeldOutStages; });
}

int64_t Family::directions() const { return arms.front()->directions(); }

absl::StatusOr<CampaignAnalysis> Analyse(const Record& record, const ExperimentRow& experiment) {
  CampaignAnalysis a;
  a.experiment = experiment;
  absl::StatusOr<std::vector<ArmResult>> arms = CollectArms(record, experiment.id);
  if (!arms.ok()) return arms.status();
  a.arms = *std::move(arms);
  if (a.arms.empty()) {
    a.curve_note = "no run yet";
    return a;
  }
  if (absl::Status s = RefuseMixed(record, a); !s.ok()) return s;
  if (!a.mixed_files.empty()) return a;
  a.parameters = Parameters(a.arms.front().outcomes.front().run);
  if (absl::Status s = PairArms(a); !s.ok()) {
    // Without the plan nobody knows what an arm is to be compared with.
    a.curve_note = "the recorded plan cannot be read: " + std::string(s.message());
    return a;
  }
  CompareBuilds(a);
  FitCurve(a);
  EstimateArms(a);
  if (absl::Status s = CollectFamilies(record, a); !s.ok()) return s;
  EstimateNoise(a);
  if (absl::Status s = CollectFindings(record, a); !s.ok()) return s;
  if (absl::Status s = CheckIdentities(record, a); !s.ok()) return s;
  CheckControls(a);
  return a;
}

}  // namespace longhaul
