#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "experiments/record/record_rows.h"
#include "experiments/spec/spec.h"

namespace longhaul {

// What [boundary.policy] chooses: a function of the spec and of one tensor alone, so that equal seeds
// give equal choices in one process, over links and on a simulated clock. Reads no clock: a link's rate
// is that of its profile, to which probes hold the link before anything is trained. Torch-free.
class CodecChoice {
 public:
  // Of a spec with a policy. InvalidArgument: a codec of a list that keeps a state from tensor to
  // tensor, or refuses a boundary's shape, or has not more bytes than the one before it; by bandwidth,
  // links whose rate changes or is shared. Errors of a topology file.
  static absl::StatusOr<CodecChoice> Of(const RunSpec& spec);

  struct Chosen {
    std::string codec;
    std::string cause;  // "NMSE 0.0091 < 0.02"
  };
  // Of x, [n, D], which rank `from` of the run is about to send to `to`. `seed`: of noise in a trial.
  // Where x cannot be encoded (it is not finite) the finest: the send says why.
  Chosen Choose(Direction direction, int64_t from, int64_t to, ConstTensor x, uint64_t seed) const;

  bool chooses(Direction direction) const { return !ListOf(direction).empty(); }

 private:
  struct Choice {
    std::string name;
    std::shared_ptr<const Codec> codec;  // nullptr: "none"
    double message_bytes;
  };
  using List = std::vector<Choice>;
  const List& ListOf(Direction d) const { return d == Direction::kForward ? forward_ : backward_; }
  static absl::StatusOr<List> Make(const RunSpec& spec, const char* key,
                                   const std::vector<std::string>& names);
  absl::Status ReadLinks(const RunSpec& spec);
  Chosen ByMagnitude(const List& list, ConstTensor x) const;
  Chosen ByBandwidth(const List& list, int64_t from, int64_t to) const;
  Chosen ByAccuracy(const List& list, ConstTensor x, uint64_t seed) const;

  RunSpec::Boundary::Policy policy_;
  List forward_, backward_;
  std::map<std::pair<int64_t, int64_t>, double> bit_per_s_;  // by ranks; infinite: no limit
};

// What a boundary's sender has used from which step on, in the order of steps; the first begins at 1.
struct CodecFrom {
  int64_t step;
  std::string codec;
};
// As the spec alone says it, or, where there is a policy, as `switches` of the run do; of a policy
// without them the last of its list.
std::vector<CodecFrom> CodecsOver(const RunSpec& spec, std::span<const CodecSwitchRow> switches,
                                  int64_t group, int64_t boundary, Direction direction);

}  // namespace longhaul
