#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/emulator.h"
#include "netem/emulators/frame_pool.h"
#include "netem/emulators/tap_network.h"
#include "netem/emulators/wake_lead.h"
#include "netem/emulators/wake_timers.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// One thread that moves frames between TAP devices as a TapNetwork says. It sleeps in epoll until a
// frame comes or falls due, never spins; SCHED_FIFO where that is allowed.
// The constructor's thread owns it; only Call() reaches the network.
class TapLoop {
 public:
  // Port i of `taps` is node i's, called `names[i]` in messages. Returns once the thread runs.
  static absl::StatusOr<std::unique_ptr<TapLoop>> Start(std::vector<Fd> taps,
                                                        std::vector<std::string> names,
                                                        TapNetwork network, int mtu);
  ~TapLoop();

  // Runs `work` on the loop's thread between two frames and waits for it. DeadlineExceeded: the
  // thread did not get to it within kAnswerDeadline, and never will.
  absl::Status Call(const std::function<void(TapNetwork&)>& work);

  int tap_fd(int node) const { return taps_[node].get(); }
  std::string_view scheduling() const { return scheduling_; }
  Lateness lateness();
  absl::Duration cpu_time();
  absl::Status health();  // the first error; the port it came from is no longer served

 private:
  TapLoop(std::vector<Fd> taps, std::vector<std::string> names, TapNetwork network, int mtu);
  void Main();
  void MakeRealTime();
  void Serve();
  bool SetTimers(int64_t now_ns);
  void ReadPort(int port);
  bool ReadFrame(int port);
  // What was read of a frame.
  struct Coming {
    int port, to;
    int64_t arrived_ns, wire_bytes, segments;
    FlowFacts flow;
  };
  void Admit(uint32_t handle, const Coming& coming, bool copy);
  void DeliverDue(int64_t now_ns);
  void WriteFrame(const TapNetwork::Output& output);
  void DropPort(int port, std::string what, int error);
  void RunCalls();

  std::vector<Fd> taps_;
  std::vector<std::string> names_;
  TapNetwork network_;  // the loop's thread only, while it runs
  FramePool pool_;
  std::unique_ptr<std::byte[]> spare_tail_;
  Fd epoll_;
  Fd wake_;  // eventfd: calls wait, or stop
  std::string scheduling_;
  WakeTimers timers_;  // the loop's thread only
  WakeLead lead_;      // the loop's thread only
  // Frames that are read now were there so much earlier: a device wakes the thread as late as a
  // timer does, but not before it fell asleep.
  int64_t unseen_ns_ = 0;
  Lateness lateness_;    // the loop's thread only
  absl::Status health_;  // the loop's thread only

  std::mutex mu_;
  std::condition_variable changed_;
  struct PostedCall {
    const std::function<void(TapNetwork&)>& work;
    bool done = false;
  };
  std::vector<PostedCall*> calls_;  // guarded by mu_, as what they point to
  bool started_ = false;            // guarded by mu_
  bool stop_ = false;               // guarded by mu_
  std::thread thread_;
};

}  // namespace longhaul
