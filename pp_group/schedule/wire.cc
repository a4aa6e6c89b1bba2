#include "pp_group/schedule/wire.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace longhaul {
namespace {

// Linux waits this much longer than a round trip before it sends again, and as long before it calls
// a connection idle; a tail loss probe waits two ticks of 4 ms more than two round trips.
constexpr double kRtoAboveRtt = 0.2, kProbeTicks = 0.008;
constexpr double kSocketWindows = 2;  // a socket's buffer holds so many windows
// Segments go out in buffers of what the pacing rate, twice the window a round trip in slow start,
// gives in 1/1024 s; between 2 and 64 kB.
constexpr double kBuffersPerSecond = 1024, kLeastBuffer = 2, kLargestBuffer = 45;

// A socket's buffer is enlarged where it was all that held its sender up. Behind a first message that
// left in buffers of more than two segments it was seen to hold this much of another one.
constexpr double kFirstBuffer = 5.0 / 6;

// What a sender takes the round trip for behind a message: some of its segments have waited for others,
// in a queue that is taken for as deep as the path.
double SmoothedRtt(double rtt, double window, double segment_s) {
  return rtt + std::min(window * segment_s, 2 * rtt) / 4;
}

struct Times {
  double left, busy;  // from the begin: rid of it, and the last segment is on the path
};

class Transfer {
 public:
  Transfer(const Wire& wire, double begun, Connection* c)
      : begun_(begun),
        n_(wire.segments),
        tau_(wire.busy_s / wire.segments),
        rtt_(2 * wire.delay_s),
        queue_(wire.queue_segments),
        cubic_(wire.control == Wire::Control::kCubic),
        whole_(wire.whole_buffers),
        both_ways_(wire.both_ways && std::isfinite(wire.queue_segments)),
        c_(c) {}

  // `idle`: all that was sent before is acknowledged.
  Times Run(bool idle) {
    const double burst = std::min({c_->window, n_, whole_ || c_->buffer == 0 ? n_ : c_->buffer});
    const bool first = c_->buffer == 0 && AtOnce(n_ * (1 - kFirstBuffer), 2) > kLeastBuffer;
    c_->buffer = std::max(c_->buffer, first ? kFirstBuffer * n_ : n_);
    if (idle && burst > queue_) return Overflow(burst);
    Times times = Rounds(n_);
    const bool lost = Grow(times.busy);
    if (lost) times.busy += rtt_;  // what was lost in slow start is known, and repeated
    if (c_->flight_at != kUnused) c_->window = std::max(c_->window, c_->flight);
    return times;
  }

 private:
  // From when a burst begins to its first acknowledgement.
  double Trip(double burst) const {
    return both_ways_ ? rtt_ / 2 + std::max(rtt_ / 2, std::min(burst, queue_) * tau_) : rtt_;
  }

  // Segments that leave together: what `pace` windows a round trip are in the time of a buffer.
  double AtOnce(double window, double pace) const {
    return std::clamp(pace * window / SmoothedRtt(rtt_, window, tau_) / kBuffersPerSecond,
                      kLeastBuffer, kLargestBuffer);
  }

  // The window's segments go out in each round trip until they fill the path. What of the window is
  // left when a message ends, those that follow within the round trip share.
  Times Rounds(double n) {
    if (begun_ >= c_->flight_at + rtt_) NextFlight(c_->window, 0);
    double sent = 0, t = 0, left = -1;
    while (true) {
      if (left < 0 && n - sent <= kSocketWindows * c_->flight) left = t;
      const double trip = Trip(c_->flight);
      if (c_->flight * tau_ >= trip || sent + c_->flight_left >= n) break;
      sent += c_->flight_left;
      t = std::max(t + c_->flight_left * tau_, c_->flight_at + trip - begun_);
      const double window = c_->flight;
      // Acknowledgements that waited behind the other end's burst come at once, and each sends two.
      if (both_ways_ && window < c_->threshold && 2 * (window - rtt_ / 2 / tau_) > queue_) {
        floods_at_ = std::min(floods_at_, sent + queue_);
      }
      NextFlight(window < c_->threshold ? std::min(2 * window, c_->threshold) : More(window, t), t);
    }
    c_->flight_left -= n - sent;
    const double busy = t + (n - sent) * tau_;
    return {left < 0 ? busy : left, busy};
  }
  void NextFlight(double window, double t) {
    c_->flight = c_->flight_left = window;
    c_->flight_at = begun_ + t;
  }

  // A window that was full for a round trip more, `t` after the begin.
  double More(double window, double t) const { return cubic_ ? Cubic(window, t) : window + 1; }

  // What cubic makes of a window that was full for `t`, no loss coming in between.
  double Cubic(double window, double t) const {
    const double from = c_->grows_from > 0 ? c_->grows_from : window;
    const double since = c_->grows_s + t, trips = rtt_ > 0 ? since / rtt_ : 0;
    const double back_s = std::cbrt(std::max(0.0, c_->most - from) / kCubic);
    const double grown = std::max(
        {std::max(from, c_->most) + kCubic * std::pow(since + rtt_ - back_s, 3),
         from + kAsReno * trips, c_->most > 0 ? 0 : from * std::pow(kUnknownGrowth, trips)});
    const double most = window * std::pow(kMostGrowth, rtt_ > 0 ? t / rtt_ : 0);
    return std::clamp(grown, window, std::max(window, std::min(most, window + n_)));
  }

  // Where slow start ends before anything is lost: with which window, behind how many segments of the
  // message; a message that is too short for that ends it nowhere.
  struct Exit {
    double window = INFINITY, acknowledged = 0;
  };
  Exit Hystart() const {
    const double fills = tau_ > 0 ? rtt_ / tau_ : INFINITY;
    const double held_up_s = std::clamp(rtt_ / 8, kLeastHeldUp, kMostHeldUp);
    double acknowledged = 0;
    for (double window = c_->window; acknowledged < n_; window *= 2) {
      const bool train = tau_ <= kTrainGap && window >= fills / 2;
      if (window >= kHystartWindow && (train || (window - fills) * tau_ > held_up_s)) {
        const double more = train ? fills / 2 : kHystartSamples;
        if (acknowledged + more > n_) return {};
        return {window + more, acknowledged + more};
      }
      acknowledged += window;
    }
    return {};
  }

  // What a message that was acknowledged has made of the window; true: it lost segments in slow start,
  // where each segment adds one and half of all that was sent is under way at the end.
  bool Grow(double busy_s) {
    const double holds = (tau_ > 0 ? rtt_ / tau_ : 0) + queue_;  // path and queue
    double& window = c_->window;
    if (window < c_->threshold) {
      if (floods_at_ < n_) {
        Lose(window + floods_at_);
        if (n_ > 4 * holds) Lose(window);
        return true;
      }
      const Exit exit = cubic_ && std::isinf(c_->threshold) ? Hystart() : Exit{};
      if (exit.window < c_->threshold && exit.window <= holds) {
        window = c_->threshold = c_->grows_from = exit.window;
        c_->flight = std::min(c_->flight, window);
        GrowFor((n_ - exit.acknowledged) * tau_, n_ - exit.acknowledged);
        if (std::min(window, n_) > holds) Lose(holds);
        return false;
      }
      // A window of which less than half is under way does not grow.
      const double out = std::max(n_, c_->flight - c_->flight_left);
      const double most = out > window ? window + n_ : std::max(window, 2 * out);
      window = std::min({window + n_, most, c_->threshold});
      const bool lost = std::min(window, n_) > holds && window / 2 > holds;
      if (lost) Lose(2 * holds);
      // Half of that fills them again: of a message that goes on it loses once more.
      if (lost && n_ > 4 * holds) Lose(window);
      return lost;
    }
    if (n_ > window) GrowFor(busy_s, n_);
    if (std::min(window, n_) > holds) Lose(cubic_ ? std::min(window, holds) : window);
    return false;
  }

  // Beyond the threshold, by a message of more than a window.
  void GrowFor(double busy_s, double segments) {
    double& window = c_->window;
    if (!cubic_) {
      window = std::sqrt(window * window + 2 * segments);  // one a round trip
      return;
    }
    window = Cubic(window, busy_s);
    c_->grows_s += busy_s;
  }

  // All of `burst` leaves at once, and the queue takes no more than it holds.
  Times Overflow(double burst) {
    const double lost = burst - queue_;
    const bool slow_start = c_->window < c_->threshold;
    const double buffer = AtOnce(c_->window, slow_start ? 2 : 1.2);
    double grown = c_->window;
    if (slow_start) grown = std::min(grown + queue_, 2 * burst);
    // HyStart ends what the acknowledgements of half a round trip made.
    if (slow_start && cubic_) grown = std::min(grown, c_->window + rtt_ / tau_ / 2);
    Lose(grown);
    if (burst < n_) {
      const double told = Trip(burst), follow = n_ - burst + (whole_ ? 0 : n_ / kLargestBuffer);
      const Times rest = Rounds(n_ - queue_);
      const double again = told + Trip(follow);  // their acknowledgements tell what is lost
      const double repeat_s = whole_ ? lost * tau_ : RepeatBySegments(lost, follow);
      const double busy = std::max({n_ * tau_, told + rest.busy, again + repeat_s});
      GrowFor(busy - 2 * rtt_, n_ - burst);
      return {told + rest.left, busy};
    }
    const double told = queue_ * tau_ + rtt_;  // the last acknowledgement is back
    // By segments, writing takes long enough for the last ones to find room: their acknowledgements
    // tell, a quarter of a round trip is left for reordered ones, and one segment is tried first.
    if (!whole_) return {0, told + 1.25 * rtt_ + RepeatBySegments(lost, 1)};
    // What the smoothed round trip is once the queue's segments are acknowledged, each of which has
    // waited longer than the one before it.
    const double smoothed = rtt_ + 0.7 * queue_ * tau_;
    return {0, told + 2 * smoothed + kProbeTicks + rtt_ + Repeat(lost, std::floor(buffer))};
  }

  // Of each train that is acknowledged one segment more is sent; a train ends where a buffer does.
  double Repeat(double lost, double buffer) const {
    double sent = 0, t = 0;
    for (std::vector<double> trains = {0}; true;) {
      std::vector<double> next;
      double of_round = 0;
      for (const double train : trains) {
        for (double more = std::min(train + 1, lost - sent); more > 0;) {
          const double piece = std::min(more, buffer - std::fmod(sent, buffer));
          next.push_back(piece);
          sent += piece;
          of_round += piece;
          more -= piece;
        }
      }
      if (sent >= lost) return t + of_round * tau_;
      t += std::max(rtt_, of_round * tau_);
      trains = std::move(next);
    }
  }

  // One for each segment that was acknowledged, then two.
  double RepeatBySegments(double lost, double at_first) const {
    double t = 0;
    for (double train = std::max(1.0, at_first); lost > train; lost -= train, train *= 2) {
      t += std::max(rtt_, train * tau_);
    }
    return t + lost * tau_;
  }

  void Lose(double window) {
    c_->window = c_->threshold = std::max(2.0, (cubic_ ? kCubicKeeps : kRenoKeeps) * window);
    c_->most = window < c_->most ? kMakesRoom * window : window;
    c_->grows_from = c_->window;
    c_->grows_s = 0;
    c_->flight_at = kUnused;  // what is sent next goes by the new window
  }

  const double begun_, n_, tau_, rtt_, queue_;
  const bool cubic_, whole_, both_ways_;
  double floods_at_ = INFINITY;  // segments of the message, in slow start
  Connection* const c_;
};

Sent TakeBySegments(const Wire& wire, double ready, Connection* c) {
  if (!c->by_segments) c->by_segments.emplace();
  const TcpSender::Message& sent = c->by_segments
                                       ->Send({.segment_s = wire.busy_s / wire.segments,
                                               .delay_s = wire.delay_s,
                                               .queue_segments = wire.queue_segments,
                                               .both_ways = wire.both_ways,
                                               .loss = wire.loss,
                                               .loss_back = wire.loss_back,
                                               .control = wire.control,
                                               .first_window = wire.first_window,
                                               .restarts = wire.restarts},
                                              ready, wire.segments)
                                       .back();
  c->window = c->by_segments->window();
  c->free_at = std::max(ready, sent.arrived - wire.delay_s);
  return {sent.left, sent.arrived, sent.begun};
}

}  // namespace

Sent Take(const Wire& wire, double ready, Connection* c) {
  ready = std::max(ready, c->held_until);
  if (wire.segments > 0 && wire.BySegments()) return TakeBySegments(wire, ready, c);
  const double begun = std::max(c->free_at, ready);
  if (!(wire.segments > 0)) {
    c->free_at = begun + wire.busy_s;
    return {c->free_at, c->free_at + wire.delay_s, begun};
  }
  const double rtt = 2 * wire.delay_s, pause = ready - c->free_at;
  if (c->free_at == kUnused) c->window = wire.first_window;
  const bool idle = pause >= rtt;
  const double timeout = SmoothedRtt(rtt, c->window, wire.busy_s / wire.segments) + kRtoAboveRtt;
  if (wire.restarts && c->free_at != kUnused && pause > timeout) {
    c->threshold = std::max(c->threshold, 0.75 * c->window);
    const double halvings = std::min(std::floor(pause / timeout), 1000.0);
    c->window = std::max(std::min(c->window, wire.first_window), c->window * std::exp2(-halvings));
  }
  const Times times = Transfer(wire, begun, c).Run(idle);
  c->free_at = begun + times.busy;
  return {begun + times.left, c->free_at + wire.delay_s, begun};
}

}  // namespace longhaul
