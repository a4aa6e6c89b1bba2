#include "pp_group/schedule/tcp_path.h"

#include <algorithm>
#include <utility>

namespace longhaul {
namespace {

constexpr double kSegmentError = 1e-6;  // segments

}  // namespace

void TcpTraffic::Send(const TcpPath& path, double now, const Frame& frame, double segments) {
  const bool fits = Waiting(path, now) + segments <= path.queue_segments + kSegmentError;
  if (!fits || fates_.Lost(path.loss)) return;
  path_free_ = std::max(path_free_, now) + segments * path.segment_s;
  frames_.push_back(frame);
  frames_.back().at = path_free_ + path.delay_s;
}

// Frames in the queue before the rate. Where both ends send alike, acknowledgements of the other one's
// are among them, as many as ours in that one's.
double TcpTraffic::Waiting(const TcpPath& path, double now) const {
  if (path.segment_s == 0) return 0;
  const double frames = std::max(0.0, path_free_ - now) / path.segment_s;
  if (!path.both_ways) return frames;
  const auto left =
      std::lower_bound(acknowledgements_.begin(), acknowledgements_.end(),
                       now + path.delay_s + kSegmentError * path.segment_s,
                       [](const TcpAcknowledgement& said, double at) { return said.at < at; });
  return frames + static_cast<double>(acknowledgements_.end() - left);
}

double TcpTraffic::due() const {
  return std::min(frames_.empty() ? TcpReceiver::kNotYet : frames_.front().at, receiver_.due());
}

void TcpTraffic::Due(const TcpPath& path, double now) {
  if (!frames_.empty() && frames_.front().at <= receiver_.due()) {
    const Frame frame = frames_.front();
    frames_.pop_front();
    receiver_.Receive(now, frame.segment, frame.sending, frame.ends);
  } else {
    receiver_.Due(now);
  }
  const double leaves = path.both_ways ? std::max(now, path_free_) : now;
  for (TcpAcknowledgement& said : receiver_.Take()) {
    if (fates_back_.Lost(path.loss_back)) continue;
    said.at = leaves + path.delay_s;
    acknowledgements_.push_back(std::move(said));
  }
}

TcpAcknowledgement TcpTraffic::Take() {
  TcpAcknowledgement said = std::move(acknowledgements_.front());
  acknowledgements_.pop_front();
  return said;
}

}  // namespace longhaul
