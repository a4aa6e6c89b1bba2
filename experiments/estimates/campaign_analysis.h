#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/campaign_findings.h"
#include "experiments/estimates/diloco_findings.h"
#include "experiments/estimates/efficiency.h"
#include "experiments/estimates/forecast.h"
#include "experiments/estimates/table.h"
#include "experiments/record/record.h"
#include "experiments/spec/campaign.h"
#include "experiments/spec/spec_changes.h"

namespace longhaul {

// What a campaign's record says, computed from the record alone. `measure` prints it, `report`
// draws it, the calibration export writes it; all three start here.

// The run that counts for one arm and seed: the last one that ended, else the last one.
struct Outcome {
  RunRow run;
  std::optional<double> loss_off, loss_on;  // final held-out loss by codec; finite
  bool evaluated;  // a loss with the codec off stands in the record, finite or not
};

struct ArmResult {
  std::string arm;
  Role role;
  double budget_fraction;       // as planned
  double trained_fraction = 1;  // D / D0 as trained: tokens are rounded to whole steps
  int64_t stages;
  std::string forward_codec, backward_codec;
  int64_t crossings;  // K: S - 1 per compressed direction
  // Of an arm: whose losses are subtracted, and in what else than stages and boundary codecs the
  // two differ. With anything in `changes` there is an eta and no q: a loss would be booked on
  // crossings that the change made.
  std::string reference = {};
  std::vector<SpecChange> changes = {};
  // Where a run was made by another build, or on another path through the CPU, than its reference:
  // which seed and what. Their bits were to agree but for what crossings lose, so there is no q.
  std::string other_build = {};
  bool held_out = false;  // by the plan: it joins no fit over depths
  bool HasQ() const {
    return role == Role::kArm && crossings > 0 && changes.empty() && other_build.empty();
  }
  std::vector<Outcome> outcomes;
  int64_t seeds = 0;          // with any run
  int64_t lost = 0;           // of those, diverged, failed or invalid: no mean over the survivors
  int64_t diverged = 0;       // of the lost
  int64_t not_evaluated = 0;  // of the lost: trained to the end, no held-out loss in the record
  int64_t open = 0;           // running, interrupted or died
  std::optional<Efficiency> off, on;  // by evaluation; nullopt: see note
  // Codec off: loss less its reference's where that has no place on the curve, so that there is no
  // eta (see note).
  std::optional<Measured> delta_alone = std::nullopt;
  // Loss with the codec off less that with it on, same weights: nat, over seeds.
  std::optional<Measured> on_off = std::nullopt;
  std::string note;              // why there is no estimate
  bool controls_failed = false;  // of the campaign
  std::string LostText() const;  // "diverged 1 of 3"; "failed 1 of 3"; "" for none
  int64_t directions() const;    // compressed: 0, 1 or 2
  // Against what is assumed, codec off at evaluation.
  Verdict verdict() const;
  // Of a control: "holds the truth", "MISSES the truth at 95 %; a control fails beyond 99 %", or "no
  // verdict: ..." where its interval could hardly have missed it: none, or one that holds no loss
  // (1) beside the truth.
  std::string ControlVerdict() const;
};

// Arms with a q that differ in the number of stages alone, fitted together.
struct Family {
  std::string codecs;                  // "int4-b64-h64 / int8-b64": forward / backward
  std::vector<const ArmResult*> arms;  // by S; point into CampaignAnalysis::arms
  std::optional<JointEstimate> off, on;
  std::string note, on_note;                             // why there is no joint q, by evaluation
  std::optional<DepthComparison> depths = std::nullopt;  // codec off
  std::string depths_note = {};                          // why there is none
  int64_t directions() const;                            // compressed: 1 or 2
  int64_t fitted_depths() const;  // S = 16 tests the fit while there are shallower arms
  Verdict verdict() const;        // of the joint q, codec off
  double smallest_budget = 0;     // of the reference curve: nothing is said of an eta below
  double bits_per_element = 0;    // from payload bytes, both directions; 0: not recorded
};

// An arm that must, or at least may, have the very bits of its reference: nothing it does loses
// any. Runs of the same seed, step by step.
struct IdentityCheck {
  std::string arm, reference;
  bool same_spec = false;  // A/A: any difference is a fault of the instrument
  int64_t seeds = 0, identical_seeds = 0;
  int64_t other_builds = 0;                                // seeds that are not compared for it
  int64_t losses = 0, parameter_hashes = 0, held_out = 0;  // compared, all seeds together
  std::string first_difference = {};                       // "" where there is none
  std::string Text() const;                                // one line
};

struct CampaignAnalysis {
  ExperimentRow experiment;
  std::vector<ArmResult> arms;  // reference, control and arms, in the plan's order
  std::vector<Family> families;
  std::optional<ReferenceCurve> curve;
  std::string curve_note;  // why there is no curve
  // Where a file held different things in two runs: which, with both hashes. Then there is no
  // figure at all.
  std::string mixed_files = {};
  std::vector<IdentityCheck> identities = {};
  std::vector<std::string> failed_controls = {};  // why, one each; with any there is no conclusion
  int64_t parameters = 0;                         // N
  // Of a paired difference, pooled over controls and arms with a q. Arms with the bits of their
  // reference do not count: they have no noise to show.
  double sd_delta_nat = 0;
  double rho = 0;            // 1 - sd_delta^2 / (2 sigma^2)
  std::string git_revision;  // of all runs: "1a2b, 3c4d" where they are of several
  std::vector<std::string> builds =
      {};  // in what the runs' builds and machines differ (comparability.h)
  Findings findings = {};
  DilocoFindings diloco = {};
  CampaignAnalysis() = default;
  CampaignAnalysis(CampaignAnalysis&&) = default;  // moving a vector keeps the pointers of families
  CampaignAnalysis& operator=(CampaignAnalysis&&) = default;

  // What could be told apart at all; the first line of every report.
  std::string Resolvable() const;
  // "N = 0.44 M, D0 = 0.40 M tokens, n = 3, sigma ..., plan 1a2b3c4d": for captions.
  std::string Conditions() const;
};
absl::StatusOr<CampaignAnalysis> Analyse(const Record& record, const ExperimentRow& experiment);
// By name; nullptr: none. Final losses of its runs that have one.
const ArmResult* FindArm(const CampaignAnalysis& analysis, const std::string& name);
LossBySeed Losses(const ArmResult& arm, EvalCodec codec);
// The resolved spec, and the reference, without what may differ in a family; without `codecs` also
// without what may differ between its directions.
std::string FamilyKey(const ArmResult& arm, bool codecs);
// What families say together: fills on_off, depths and `findings`.
absl::Status CollectFindings(const Record& record, CampaignAnalysis& analysis);
// As rows of the record; as tables: findings_tables.h.
void AddFindings(const CampaignAnalysis& analysis, std::vector<EstimateRow>& rows);
// Its last part: fills `identities`.
absl::Status CheckIdentities(const Record& record, CampaignAnalysis& analysis);

// After it: fills `failed_controls`. A control with another budget fails when its known eta lies
// outside of the 99 % interval, an A/A arm when a bit differs.
void CheckControls(CampaignAnalysis& analysis);

// What the planner's activation efficiency becomes: eta_act(S) = q^K, K = 2 (S - 1) with both
// directions compressed and S - 1 with one.
struct PlannedDepth {
  int64_t stages;
  double assumed;     // 0.995^(2 (S - 1)): the planner charges both directions
  Measured measured;  // of the arm at this S where there is one, else from q of the family
  bool direct;        // an arm at this S
};
std::vector<PlannedDepth> PlannedDepths(const Family& family);
// "Eight stages keep eta_act >= 0.90": true from q = 0.90^(1/K) on, 0.99250 with both directions.
constexpr double kEightStageFloor = 0.90;

// Rows for the table `estimates`.
std::vector<EstimateRow> ToEstimates(const CampaignAnalysis& analysis);

// The table at the end of `measure`: per arm mean loss difference, eta and q with 95 % intervals,
// codec off and on at evaluation, against 0.995 or what else the arm changes; the joint q of each
// codec; the controls; diverged reference runs; A/A; CampaignSummary. With kAll also the reference
// curve and all tables of findings_tables.h, which the report has.
std::string CampaignTable(const CampaignAnalysis& analysis, Detail detail = Detail::kScreen);

// One paragraph: what the primary arm costs, in which arms 0.995 is excluded, in which not, and how
// many more seeds, how long, would separate the primary one or the nearest; at which model size; and
// what q would do to a planner, as a sensitivity analysis. "": there is no curve or no arm with a q.
std::string CampaignSummary(const CampaignAnalysis& analysis);

// Analyse + SetEstimates + CampaignTable.
absl::StatusOr<std::string> AnalyseCampaign(Record& record, int64_t experiment,
                                            Detail detail = Detail::kScreen);

// The resolution forecast printed before a campaign. Noise is that of an earlier campaign of the
// record with at least three seeds (a pilot) where there is one, else assumed and labelled so.
struct ResolutionForecast {
  std::string text;
  bool primary_resolvable;  // 0.5 % per crossing in the primary contrast with 80 % power
};
// record: nullptr where there is none yet.
absl::StatusOr<ResolutionForecast> ForecastFor(const CampaignSpec& campaign, const Record* record);

// Schema longhaul.calibration/1 for the planner: "activation" has one entry per joint q, with the names of
// its arms; "arms" has every arm with what it changes, its efficiency and, where it may have one,
// its q. Numbers without an interval are left out, bounds say so. From the analysis alone.
std::string CalibrationJson(const CampaignAnalysis& analysis);

}  // namespace longhaul
