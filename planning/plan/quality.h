#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/estimates/loss_file.h"
#include "planning/simulator/calibration_file.h"

namespace longhaul::plan {

// What a training's tokens are worth, from what campaigns measured. All logarithms are natural, all
// intervals those of the files (95 %).

// A logarithm with the ends of its interval.
struct LnFactor {
  double value = 0, low = 0, high = 0;
};

// What goes beyond a calibration, in the order of the letters that a table shows.
enum class Beyond { kStages, kBits, kInnerSteps, kGroups, kSize };
std::string_view ToString(Beyond beyond);  // "S", "bits", "H", "G", "size"

// eta, a factor of the tokens: those that the reference needs over those that the training needs.
struct EtaFactor {
  std::string name;  // "eta(int4-b64-h64 / int8-b64, S = 4)"
  LnFactor ln;
  enum class Of { kActivations, kRounds, kOuterCodec } of = Of::kActivations;
  struct Extrapolated {
    Beyond what;
    std::string how;  // "S = 6 lies between 4 and 8"
  };
  std::vector<Extrapolated> beyond = {};
  double parameters = 0;  // of the model that it was measured with; 0: it is none
};

struct BothWays {
  double there, back;
};

// The calibrations of a plan, the first that measured something counting.
class Quality {
 public:
  explicit Quality(std::vector<simulator::Calibration> calibrations)
      : calibrations_(std::move(calibrations)) {}

  // Of a pair of codecs ("int4-b64-h64 / int8-b64") over S - 1 boundaries. At an S that was measured
  // the number measured there, else as the planning model has it: on a line between two, deeper what
  // the file predicts. A pair that nobody measured lies between the best that sends no more bytes in
  // either direction and the worst that sends no fewer, which may be "none / none" (`bytes` of a pair:
  // what a micro-batch sends there and back). nullopt: nothing measured sends as few.
  std::optional<EtaFactor> Activations(
      const std::string& pair, int64_t stages,
      const std::function<std::optional<BothWays>(const std::string&)>& bytes) const;

  // Of G groups that meet after every H steps by "diloco" with codec "none", against synchronous data
  // parallel with the same global batch: the cells of the nearest G, ln eta on a line over ln H.
  // nullopt: no cells.
  std::optional<EtaFactor> Rounds(int64_t groups, int64_t inner_steps) const;

  // Of the outer delta's codec. nullopt: not measured.
  std::optional<EtaFactor> OuterCodec(const std::string& codec) const;

  // Of groups that meet by an outer algorithm and codec whose campaign gave it rates of its own: the
  // arm of the nearest G, and of those of the nearest H. Algorithms that exchange gradients meet after
  // every step: H 1. nullopt: not measured.
  std::optional<EtaFactor> Outer(const std::string& algorithm, const std::string& codec,
                                 int64_t groups, int64_t inner_steps) const;

  // How far a model of so many parameters is from the first calibration's, or from that of one of its
  // factors, whichever is farther; nullopt: within 1 %.
  std::optional<EtaFactor::Extrapolated> Size(double parameters,
                                              const std::vector<EtaFactor>& factors) const;

 private:
  std::optional<EtaFactor> Measured(const std::string& pair, int64_t stages) const;
  std::vector<simulator::Calibration> calibrations_;
};

// ln of the tokens that the reference of a campaign trains on to end at a held-out loss, each budget
// being a training of its own with the learning rate down at its end. The interval: the jackknife
// over seeds, and in quadrature the curve's own error. OutOfRange: below the loss of the largest
// budget or above that of the smallest; FailedPrecondition: no curve in the file.
absl::StatusOr<LnFactor> LnTokensToLoss(const LossFile& losses, double target_nat);

}  // namespace longhaul::plan
