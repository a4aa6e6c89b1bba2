#include "experiments/train/error_windows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace longhaul {

std::vector<ErrorWindow> ErrorWindows(int64_t steps) {
  const int64_t length = std::max<int64_t>(1, steps / 20);
  std::vector<ErrorWindow> windows;
  for (const int percent : {0, 10, 50, 100}) {
    const int64_t around = (steps * percent + 50) / 100 - length / 2;
    const int64_t first = std::clamp<int64_t>(around, 1, steps - length + 1);
    windows.push_back({percent, first, first + length - 1});
  }
  return windows;
}

void WindowedErrors::Add(int64_t step, ErrorCrossing crossing, double nmse) {
  if (!std::isfinite(nmse)) return;
  for (const ErrorWindow& window : windows_) {
    if (step < window.first || step > window.last) continue;
    samples_[window.percent][crossing].push_back(nmse);
  }
}

std::vector<ErrorSummary> WindowedErrors::Close(int64_t step) {
  std::vector<ErrorSummary> closed;
  while (!windows_.empty() && windows_.front().last <= step) {
    const ErrorWindow window = windows_.front();
    windows_.erase(windows_.begin());
    for (auto& [crossing, samples] : samples_[window.percent]) {
      std::sort(samples.begin(), samples.end());
      const auto n = static_cast<double>(samples.size());
      const auto rank = static_cast<size_t>(std::ceil(0.95 * n));
      closed.push_back({crossing, window, static_cast<int64_t>(samples.size()),
                        std::accumulate(samples.begin(), samples.end(), 0.0) / n,
                        samples[rank - 1]});
    }
    samples_.erase(window.percent);
  }
  return closed;
}

}  // namespace longhaul
