#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "pp_group/schedule/bbr.h"
#include "pp_group/schedule/congestion.h"
#include "pp_group/schedule/tcp_path.h"

namespace longhaul {

// A TCP connection segment by segment, as Linux sends, repeats and paces: losses are found by times of
// sending (RACK) and by three segments behind, else by a probe or a timeout; windows fall in proportion.
// For what wire.cc has no closed form of: paths that lose frames, and BBR. Pure arithmetic and seeded
// draws: equal calls give equal times.
class TcpSender {
 public:
  static constexpr double kNotYet = std::numeric_limits<double>::infinity();
  struct Message {
    int64_t end;  // the segment behind it
    double begun, left, arrived;
  };

  TcpSender(const TcpPath& path, double now);

  void AdvanceTo(double until);
  // So many segments more, now; the path is that of what is sent from now on.
  void Write(const TcpPath& path, double segments);
  void Finish();  // until all that was written is there, and its sender rid of it
  // Those that were not there, or of which the sender was not rid, when the last one was written; and that one.
  const std::deque<Message>& messages() const { return messages_; }
  double now() const { return now_; }
  double window() const { return bbr_ ? bbr_->window() : window_.window; }

 private:
  enum class State { kOpen, kRecovers, kTimedOut };
  struct Segment {
    double size = 1;
    int64_t sending = -1;  // the last one, of all that the connection sent
    bool again = false, told = false, lost = false;                       // lost: and not repeated
    bool ends = false;                                                    // a message
    double sent_at = 0, sent_since = 0, told_since = 0, told_before = 0;  // of a delivery rate
    bool application_limited = false;
  };
  struct RoundTrip {
    double smoothed = 0, deviation = 0, least = kNotYet, last = 0;
    void Add(double s);
    double Timeout() const;
  };

  bool Next(double until);
  void Acknowledge();
  DeliveryRate Told(const TcpAcknowledgement& said);
  void Forget(int64_t until);
  double FindLost();
  void MarkLost(int64_t segment);
  void Recover();
  void Reduce(double told, bool advanced, bool lost_more);
  void AnswerProbe(const TcpAcknowledgement& said);
  void Send();
  int64_t ToSend() const;
  void Transmit(int64_t segment);

  void Watch(bool sent);
  void Due();
  bool MayProbe() const;
  double ProbeAt() const;
  void Probe();
  void TimeOut();
  void SetTimer();
  void LetGo();
  Segment& At(int64_t segment) { return segments_[static_cast<size_t>(segment - first_)]; }
  int64_t end() const { return first_ + static_cast<int64_t>(segments_.size()); }

  TcpPath path_;
  double now_;
  std::deque<Message> messages_;
  // Segments first_ to next_ are sent and not all acknowledged, the others are not sent.
  std::deque<Segment> segments_;
  int64_t first_ = 0, next_ = 0;
  double under_way_ = 0;  // segments
  TcpTraffic traffic_;

  int64_t sendings_ = 0, told_sending_ = -1;
  std::deque<std::pair<int64_t, int64_t>> order_;  // segments and sendings, of those not told of
  std::set<int64_t> lost_;                         // not repeated yet
  double told_beyond_ = 0;                         // segments behind a hole
  State state_ = State::kOpen;
  int64_t recovers_until_ = 0;
  double window_before_ = 0, reduced_told_ = 0, reduced_sent_ = 0;
  int64_t probe_ = -1;  // the sending that was one
  bool probed_ = false;
  RoundTrip rtt_;
  double backoff_ = 1, probe_from_ = 0, timeout_from_ = 0;
  double reorder_at_ = kNotYet, timer_at_ = kNotYet;

  LossWindow window_;
  bool limited_ = false;  // by the window, in the round trip that ends with limited_until_
  double most_out_ = 0;
  int64_t limited_until_ = 0;
  double buffer_ = 0;  // segments that the socket takes
  double last_sent_ = 0;
  // Of a delivery rate: segments told of, since when, when the one that was told of last had been sent;
  // until so many are told of, the application limits it.
  double told_ = 0, told_at_ = 0, told_sent_at_ = 0, application_limits_ = 0;
  std::optional<Bbr> bbr_;
  double paced_at_ = kNotYet, may_send_at_;
};

}  // namespace longhaul
