#include "pp_group/schedule/tcp_receiver.h"

#include <algorithm>
#include <cstddef>

namespace longhaul {
namespace {

constexpr int kQuick = 16, kFrames = 2;
constexpr double kDelayed_s = 0.04, kPause_s = 0.2;  // of a pause: above a round trip
// Behind a hole: so many at once, then held back for a twentieth of a round trip, a millisecond at most, or
// so many.
constexpr int kAtOnce = 3, kMostHeld = 44;
constexpr double kMostHeld_s = 1e-3, kOfRoundTrip = 0.05;
constexpr size_t kBlocks = 3, kRemembered = 4;

}  // namespace

TcpReceiver::TcpReceiver(double rtt_s)
    : held_s_(std::min(kMostHeld_s, kOfRoundTrip * rtt_s)),
      pause_s_(rtt_s + kPause_s),
      quick_(kQuick) {}

void TcpReceiver::Receive(double now, int64_t segment, int64_t sending, bool ends) {
  if (now - last_ > pause_s_) quick_ = kQuick;
  last_ = now;
  if (segment < until_ || beyond_.contains(segment)) {
    quick_ = kQuick;
    return Say(now, sending, true);
  }
  if (segment == until_) {
    const bool hole = !beyond_.empty();
    for (++until_; beyond_.erase(until_) > 0;) ++until_;
    std::erase_if(recent_, [this](const auto& block) { return block.second <= until_; });
    behind_hole_ = 0;
    const bool filled = hole && beyond_.empty();
    if (filled || ends || quick_ > 0 || until_ - said_until_ >= kFrames) return Say(now, sending);
    if (beyond_.empty()) {
      due_ = std::min(due_, now + kDelayed_s);
      return;
    }
  } else {
    AddBeyond(segment);
  }
  if (quick_ > 0 || behind_hole_ < kAtOnce || held_ >= kMostHeld) {
    ++behind_hole_;
    return Say(now, sending);
  }
  ++held_;
  due_ = std::min(due_, now + held_s_);
}

void TcpReceiver::AddBeyond(int64_t segment) {
  beyond_.insert(segment);
  std::pair<int64_t, int64_t> block(segment, segment + 1);
  std::erase_if(recent_, [&block](const auto& other) {
    const bool before = other.second == block.first, behind = other.first == block.second;
    if (before) block.first = other.first;
    if (behind) block.second = other.second;
    return before || behind;
  });
  recent_.push_front(block);
  if (recent_.size() > kRemembered) recent_.pop_back();
}

void TcpReceiver::Due(double now) { Say(now, -1); }

void TcpReceiver::Say(double now, int64_t sending, bool repeated) {
  due_ = kNotYet;
  held_ = 0;
  quick_ = std::max(0, quick_ - 1);
  said_until_ = until_;
  // That it was repeated is a block as well.
  const size_t blocks = std::min(recent_.size(), kBlocks - (repeated ? 1 : 0));
  const auto end = recent_.begin() + static_cast<std::ptrdiff_t>(blocks);
  said_.push_back({.at = now,
                   .until = until_,
                   .blocks = {recent_.begin(), end},
                   .sending = sending,
                   .repeated = repeated});
}

}  // namespace longhaul
