#pragma once

#include <cstdint>
#include <limits>

namespace longhaul {

enum class CongestionControl { kReno, kCubic, kBbr };

// Cubic: RFC 9438's C and beta, the rate at which a Reno of that beta would grow, and fast convergence,
// by which a connection that lost below its last loss makes room. What Linux adds: 5 % a round trip
// before the first loss, half at most; HyStart from 16 segments on, by trains of acknowledgements at
// most 2 ms apart, or once eight say that the queue takes an eighth of the round trip, 4 to 16 ms.
constexpr double kCubic = 0.4, kCubicKeeps = 0.7, kRenoKeeps = 0.5;
constexpr double kAsReno = 3 * (1 - kCubicKeeps) / (1 + kCubicKeeps), kMakesRoom = 0.85;
constexpr double kUnknownGrowth = 1.05, kMostGrowth = 1.5;
constexpr double kHystartWindow = 16, kTrainGap = 0.002, kHystartSamples = 8;
constexpr double kLeastHeldUp = 0.004, kMostHeldUp = 0.016;

// The window of Reno and Cubic in segments, acknowledgement by acknowledgement, in whole segments, as
// Linux has it. wire.cc has the same laws for whole messages. Times in seconds of one clock.
class LossWindow {
 public:
  double window;
  double threshold = std::numeric_limits<double>::infinity();

  LossWindow(CongestionControl control, double first_window)
      : window(first_window), control_(control) {}

  // A segment that was sent once is acknowledged after `rtt_s`; all before `until` are, and those before
  // `next` are sent. May end slow start (HyStart).
  void Sample(double now, double rtt_s, int64_t until, int64_t next);
  // So many segments more are acknowledged, and the window was all that held the sender up.
  void Grow(double now, double segments);
  // The threshold falls to what a loss leaves of the window.
  void Lose();
  void Collapse(double left);                // a timeout: slow start from what is left
  void Halve(double times, double restart);  // a pause closed it
  // Nothing was under way for so long: seconds that cubic does not count.
  void Pause(double seconds) { epoch_ += seconds; }

 private:
  double CubicEach(double now, double segments);

  CongestionControl control_;
  double acknowledged_ = 0;  // since the window last grew
  double most_ = 0;          // the window of the last loss; 0: none yet
  static constexpr double kNone = -std::numeric_limits<double>::infinity();
  double epoch_ = kNone;  // when it began to grow
  double origin_ = 0, back_s_ = 0, reno_window_ = 0, reno_acknowledged_ = 0;
  // HyStart: of all time, of this round.
  double least_rtt_ = std::numeric_limits<double>::infinity();
  double round_rtt_ = 0, round_began_ = 0, last_train_ = 0;
  int samples_ = 0;
  int64_t round_ends_ = -1;
};

}  // namespace longhaul
