#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/estimates/interval.h"
#include "experiments/estimates/outer_forms.h"
#include "experiments/record/record.h"

namespace longhaul {

struct CampaignAnalysis;

// DiLoCo's efficiency factor by factor, codec off at evaluation. eta(M, H, c): tokens that the
// unsplit reference, synchronous data parallel with the same global batch and the same rows a step,
// would have needed over tokens that M groups with H inner steps and outer codec c took.
//   eta_H(H | M)        = eta(M, H, 0) / eta(M, 1, 0)
//   eta_replicas(M | H) = eta(M, H, 0) / eta(1, H, 0)
//   eta_c(c | M, H)     = eta(M, H, c) / eta(M, H, 0)
// The planner multiplies a function of H by one of M. With M = 1 nothing can diverge, so the split
// that it is given starts from M0, the smallest measured M above 1: eta_H = eta(M0, H, 0) and
// eta_replicas = eta(M, H, 0) / eta(M0, H, 0).

// Two conventions of the batch, never mixed in a factor: global-batch-matched, against the D0
// reference, whose batch the groups share out; and local-batch-matched, where every group has the
// D0 reference's batch, against data parallel over the same larger global batch (an arm of its own,
// outer.algorithm = "dp", whose losses are set on the reference curve's slope and form).

// An arm with an outer step: it differs from its reference in nothing but groups, the outer step
// and how the same global batch is shared out, and for joint cells in stages and boundary codecs.
struct DilocoCell {
  std::string arm;
  bool local_batch = false;             // its reference is an arm of data parallel, not D0's
  int64_t groups = 1, inner_steps = 1;  // M, H
  std::string codec;                    // c, of the outer delta
  std::string boundary;                 // "int4-b64-h64 / int8-b64, S = 4"; "": unsplit
  double ratio = 0;  // of c, from the bytes of its frames against bf16; 0: not recorded
};

// An arm whose groups meet by an algorithm, at the rates that the campaign gave it: another one than
// DiLoCo, or DiLoCo at an inner rate of its own. All of D0, the reference's global batch, no boundary.
struct OuterArm {
  std::string arm, algorithm, codec;
  int64_t groups, inner_steps;  // 1: gradients cross in every step
};

struct DilocoFactor {
  enum class Kind { kInnerSteps, kReplicas, kCodec, kSplitReplicas, kInteraction, kExponent };
  Kind kind = Kind::kInnerSteps;
  std::string name = {};  // "eta_H(30 | M = 4)"; with ", local batch" behind it where that matches
  bool local_batch = false;
  int64_t groups = 0, inner_steps = 0;
  std::string codec = {};
  double ratio = 0;                            // of a codec's factor
  std::vector<std::string> terms = {};         // of an interaction: "H", "M", "act", "c"
  std::optional<Measured> ln = std::nullopt;   // of an exponent: the exponent itself
  std::optional<Measured> eta = std::nullopt;  // exp(ln); none for interactions, exponents
  int64_t seeds = 0;
  std::string note = {};  // why there is no value
};

struct DilocoFindings {
  std::vector<DilocoCell> cells = {};
  std::vector<OuterArm> outer = {};
  std::vector<DilocoFactor> factors = {};
  std::vector<OuterForms> forms = {};
};

// Fills `diloco` of the analysis; nothing where no arm is a cell. Errors: the record's.
absl::Status CollectDiloco(const Record& record, CampaignAnalysis& analysis);

}  // namespace longhaul
