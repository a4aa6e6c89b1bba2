#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/price_law.h"
#include "experiments/record/record.h"

namespace longhaul {

// The cells of a law: campaigns as records have them.

struct PriceArm {
  std::string arm, codecs;  // "minmax3-b64 / none"
  bool noise = false;       // Gaussian noise in place of a codec
  bool forward = true;      // which direction is compressed
  // In the law's terms. Tokens: -ln eta; none where the arm lies below the smallest budget, by
  // `note`. Loss: Delta, nat.
  std::optional<PricePoint> tokens = std::nullopt, loss = std::nullopt;
  Measured minus_ln_eta = {}, delta_nat = {};
  std::string note = {};
};

struct PriceCell {
  std::string name, folder;
  double parameters = 0, tokens = 0;  // N, D at D0 as trained
  int64_t seeds = 0;                  // that have every run
  double slope_nat = 0;               // of the reference curve at D0
  std::vector<PriceArm> arms = {};
  std::vector<std::string> left_out = {};  // arms that cannot join, each with why
};

// The newest campaign of a record. Arms with one direction compressed and a q join; their cuts and
// places are the spec's, eps is the mean NMSE of their boundaries. Seeds: those that have every run
// of the arms that join, so that a campaign that was stopped counts as far as it went.
// FailedPrecondition: no campaign, no curve, failed controls, or no arm to join.
absl::StatusOr<PriceCell> ReadPriceCell(const Record& record, size_t index);

}  // namespace longhaul
