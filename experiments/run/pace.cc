#include "experiments/run/pace.h"

#include <algorithm>

#include <fmt/format.h>

namespace longhaul {

void Pace::Observe(absl::Duration now, double done) {
  last_ = Seen{now, done};
  if (!first_) first_ = last_;
}

std::optional<double> Pace::per_second() const {
  if (!first_ || last_->at <= first_->at || last_->done <= first_->done) return std::nullopt;
  return (last_->done - first_->done) / absl::ToDoubleSeconds(last_->at - first_->at);
}

std::optional<absl::Duration> Pace::Left(double total) const {
  const std::optional<double> pace = per_second();
  if (!pace) return std::nullopt;
  return absl::Seconds(std::max(0.0, total - last_->done) / *pace);
}

std::string RoughTime(absl::Duration time) {
  if (time < absl::Seconds(100)) {
    return fmt::format("{:.0f} s", std::max(1.0, absl::ToDoubleSeconds(time)));
  }
  if (time < absl::Minutes(100)) return fmt::format("{:.0f} min", absl::ToDoubleMinutes(time));
  return fmt::format("{:.1f} h", absl::ToDoubleHours(time));
}

}  // namespace longhaul
