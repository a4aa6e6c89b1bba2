#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace longhaul {

// What a receiver says: all before `until` are there, and so are the blocks [first, second) that changed
// last.
struct TcpAcknowledgement {
  double at;  // leaves then; of whoever has it under way, is there then
  int64_t until = 0;
  std::vector<std::pair<int64_t, int64_t>> blocks = {};
  int64_t sending = -1;   // of the frame that it answers at once; -1: one that was held back
  bool repeated = false;  // of a segment that was there before
};

// The other end of a connection: which segments are there, and what it says of them when, as Linux. It answers
// each second frame, or the last one of a message, which a program waits for; else after 40 ms. The first 16
// frames, also behind a pause or a repetition, are answered at once. So are three behind a hole, and then one
// answer is for all of a millisecond (SACK compression). An answer has room for three blocks: of many
// holes the sender hears late. Seconds.
class TcpReceiver {
 public:
  static constexpr double kNotYet = std::numeric_limits<double>::infinity();

  explicit TcpReceiver(double rtt_s);

  // A frame is there; `ends`: a message. What that makes it say is in Take.
  void Receive(double now, int64_t segment, int64_t sending, bool ends);
  double due() const { return due_; }  // when it says what it held back
  void Due(double now);
  std::vector<TcpAcknowledgement> Take() { return std::exchange(said_, {}); }
  int64_t until() const { return until_; }

 private:
  void AddBeyond(int64_t segment);
  void Say(double now, int64_t sending, bool repeated = false);

  double held_s_, pause_s_;
  int64_t until_ = 0, said_until_ = 0;
  std::set<int64_t> beyond_;                        // there, behind a hole
  std::deque<std::pair<int64_t, int64_t>> recent_;  // blocks of them, the last one first
  int quick_, behind_hole_ = 0, held_ = 0;
  double last_ = 0, due_ = kNotYet;
  std::vector<TcpAcknowledgement> said_;
};

}  // namespace longhaul
