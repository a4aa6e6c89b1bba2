#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/simulator/calibration_file.h"
#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

// How a loss measured on a small model is carried to a large one. kTokens: the efficiency stays.
// kLoss: the difference in nats stays and is worth exp(-delta/s), s = -dL/d ln D at the scenario's
// size and 25.6 tokens per parameter.
enum class Transfer { kTokens, kLoss };

// Which parts of a calibration are taken.
struct CalibrationChoice {
  std::string codec;         // of the activations; "": the only one there is
  bool extrapolate = false;  // alpha(P) of other sizes is scaled as at the measured one
};

// A part of a calibration that can stand alone, all else assumed: what made a conclusion change.
// kQuality: q and depth, at the assumed ratio. kRatio: the ratio measured from bytes, at the assumed
// q. kRest: everything that is not of activations.
enum class Part { kQuality, kRatio, kRest };
std::string_view PartName(Part part);

// The part of a calibration that scenarios take, as standard deviates: each source of uncertainty
// is one number z, 0 at the point, -kEnd and kEnd at the ends of its interval.
class CalibrationPlan {
 public:
  static constexpr double kEnd = 1.959963984540054;

  // InvalidArgument with the known codecs: a codec that is not there, or none named among several.
  static absl::StatusOr<CalibrationPlan> Make(Calibration calibration,
                                              const CalibrationChoice& choice);

  size_t sources() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  const Calibration& calibration() const { return calibration_; }
  const ActivationEntry* activation() const { return activation_ ? &*activation_ : nullptr; }
  // False: the calibration has no differences in nats.
  bool can_transfer_loss() const { return activation_ && !activation_->delta_nat.empty(); }
  bool extrapolates() const { return extrapolate_; }

  // The plan with this part alone measured; none where the calibration does not have it.
  std::optional<CalibrationPlan> Only(Part part) const;

  // `s` with its measured factors at `z`, one deviate per source. Without sources: `s` itself.
  Scenario Apply(Scenario s, Transfer transfer, std::span<const double> z) const;

 private:
  void NameSources();
  void Activate(Scenario& s, Transfer transfer, double z) const;

  Calibration calibration_;
  std::optional<ActivationEntry> activation_;
  bool takes_quality_ = true;  // false: of the activations the ratio alone
  bool extrapolate_ = false;
  std::vector<std::string> names_;
};

// The measured number at deviate z: a straight line on the log scale from the point to either end;
// the point itself at 0. AtLinear: for numbers that are logarithms or differences already.
double AtLog(const Measured& m, double z);
double AtLinear(const Measured& m, double z);

// Within this factor of its ratio a measured eta_c stands for a scenario's.
inline constexpr double kSameRatio = 1.1;
// Within this factor of its H, at the same M, a cell's total stands for a scenario's eta_H eta_r.
inline constexpr double kSameInnerSteps = 1.1;

}  // namespace longhaul::simulator
