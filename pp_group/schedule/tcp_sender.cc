#include "pp_group/schedule/tcp_sender.h"

#include <algorithm>
#include <cmath>

namespace longhaul {
namespace {

// A timeout is this much above the smoothed round trip at least, and 120 s at most; a probe waits for two of
// them and two ticks of 4 ms, where one segment alone is out for as long as a timeout adds.
constexpr double kLeastAbove = 0.2, kMostTimeout = 120, kTicks = 0.008;
constexpr double kDuplicates = 3;              // segments behind a hole that tell at once
constexpr double kBuffer = 2, kBbrBuffer = 3;  // windows that a socket holds
constexpr double kUnpaced = 10;                // segments at the begin
constexpr double kRounding = 1e-6;             // segments

}  // namespace

void TcpSender::RoundTrip::Add(double s) {
  least = std::min(least, s);
  if (smoothed == 0) {
    smoothed = s;
    deviation = s / 2;
    return;
  }
  deviation += (std::abs(s - smoothed) - deviation) / 4;
  smoothed += (s - smoothed) / 8;
}

double TcpSender::RoundTrip::Timeout() const {
  return smoothed + std::max(kLeastAbove, 4 * deviation);
}

TcpSender::TcpSender(const TcpPath& path, double now)
    : path_(path),
      now_(now),
      traffic_(2 * path.delay_s),
      window_(path.control, path.first_window),
      may_send_at_(now) {
  rtt_.Add(2 * path.delay_s);  // of the handshake
  if (path.control == CongestionControl::kBbr) {
    bbr_.emplace(path.first_window, 2 * path.delay_s, now, path.loss.key);
  }
}

void TcpSender::Write(const TcpPath& path, double segments) {
  path_ = path;
  while (!messages_.empty() && messages_.front().left != kNotYet &&
         messages_.front().arrived != kNotYet) {
    messages_.pop_front();
  }
  const bool idle = next_ == first_, all_sent = next_ == end();
  const double pause = now_ - last_sent_, timeout = rtt_.Timeout();
  if (path.restarts && !bbr_ && idle && sendings_ > 0 && pause > timeout) {
    window_.Halve(std::min(std::floor(pause / timeout), 1000.0), path.first_window);
  }
  if (all_sent && lost_.empty() && under_way_ < window()) {
    application_limits_ = std::max(1.0, told_ + under_way_);
  }
  do {
    segments_.push_back({.size = std::min(1.0, segments)});
    segments -= 1;
  } while (segments > kRounding);
  segments_.back().ends = true;
  messages_.push_back({end(), kNotYet, kNotYet, kNotYet});
  LetGo();
  Send();
  SetTimer();
}

void TcpSender::AdvanceTo(double until) {
  while (Next(until)) {
  }
  now_ = std::max(now_, until);
}

void TcpSender::Finish() {
  const auto open = [this] {
    return messages_.back().arrived == kNotYet || messages_.back().left == kNotYet;
  };
  while (open() && Next(kNotYet)) {
  }
}

bool TcpSender::Next(double until) {
  const double first = std::min({traffic_.due(), traffic_.told_at(), paced_at_, timer_at_});
  if (first > until || first == kNotYet) return false;
  now_ = std::max(now_, first);
  if (first == traffic_.due()) {
    traffic_.Due(path_, now_);
    for (Message& m : messages_) {
      if (m.end <= traffic_.until() && m.arrived == kNotYet) m.arrived = now_;
    }
  } else if (first == traffic_.told_at()) {
    Acknowledge();
    LetGo();
    Send();
    SetTimer();
  } else if (first == paced_at_) {
    Send();
    SetTimer();
  } else {
    Due();
  }
  return true;
}

void TcpSender::Acknowledge() {
  const TcpAcknowledgement said = traffic_.Take();
  const double under_way_before = under_way_, told_before = told_;
  const bool advanced = said.until > first_;
  const DeliveryRate rate = Told(said);
  const double told = told_ - told_before;
  Forget(said.until);
  if (advanced) {
    backoff_ = 1;
    probed_ = false;
    probe_from_ = timeout_from_ = now_;
  }
  const double lost = FindLost();
  if (state_ != State::kOpen && first_ >= recovers_until_) {
    if (state_ == State::kRecovers && !bbr_) window_.window = window_.threshold;
    state_ = State::kOpen;
  }
  if (state_ == State::kOpen && !lost_.empty()) Recover();
  AnswerProbe(said);
  if (bbr_) {
    if (told == 0) return;
    bbr_->Acknowledged(rate, {.told = told,
                              .delivered = told_,
                              .under_way = under_way_,
                              .under_way_before = under_way_before,
                              .next_burst = may_send_at_,
                              .lost = lost,
                              .recovers = state_ != State::kOpen});
    if (bbr_->probes_rtt()) application_limits_ = std::max(1.0, told_ + under_way_);
  } else if (state_ == State::kRecovers) {
    Reduce(told, advanced, lost > 0);
  } else if (advanced) {
    if (rate.rtt_s >= 0) window_.Sample(now_, rate.rtt_s, first_, next_);
    const bool slow = window_.window < window_.threshold;
    if (limited_ || (slow && window_.window < 2 * most_out_)) window_.Grow(now_, told);
  }
}

// Of the segment that was sent last of those that are news. Round trips are that one's, for the smoothed one
// that of the first.
DeliveryRate TcpSender::Told(const TcpAcknowledgement& said) {
  const Segment* last = nullptr;
  double first_rtt_s = -1;
  const auto tell = [&](int64_t from, int64_t to) {
    for (int64_t segment = std::max(from, first_); segment < to; ++segment) {
      Segment& s = At(segment);
      if (s.told) continue;
      s.told = true;
      ++told_;
      ++told_beyond_;
      if (s.lost) {
        s.lost = false;
        lost_.erase(segment);
      } else {
        --under_way_;
      }
      if (first_rtt_s < 0 && !s.again) first_rtt_s = now_ - s.sent_at;
      if (last == nullptr || s.sending > last->sending) last = &s;
    }
  };
  tell(first_, said.until);
  for (const auto& [from, to] : said.blocks) tell(from, to);
  if (last == nullptr) return {.now = now_};
  if (first_rtt_s >= 0) rtt_.Add(first_rtt_s);
  DeliveryRate rate{
      .now = now_,
      .rtt_s = last->again ? -1 : now_ - last->sent_at,
      .delivered = told_ - last->told_before,
      .interval_s = std::max(last->sent_at - last->sent_since, now_ - last->told_since),
      .before = last->told_before,
      .application_limited = last->application_limited};
  if (rate.rtt_s >= 0) rtt_.least = std::min(rtt_.least, rate.rtt_s);
  if (rate.interval_s < rtt_.least) rate.interval_s = 0;
  if (last->sending > told_sending_) {
    told_sending_ = last->sending;
    rtt_.last = now_ - last->sent_at;
    told_sent_at_ = last->sent_at;
  }
  told_at_ = now_;
  if (told_ > application_limits_) application_limits_ = 0;
  return rate;
}

// What is acknowledged up to there.
void TcpSender::Forget(int64_t until) {
  for (; first_ < until; ++first_) {
    told_beyond_ -= segments_.front().told ? 1 : 0;
    segments_.pop_front();
  }
}

// How many more are. A segment is lost if one that was sent after it is there: at once behind three, in a
// recovery, or once a part of a round trip has passed in which it might have come late.
double TcpSender::FindLost() {
  reorder_at_ = kNotYet;
  const bool at_once = state_ != State::kOpen || told_beyond_ >= kDuplicates;
  const double wait = at_once ? 0 : std::min(rtt_.least / 4, rtt_.smoothed / 8);
  double lost = 0;
  for (; !order_.empty(); order_.pop_front()) {
    const auto [segment, sending] = order_.front();
    if (segment < first_) continue;
    const Segment& s = At(segment);
    if (s.sending != sending || s.told || s.lost) continue;
    if (sending >= told_sending_) break;
    const double late_at = s.sent_at + rtt_.last + wait;
    if (wait > 0 && late_at > now_) {
      reorder_at_ = late_at + kTicks;
      break;
    }
    MarkLost(segment);
    ++lost;
  }
  return lost;
}

void TcpSender::MarkLost(int64_t segment) {
  At(segment).lost = true;
  lost_.insert(segment);
  --under_way_;
}

void TcpSender::Recover() {
  state_ = State::kRecovers;
  recovers_until_ = next_;
  if (bbr_) return bbr_->Recovers();
  window_before_ = window_.window;
  reduced_told_ = reduced_sent_ = 0;
  window_.Lose();
}

// Proportional rate reduction (RFC 6937): from the window before to the threshold, over a round trip.
void TcpSender::Reduce(double told, bool advanced, bool lost_more) {
  if (told == 0) return;
  reduced_told_ += told;
  const double room = window_.threshold - under_way_;
  double send = std::max(reduced_told_ - reduced_sent_, told) + (advanced && !lost_more ? 1 : 0);
  if (room < 0) {
    send = std::ceil(window_.threshold * reduced_told_ / window_before_) - reduced_sent_;
  } else {
    send = std::min(room, send);
  }
  window_.window = under_way_ + std::max(send, reduced_sent_ > 0 ? 0.0 : 1.0);
}

// A probe that filled the only hole was one loss.
void TcpSender::AnswerProbe(const TcpAcknowledgement& said) {
  if (probe_ < 0 || said.sending != probe_) return;
  probe_ = -1;
  if (said.repeated || state_ != State::kOpen || bbr_) return;
  window_.Lose();
  window_.window = window_.threshold;
}

void TcpSender::Send() {
  paced_at_ = kNotYet;
  bool fresh = false;
  for (int64_t next = ToSend(); next >= 0 && under_way_ < window();) {
    if (bbr_ && now_ < may_send_at_) {
      paced_at_ = may_send_at_;
      break;
    }
    const double burst = bbr_ ? bbr_->burst() : 1, idle_s = now_ - may_send_at_;
    double sent = 0;
    for (; sent < burst && next >= 0 && under_way_ < window(); next = ToSend()) {
      fresh |= next == next_;
      sent += At(next).size;
      Transmit(next);
    }
    if (!bbr_) continue;
    may_send_at_ = now_;
    if (static_cast<double>(sendings_) < kUnpaced) continue;
    const double wait = sent / bbr_->pace();
    may_send_at_ += wait - std::min(wait / 2, idle_s);
  }
  Watch(fresh);
}

// Linux' measure of whether the window is all that holds a sender up.
void TcpSender::Watch(bool sent) {
  const bool limited = under_way_ >= window();
  if (!sent && !limited) return;
  const auto out = static_cast<double>(next_ - first_);
  if (first_ < limited_until_ && !limited && (limited_ || out <= most_out_)) return;
  limited_ = limited;
  most_out_ = out;
  limited_until_ = next_;
}

int64_t TcpSender::ToSend() const {
  if (!lost_.empty()) return *lost_.begin();
  return next_ < end() ? next_ : -1;
}

void TcpSender::Transmit(int64_t segment) {
  Segment& s = At(segment);
  if (segment == next_) {
    if (next_ == first_) told_sent_at_ = told_at_ = timeout_from_ = now_;
    if (under_way_ == 0 && bbr_) bbr_->Restarts(now_, application_limits_ > 0);
    if (under_way_ == 0 && sendings_ > 0) window_.Pause(now_ - last_sent_);
    for (Message& m : messages_) {
      if (m.end <= segment) continue;
      if (m.begun == kNotYet) m.begun = now_;
      break;
    }
    ++next_;
    probe_from_ = now_;
  } else {
    s.again = true;
    if (segment == first_) timeout_from_ = now_;
    if (!s.lost) --under_way_;  // of a probe: in place of the one before
    s.lost = false;
    lost_.erase(segment);
  }
  if (state_ == State::kRecovers) ++reduced_sent_;
  ++under_way_;
  s.sending = sendings_++;
  s.sent_at = last_sent_ = now_;
  s.sent_since = told_sent_at_;
  s.told_since = told_at_;
  s.told_before = told_;
  s.application_limited = application_limits_ > 0;
  order_.push_back({segment, s.sending});
  traffic_.Send(path_, now_, {0, segment, s.sending, s.ends}, s.size);
}

bool TcpSender::MayProbe() const {
  return state_ == State::kOpen && !probed_ && told_beyond_ == 0 && lost_.empty();
}

double TcpSender::ProbeAt() const {
  return probe_from_ + 2 * rtt_.smoothed + (next_ - first_ == 1 ? kLeastAbove : kTicks);
}

void TcpSender::SetTimer() {
  timer_at_ = kNotYet;
  if (next_ == first_) return;
  timer_at_ = timeout_from_ + std::min(rtt_.Timeout() * backoff_, kMostTimeout);
  if (MayProbe()) timer_at_ = std::min(timer_at_, ProbeAt());
  timer_at_ = std::max(now_, std::min(timer_at_, reorder_at_));
}

void TcpSender::Due() {
  if (now_ >= reorder_at_) {
    const bool begins = FindLost() > 0 && state_ == State::kOpen;
    if (begins) Recover();
    if (begins && !bbr_) Reduce(1, false, true);
    Send();
  } else if (MayProbe()) {
    Probe();
  } else {
    TimeOut();
  }
  SetTimer();
}

void TcpSender::Probe() {
  probed_ = true;
  timeout_from_ = std::max(At(first_).sent_at, now_ - rtt_.Timeout() + kTicks / 2);
  const bool repeats = next_ == end();
  Transmit(repeats ? next_ - 1 : next_);
  if (repeats) probe_ = sendings_ - 1;
}

void TcpSender::TimeOut() {
  backoff_ *= 2;
  if (state_ != State::kTimedOut && !bbr_) window_.Lose();
  state_ = State::kTimedOut;
  recovers_until_ = next_;
  probe_ = -1;
  for (int64_t segment = first_; segment < next_; ++segment) {
    const Segment& s = At(segment);
    if (s.told || s.lost || (segment > first_ && s.sent_at + rtt_.last > now_)) continue;
    MarkLost(segment);
  }
  window_.Collapse(under_way_ + 1);
  if (bbr_) bbr_->Collapse(under_way_ + 1);
  timeout_from_ = may_send_at_ = now_;
  Send();
}

// A socket's buffer holds what is sent and not acknowledged as well.
void TcpSender::LetGo() {
  buffer_ = std::max(buffer_, (bbr_ ? kBbrBuffer : kBuffer) * window());
  for (Message& m : messages_) {
    if (static_cast<double>(m.end - first_) > buffer_) break;
    if (m.left == kNotYet) m.left = now_;
  }
}

}  // namespace longhaul
