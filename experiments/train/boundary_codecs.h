#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/train/codec_choice.h"
#include "experiments/train/local_telemetry.h"
#include "pp_group/trainer.h"

namespace longhaul {

// Changes the codecs of boundaries while a run trains: none in the warm-up, then those of the spec or
// what its policy chooses. Each sender decides for itself, before a step's first micro-batch crosses;
// the receiver reads the codec from the frame. Of all local ranks; used by the training thread alone.
class BoundaryCodecs {
 public:
  // nullptr: the codecs of this spec never change. Errors of CodecChoice::Of.
  static absl::StatusOr<std::shared_ptr<BoundaryCodecs>> Of(const RunSpec& spec);

  void BeginStep(int64_t step) { step_ = step; }
  // A tensor that `rank` is about to send. Throws std::runtime_error where the group refuses a codec.
  void Before(const LocalTelemetry& rank, const BoundaryTensor& x);
  // Since the last call, in the order in which they were made. Before step 1 every boundary had "none".
  std::vector<CodecSwitchRow> Take();

 private:
  explicit BoundaryCodecs(const RunSpec& spec) : spec_(spec) {}

  const RunSpec spec_;
  std::optional<CodecChoice> choice_;
  int64_t step_ = 0;
  std::map<std::tuple<int, int, bool>, std::string> in_use_;  // by group, boundary, gradient
  std::vector<CodecSwitchRow> switches_;
};

}  // namespace longhaul
