#pragma once

#include <cstdint>
#include <deque>
#include <limits>

#include "pp_group/schedule/congestion.h"
#include "pp_group/schedule/frame_loss.h"
#include "pp_group/schedule/tcp_receiver.h"

namespace longhaul {

// One direction of a path and what is asked of a connection on it. Seconds; segments of 1448 bytes.
struct TcpPath {
  double segment_s = 0, delay_s = 0;  // of a segment before the rate; one way
  double queue_segments = std::numeric_limits<double>::infinity();  // before the rate
  bool both_ways = false;  // the other end sends alike: acknowledgements wait behind as much
  FrameLoss loss = {}, loss_back = {};  // of frames; of acknowledgements
  CongestionControl control = CongestionControl::kReno;
  double first_window = 10;
  bool restarts = false;  // a long pause closes the window (RFC 2861), but not BBR's
};

// What is under way of a connection: frames to the receiver, through the queue before the rate, and what it
// says of them on its way back. First in, first out, both ways.
class TcpTraffic {
 public:
  explicit TcpTraffic(double rtt_s) : receiver_(rtt_s) {}

  struct Frame {
    double at;  // is there then
    int64_t segment, sending;
    bool ends;  // a message
  };
  // A frame of so many segments; it may be lost.
  void Send(const TcpPath& path, double now, const Frame& frame, double segments);
  // When the receiver has a frame, or says what it held back; and that it does, then.
  double due() const;
  void Due(const TcpPath& path, double now);
  int64_t until() const { return receiver_.until(); }  // all before it are there
  // When the sender hears of it; and what it hears then.
  double told_at() const {
    return acknowledgements_.empty() ? TcpReceiver::kNotYet : acknowledgements_.front().at;
  }
  TcpAcknowledgement Take();

 private:
  double Waiting(const TcpPath& path, double now) const;

  std::deque<Frame> frames_;
  std::deque<TcpAcknowledgement> acknowledgements_;
  TcpReceiver receiver_;
  double path_free_ = 0;
  FrameFates fates_, fates_back_;
};

}  // namespace longhaul
