#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/estimates/depth_models.h"
#include "experiments/estimates/dose_response.h"

namespace longhaul {

// What a campaign's families say together, codec off at evaluation.

// One codec pair from its arms with one direction compressed (K = S - 1) and, where there are any,
// with both.
struct DirectionFinding {
  std::string forward_codec, backward_codec;
  std::vector<std::string> arms = {};
  std::string note = {};  // why there is no q
  int64_t seeds = 0;
  std::optional<Measured> q_forward = std::nullopt, q_backward = std::nullopt;
  std::optional<Measured> q_symmetric = std::nullopt;  // exp(-(a_f + a_b) / 2): the planner's
  // ln eta_both - ln eta_forward - ln eta_backward at one S.
  struct Interaction {
    int64_t stages;
    std::optional<Measured> ln;
    int64_t seeds;
    std::string note;  // why there is none
  };
  std::vector<Interaction> interactions = {};
  std::optional<DepthComparison> depths = std::nullopt;  // all arms together: M2 against the rest
  // Some interaction's interval excludes 0: the directions do not add up, and only arms with both
  // say what a pipeline loses.
  bool OnlyBothFeedsThePlanner() const;
  std::string Words() const;
};

// One of the tests that were named before the first run, beside the primary one.
struct SecondaryTest {
  std::string name;  // "S = 8", "forward only", "M1 against a power of K"
  std::string arm;   // "" where it is about several
  double p = 1, adjusted = 1;
  std::string note = {};  // why it could not be tested: p = 1
};

// A weighted sum of ln eta over arms; see contrast_findings.h.
struct ContrastFinding {
  std::string name;
  std::optional<Measured> value = std::nullopt;
  int64_t seeds = 0;
  std::string note = {};  // why there is no value
};

// When the runs of an arm would have reached a stated training loss; time_to_loss.h.
struct TimeToLoss {
  std::string arm;
  int64_t seeds = 0, reached = 0;  // with a simulated clock; and of those
  // Where all of them reached it.
  std::optional<Measured> simulated_s = std::nullopt, tokens = std::nullopt;
};

struct Findings {
  std::string primary = {};  // arm, as planned
  std::vector<DirectionFinding> directions = {};
  std::vector<SecondaryTest> secondary = {};
  DoseFit dose = {}, noise_dose = {};  // codecs; Gaussian noise
  std::optional<Measured> kappa_ratio = std::nullopt;
  std::string kappa_ratio_note = {};
  std::vector<ContrastFinding> contrasts = {};
  double target_loss_nat = 0;
  std::vector<TimeToLoss> times_to_loss = {};
};

}  // namespace longhaul
