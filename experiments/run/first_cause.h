#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"

namespace longhaul {

// Finds in a run's events why it failed. The first failure is the cause; ranks that failed after it
// are counted, not quoted. What stood still is the cause of what the others report, whichever came
// first, and so is a worker that a signal killed.
class FirstCause {
 public:
  void Observe(const nlohmann::json& event);
  // What the caller found by itself. A standstill is told once and stays the cause.
  void StoodStill(const std::string& message);
  void Fail(const std::string& message);  // unless a cause is known

  // OK: no failure was told. OutOfRange: the loss diverged; FailedPrecondition: links were out of
  // bounds; Unavailable otherwise. Names the rank and its last step.
  absl::Status status() const;
  bool known() const { return cause_.has_value(); }
  bool stood_still() const { return stood_still_; }
  int64_t last_step() const;  // of any rank
  int64_t last_step(int rank) const;

 private:
  void Replace(int rank, const std::string& message);
  std::string Describe(const nlohmann::json& event) const;

  std::map<int, int64_t> last_step_;  // by rank
  std::optional<std::string> cause_;
  int rank_ = -1;         // of the cause; -1: none
  std::set<int> failed_;  // all that told a failure
  bool diverged_ = false;
  bool invalid_ = false;
  bool stood_still_ = false;
  bool killed_by_signal_ = false;
};

}  // namespace longhaul
