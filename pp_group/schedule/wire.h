#pragma once

#include <limits>
#include <optional>

#include "pp_group/schedule/congestion.h"
#include "pp_group/schedule/frame_loss.h"
#include "pp_group/schedule/tcp_connection.h"

namespace longhaul {

// One direction of a link and the TCP connection on it: what a message takes. Pure arithmetic.
//
// A message keeps the wire busy for `busy_s` and arrives `delay_s` after that. With `segments` it goes
// through a connection, whose window W (in segments) lives from one message to the next:
//   - W begins at `first_window` and doubles each round trip up to a threshold (slow start), then
//     grows as `control` has it. A window that does not fill the path sends W segments a round trip, of
//     however many messages.
//   - Where `restarts`, a pause longer than a retransmission timeout (0.2 s and the smoothed round trip)
//     halves it as often as that has passed, down to the first one (RFC 2861, as Linux does it).
//   - On an idle path the whole window leaves at once. What is beyond the queue before the rate is
//     dropped and W falls. If more of the message follows, acknowledgements tell of it
//     within two round trips. If not, nothing does: the sender waits for two smoothed round trips,
//     repeats its last segment (tail loss probe) and then sends one segment more for each
//     acknowledgement. Receivers acknowledge once for segments that come as one buffer. This takes
//     seconds where the message itself takes a tenth of one.
//   - Slow start that fills path and queue in the midst of a long message loses segments as well, but
//     the path stays full while they are repeated.
//   - Where the same goes the other way at the same time, acknowledgements wait in the queue behind its
//     burst: a round trip lasts a delay and what the burst takes on the wire, if that is longer.
//   - Reno halves W at a loss and then adds one segment a round trip. Cubic (RFC 9438 with Linux's
//     figures) keeps 0.7 of it and grows with the third power of the time since then, back to where it
//     lost first; and it leaves slow start before it loses (HyStart): where acknowledgements of one
//     round come for longer than half a round trip, or the queue holds them up.
//   - Where the path loses frames, and with BBR, which paces, there is no such sum: the connection goes
//     segment by segment (tcp_sender.h), by draws of the wire's key.
struct Wire {
  double busy_s = 0, delay_s = 0;
  double segments = 0;  // of 1448 bytes; 0: no connection, the wire is the same at all times
  double queue_segments = std::numeric_limits<double>::infinity();  // before the rate
  double first_window = 10;
  using Control = CongestionControl;
  Control control = Control::kReno;
  bool restarts = false;
  bool whole_buffers = true;  // what a sender hands over at once comes at once; false: by segments
  bool both_ways = false;     // the other end begins to send as much at the same time
  FrameLoss loss = {};        // of frames of a segment
  FrameLoss loss_back = {};   // of what acknowledges them
  bool BySegments() const { return loss.any() || control == Control::kBbr; }
};

// When a wire is free again; kUnused: nothing has gone over it.
constexpr double kUnused = -std::numeric_limits<double>::infinity();
struct Connection {
  double free_at = kUnused;
  double window = 0, threshold = std::numeric_limits<double>::infinity();  // segments
  double held_until = 0;  // nothing is carried before
  double buffer = 0;      // segments that the sender's socket takes at once; 0: not known yet
  // What a round trip may take, since when, and what of it is left for messages that follow.
  double flight = 0, flight_at = kUnused, flight_left = 0;
  // Of cubic: the window of its last loss (0: none yet), and where and how long ago it began to grow, in
  // seconds of sending.
  double most = 0, grows_from = 0, grows_s = 0;
  std::optional<TcpConnection> by_segments = std::nullopt;
  void Hold(double s) { held_until = held_until < s ? s : held_until; }
};
struct Sent {
  double left;     // its sender is rid of it: the rest is in the socket's buffer, twice the window
  double arrived;  // its last byte
  double begun;    // when it took the wire
};
// A message that is ready then takes the wire behind what it carries already. A connection that goes by
// segments says it as if nothing followed; what follows may tell of a loss sooner (by_segments->messages()).
Sent Take(const Wire& wire, double ready, Connection* connection);

}  // namespace longhaul
