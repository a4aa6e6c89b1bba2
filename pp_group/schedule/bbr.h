#pragma once

#include <cstdint>
#include <limits>

namespace longhaul {

// What an acknowledgement tells of the rate at which a connection delivers. Segments and seconds.
struct DeliveryRate {
  double now = 0, rtt_s = -1;        // -1: the segment was repeated
  double delivered = 0;              // since it was sent,
  double interval_s = 0;             // in so long: the longer one of sending and acknowledging them
  double before = 0;                 // delivered in all when it was sent
  bool application_limited = false;  // the sender had nothing more to send then
};
// The connection as it is then: delivered in all, under way, and a burst that is due later.
struct SenderState {
  double told = 0;  // by this acknowledgement
  double delivered = 0, under_way = 0, under_way_before = 0;
  double next_burst = 0;
  double lost = 0;  // by this acknowledgement
  bool recovers = false;
};

// The largest of what was seen in the last so many rounds, by three of them (Nichols' filter, as Linux).
class RecentMost {
 public:
  void Add(double round, double value);
  double value() const { return of_[0].value; }

 private:
  struct Seen {
    double round = 0, value = 0;
  };
  Seen of_[3];
};

// BBR, version 1, as Linux has it: a window and a pace in place of what losses make of a window. The rate
// is the largest delivered in ten round trips; where the application limits, only what is larger counts.
// It starts with 2.89 of it until three rounds bring no quarter more, empties the queue, then varies the pace
// about it by a quarter; a round trip that was not seen for ten seconds has it wait with four segments.
class Bbr {
 public:
  // The round trip of the connection's handshake; `key`: of where its cycles begin.
  Bbr(double first_window, double rtt_s, double now, uint64_t key);

  void Acknowledged(const DeliveryRate& rate, SenderState state);
  // Sends again with nothing under way: does the application limit it?
  void Restarts(double now, bool application_limited);
  void Recovers();               // what was lost is known: the window is kept for later
  void Collapse(double window);  // a timeout
  double window() const { return window_; }
  double pace() const { return pace_; }  // segments a second
  double burst() const;                  // segments that leave together
  bool probes_rtt() const { return mode_ == Mode::kProbeRtt; }

 private:
  enum class Mode { kStartup, kDrain, kProbeRate, kProbeRtt };
  double rate() const { return most_.value(); }
  double PaceGain() const;
  double WindowGain() const;
  double Holds(double gain) const;     // of path and bursts
  double Budget(double window) const;  // with what senders and receivers hold
  double InPath(const DeliveryRate& rate, const SenderState& state, double under_way) const;
  void SetPace(double gain);
  void SetWindow(const SenderState& state);
  void Cycle(const DeliveryRate& rate, const SenderState& state);
  void LeaveStartup(const DeliveryRate& rate, const SenderState& state);
  void WatchRtt(const DeliveryRate& rate, const SenderState& state);
  void ProbeRate(double now);
  void EndRttProbe(double now);
  void Keep();

  Mode mode_ = Mode::kStartup;
  uint64_t key_, cycles_ = 0;
  RecentMost most_;
  double window_, pace_ = 0;
  double rounds_ = 0, round_ends_ = 0;  // delivered then
  bool round_begins_ = false;
  double full_rate_ = 0;
  int full_rounds_ = 0;
  bool full_ = false;
  int phase_ = 0;
  double phase_began_ = 0;
  double least_rtt_, least_rtt_at_;
  double probe_ends_ = -1;  // of the round trip; -1: not yet known
  bool probe_round_ = false, restarts_ = false;
  double kept_ = 0;  // window, while something lowers it
  bool recovers_ = false, conserves_ = false;
};

}  // namespace longhaul
