#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace longhaul {

// The control of every measurement of a link: how late this machine wakes a thread that does
// nothing but sleep, in the same seconds and with the same scheduling class as the measurement. No
// emulator is part of it. A link that is out of bounds while sleepers wake up in time is a wrong
// link; one that is out of bounds while sleepers oversleep by as much was measured on a machine
// that cannot tell (other work, a hypervisor that takes the core away).
struct Oversleep {
  double mean_ms = 0;
  double p998_ms = 0;  // what one of 100 echoes with five wake-ups meets
  double max_ms = 0;
  std::string ToText() const;
};

class WakeControl {
 public:
  WakeControl();  // starts one sleeper on each processor, which wakes up every 2 ms
  ~WakeControl() { Stop(); }
  Oversleep Stop();  // the worst processor's; later calls repeat it

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> sleepers_;
  std::vector<std::vector<double>> late_ms_;
  Oversleep worst_;
};

// Whether a machine that oversleeps like this can judge at all. An echo passes five wake-ups (the
// emulator's on arrival and on departure, there and back, and the prober's) and may be off by 0.5
// ms in the mean, a fifth of it each, and by 1 ms at p99, half of it for one wake-up. A rate needs
// sender, emulator and receiver on time within a part of the shortest queue, 20 ms.
bool CanJudgeRtt(const Oversleep& oversleep);
bool CanJudgeRate(const Oversleep& oversleep);

}  // namespace longhaul
