#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/record/record_rows.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// One run of a campaign: what `measure` starts and what becomes one row of `runs`.
struct PlannedRun {
  std::string arm;  // an [[arm]]'s name, "reference@0.65" or "control@0.9"
  Role role;
  double budget_fraction;  // of d0_tokens; 1 for an arm that says none
  int64_t seed;
  RunSpec spec;                // resolved; its seed and train.tokens are set
  std::string reference = {};  // of an arm: whose loss is subtracted
  bool held_out = false;       // of an arm: no fit over depths may use it
};

// The reference of every arm that names none.
inline constexpr char kD0Reference[] = "reference@1";

// A campaign: arms x seeds over one base run spec, in one file. The reference is the base unsplit
// and uncompressed (one stage, codecs "none") at each budget; control budgets are the same kind of
// run kept out of the fit, so their true eta is known; a control budget of 1 repeats the reference
// bit for bit (A/A). Seeds are paired across all arms. An arm that changes more than stages and
// boundary codecs has an efficiency and no q, unless it names as its `reference` an arm without
// codecs that has the same changes. Arms may also be named by block, for a tier
// (campaign_blocks.h).
//
//   [campaign]
//   name = "demo"
//   question = "What does a crossing cost with 4-bit activations?"
//   seeds = [1, 2, 3]
//   d0_tokens = 400_000
//   budgets = [0.5, 0.65, 0.8, 1.0, 1.1]
//   control_budgets = [0.9, 1.0]   # may be left out; 1.0: A/A
//   warmup_share = 0.15            # may be left out: of each run's own steps, so that all budgets
//                                  # warm up alike; an arm may say train.warmup_steps itself
//   target_loss_nat = 2.5          # may be left out: with a simulated clock, when arms reach it
//   primary = "s4"                 # may be left out: the first arm with 4 stages and a q, else
//                                  # the first with a q, else the first
//   assumed_sigma_nat = 0.015      # may be left out: noise for the forecast without a pilot
//   [[arm]]
//   name = "s4"
//   stages = 4                     # short for schedule.stages
//   forward = "int4-b64-h64"       # short for boundary.forward
//   backward = "int8-b64"
//   train.lr = 2e-3                # any other key of a run spec, dotted
//   reference = "s1-lr"            # may be left out: reference@1. An arm with codecs "none" that
//                                  # differs from this one in stages and codecs alone
//   held_out = true                # may be left out: an arm that no fit over depths uses, to try
//                                  # what the fit predicts
//   budget = 0.1                   # may be left out: 1. The fraction of d0_tokens that this arm trains;
//                                  # its eta stays one of D0, and it has no q
//   [model] ...                    # the base: a run spec without seed, train.tokens, train.steps;
//                                  # or a [program] of the user's (program_table.h)
struct CampaignSpec {
  std::string name;
  std::string question;
  std::vector<int64_t> seeds;
  int64_t d0_tokens;
  std::vector<double> budgets;  // contains 1
  std::vector<double> control_budgets;
  // A training loss, nat per token: when each arm reaches it on its simulated clock is estimated.
  std::optional<double> target_loss_nat = {};
  std::optional<double> warmup_share =
      {};                           // of a run's steps, rounded up; nullopt: as the base says
  std::string primary;              // the arm of the one confirmatory contrast
  std::string tier;                 // "" where the file writes out all arms
  std::vector<std::string> blocks;  // that arms are of, with a tier
  // For the resolution forecast when there is no pilot: spread of the final loss between seeds,
  // correlation between paired arms, slope. Defaults: the size class of examples/demo.toml.
  double assumed_sigma_nat = 0.015;
  double assumed_rho = 0.5;
  double assumed_slope_nat = 0.37;

  std::vector<std::string> arms;  // names, in the file's order
  std::vector<PlannedRun> runs;   // seed by seed, so that a stopped campaign is balanced
};

// Reads, checks and expands. InvalidArgument with file and line as ReadRunSpec; also: no arm, two
// arms of one name, budgets without 1, the same seed or budget twice, a reference that is none.
absl::StatusOr<CampaignSpec> ReadCampaign(const TomlValue& file, const SpecNames& names);
absl::StatusOr<CampaignSpec> LoadCampaign(const std::string& path,
                                          const std::vector<std::string>& sets,
                                          const SpecNames& names);

// True when the file holds a campaign (so `run` and `measure` can point at each other).
bool IsCampaign(const TomlValue& root);

// What is promised before the first run, as TOML: question, seeds, budgets, primary contrast,
// exclusion rules and every arm's resolved spec. `frozen` is what the caller knows and freezes with
// it (corpus hashes, versions). Give it to Record::BeginExperiment as plan_text; its SHA-256 stands
// on every figure.
std::string PlanText(const CampaignSpec& campaign,
                     const std::map<std::string, std::string>& frozen);

// What a plan says about references: arm -> the arm that it names. InvalidArgument: no such plan.
absl::StatusOr<std::map<std::string, std::string>> PlannedReferences(const std::string& plan_text);

// The arms that a plan holds out of fits over depths. InvalidArgument: no such plan.
absl::StatusOr<std::set<std::string>> PlannedHeldOut(const std::string& plan_text);

// The training loss whose time is asked for; nullopt: none.
std::optional<double> PlannedTargetLoss(const std::string& plan_text);

// The planned run that `run` is compared with at its seed; nullptr: it is no arm.
const PlannedRun* ReferenceOf(const CampaignSpec& campaign, const PlannedRun& run);

// True when the loss of this arm against its reference can be booked on crossings.
bool HasQ(const CampaignSpec& campaign, const PlannedRun& run);

}  // namespace longhaul
