#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

namespace longhaul {

// Where in a training the error of its crossings is looked at: after 0, 10, 50 and 100 % of the
// steps, over a twentieth of them (at least one step) from there, around there, up to there.
struct ErrorWindow {
  int percent;
  int64_t first, last;  // steps, from 1, ends included
};
std::vector<ErrorWindow> ErrorWindows(int64_t steps);  // steps >= 1

// One direction of one boundary, as its sender knows it.
struct ErrorCrossing {
  int rank;  // of the run
  int peer;  // within the sender's group
  friend auto operator<=>(const ErrorCrossing&, const ErrorCrossing&) = default;
};

struct ErrorSummary {
  ErrorCrossing crossing;
  ErrorWindow window;
  int64_t samples;
  double mean, p95;  // p95: the least sample with 95 % of them at or below it
};

// Gathers measured errors and sums them up window by window. Not thread safe.
class WindowedErrors {
 public:
  explicit WindowedErrors(int64_t steps) : windows_(ErrorWindows(steps)) {}

  // A frame that was sent in `step`; what is not finite is no sample.
  void Add(int64_t step, ErrorCrossing crossing, double nmse);
  // Of windows that end with `step` or before: each once, without crossings that have no sample.
  std::vector<ErrorSummary> Close(int64_t step);

 private:
  std::vector<ErrorWindow> windows_;  // still open, by their ends
  std::map<int, std::map<ErrorCrossing, std::vector<double>>> samples_;  // by percent
};

}  // namespace longhaul
