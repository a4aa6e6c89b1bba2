#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "experiments/run/pace.h"
#include "experiments/spec/spec.h"
#include "plugin/core/clock.h"

namespace longhaul {

// What a person sees of one run while it runs: facts and links as they are told, then one line of
// progress a second (rewritten in place on a terminal): step, loss and, from the second step on,
// the time per step and about how long training will take. Prints only what events said.
class RunView {
 public:
  RunView(const RunSpec& spec, std::FILE* out, const Clock& clock);
  void Observe(const nlohmann::json& event);
  void End();  // leaves the progress line

 private:
  void SeeStep(const nlohmann::json& event);
  void Line(const std::string& text);

  const int64_t steps_;
  const int last_stage_;
  std::FILE* const out_;
  const bool terminal_;
  const Clock& clock_;
  Pace pace_;  // in steps, from the end of the first one on
  absl::Duration last_line_ = -absl::InfiniteDuration();
  bool in_progress_line_ = false;
  std::map<int, std::string> loss_;  // by group
};

}  // namespace longhaul
