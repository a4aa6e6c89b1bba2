#include "experiments/run/first_cause.h"

#include <algorithm>

#include <fmt/format.h>

namespace longhaul {

void FirstCause::Observe(const nlohmann::json& event) {
  const std::string kind = event.value("event", "");
  const int rank = event.value("rank", -1);
  if (kind == "step") last_step_[rank] = event.value("step", int64_t{0});
  if (kind == "failed") {
    if (rank >= 0) failed_.insert(rank);  // the lab tells of a worker that ended
    if (event.value("stood_still", false)) {
      StoodStill(Describe(event));
    } else if (!cause_) {
      Replace(rank, Describe(event));
      diverged_ = event.value("diverged", false);
      invalid_ = event.value("invalid", false);
    }
  }
  if (kind == "exited" && event.value("by_signal", false) && !killed_by_signal_ && !stood_still_) {
    Replace(rank, Describe(event));
    killed_by_signal_ = true;
  }
}

void FirstCause::StoodStill(const std::string& message) {
  if (stood_still_) return;
  Replace(/*rank=*/-1, message);
  stood_still_ = true;
}

void FirstCause::Fail(const std::string& message) {
  if (!cause_) Replace(/*rank=*/-1, message);
}

void FirstCause::Replace(int rank, const std::string& message) {
  cause_ = message;
  rank_ = rank;
  diverged_ = invalid_ = false;
}

std::string FirstCause::Describe(const nlohmann::json& event) const {
  const int rank = event.value("rank", -1);
  const std::string who = event.value("who", "the lab");
  const std::string where = rank >= 0 ? fmt::format("rank {} after step {}", rank, last_step(rank))
                            : last_step() > 0 ? fmt::format("{} after step {}", who, last_step())
                                              : who;
  return fmt::format("{}: {}", where, event.value("message", "no reason given"));
}

absl::Status FirstCause::status() const {
  if (!cause_) return absl::OkStatus();
  const size_t others = failed_.size() - failed_.count(rank_);
  std::string message = *cause_;
  if (others > 0) {
    message += fmt::format(" ({} other rank{} ended with it)", others, others == 1 ? "" : "s");
  }
  if (diverged_) return absl::OutOfRangeError(message);
  if (invalid_) return absl::FailedPreconditionError(message);
  return absl::UnavailableError(message);
}

int64_t FirstCause::last_step(int rank) const {
  const auto found = last_step_.find(rank);
  return found == last_step_.end() ? 0 : found->second;
}

int64_t FirstCause::last_step() const {
  int64_t last = 0;
  for (const auto& [rank, step] : last_step_) last = std::max(last, step);
  return last;
}

}  // namespace longhaul
