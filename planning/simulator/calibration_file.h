#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul::simulator {

// A measured number with the ends of its interval, low <= value <= high.
struct Measured {
  double value, low, high;
};

struct AtStages {
  int64_t stages;
  Measured number;
};

// One codec's activation entry: what a crossing keeps, by direction and evaluation.
struct ActivationEntry {
  std::string codec, direction, evaluation;
  Measured q;
  double level = 0.95;
  bool bound = false;  // the interval was cut: at most this, no measurement
  // Of bytes, against 16 bits, by direction; and for tensors of which width (none: of those of the
  // campaign, both directions together). Both or neither.
  std::optional<double> forward_ratio, backward_ratio;
  std::optional<int64_t> ratio_width;
  std::optional<Measured> gamma;    // of ln eta = -a (S-1)^gamma, where depth was seen to matter
  std::vector<AtStages> ln_eta;     // measured at these S; cut ones are left out
  std::vector<AtStages> beyond;     // ln eta predicted deeper than measured, from several shapes
  std::vector<AtStages> delta_nat;  // loss difference, nat
};

struct RatioEntry {
  std::string codec;
  double ratio;
  Measured eta;
};

struct ReplicaEntry {
  int64_t replicas, inner_steps;
  Measured eta;
};

// An outer algorithm with a codec, at the rates that its campaign gave it.
struct OuterEntry {
  std::string algorithm, codec;
  ReplicaEntry at;  // inner_steps 1: gradients cross in every step
};

// What `longhaul report` writes in the schema longhaul.calibration/1. Absent parts stay assumed.
struct Calibration {
  std::string plan_sha256, commit;
  double parameters = 0;
  std::optional<double> tokens;
  std::vector<ActivationEntry> activation;
  std::vector<ReplicaEntry> eta_h, eta_r;
  std::vector<ReplicaEntry>
      totals;                     // eta_H eta_r in one: uncoded, without boundaries, global batch
  std::vector<OuterEntry> outer;  // as the totals, by algorithm
  std::optional<Measured> alpha;
  double alpha_billions = 0;  // the size alpha was measured at
  std::vector<RatioEntry> eta_c;
  std::optional<Measured> straggler, step_time;
  int64_t bounds = 0;  // arms and depths that are bounds
};

// InvalidArgument, one line with `origin` and the place: no JSON, another schema, a number without
// an interval or outside it, controls that failed.
absl::StatusOr<Calibration> ParseCalibration(std::string_view text, std::string_view origin);
// NotFound with the reason where the file cannot be read (netem/topology/text_file.h).
absl::StatusOr<Calibration> ReadCalibration(const std::string& path);

}  // namespace longhaul::simulator
