#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "netem/topology/impairment.h"
#include "netem/topology/units.h"

namespace longhaul {

struct RateTrace;  // topology/rate_trace.h

// What becomes of the order of frames whose delays vary. Without a rate of its own a path always
// lets frames overtake each other.
enum class JitterOrder {
  kKeep,  // behind a rate a late frame holds back those behind it
  kFree,  // frames may overtake each other
};

// How many packets wait at most before a rate. Several ways to say it.
struct QueueDepth {
  enum class Unit { kBdp, kPackets, kBytes, kMilliseconds };
  Unit unit;
  double amount;
};

// Who is dropped when frames wait before a rate. Beside the managed kinds the queue's depth stays a
// limit that drops.
struct QueueManagement {
  enum class Kind {
    kDropTail,
    kCodel,    // RFC 8289
    kFqCodel,  // RFC 8290: a CoDel queue for each flow, in deficit round robin
  };
  Kind kind = Kind::kDropTail;
  bool ecn = false;                                   // CE marks where a frame can take them
  absl::Duration target = absl::Milliseconds(5);      // a standing queue that is accepted
  absl::Duration interval = absl::Milliseconds(100);  // of the order of the round-trip time
};
std::string_view ToString(QueueManagement::Kind kind);  // "droptail", "codel", "fq_codel"
std::optional<QueueManagement::Kind> QueueManagementNamed(std::string_view name);

// One direction of network between two nodes. A plain value: no kernel state.
// A rate is at the Ethernet level; a delay is one way (an RTT is two of these).
struct PathSpec {
  int from;                           // node index
  int to;                             // node index
  std::optional<BitsPerSecond> rate;  // nullopt: only the access lines limit it
  absl::Duration delay;               // one way
  absl::Duration jitter;              // one standard deviation, one way; zero: none
  double loss_prob = 0;               // independent drop probability per packet, [0, 1]
  double queue_bdp = 1;               // queue depth in bandwidth-delay products
  JitterShape jitter_shape = JitterShape::kNormal;
  std::optional<BurstLoss> burst_loss = std::nullopt;  // instead of loss_prob
  std::optional<QueueDepth> queue = std::nullopt;      // instead of queue_bdp
  int line = 0;                                        // of the file it was read from; 0: none
  RareEvents rare = {};
  QueueManagement aqm = {};  // of the queue before `rate`
  JitterOrder jitter_order = JitterOrder::kKeep;
  // What the rate is from moment to moment (tap alone); `rate` is then its mean (SetRateTrace).
  std::shared_ptr<const RateTrace> rate_trace = nullptr;
  std::optional<BitsPerSecond> rate_before_trace = std::nullopt;
};

// An access line that paths share; both directions are queues with a rate and no delay.
struct AccessSpec {
  BitsPerSecond up;
  BitsPerSecond down;
  std::optional<QueueDepth> queue = std::nullopt;  // nullopt: as deep as the node's paths ask
  QueueManagement aqm = {};                        // of both directions
};

struct NodeSpec {
  std::string name;                        // unique; also the namespace's name
  std::optional<AccessSpec> access;        // of its own; nullopt: unlimited, or its site's
  std::optional<int> site = std::nullopt;  // index into Topology::sites; then no line of its own
};

// Nodes behind one access line. Between them lies a LAN: their paths to each other do not cross the
// line, and have no figures but those they are given.
struct SiteSpec {
  std::string name;  // unique among sites
  AccessSpec access;
};

// Changes that a lab makes to its paths by itself, so long after it is up: words of
// lab_control/path_change.h ("rate=10mbit", "outage=3s") for a selector ("a<>b").
struct ScheduledChange {
  absl::Duration at;
  std::string path;
  std::vector<std::string> figures;
  int line = 0;  // of the file it was read from
};

// What a lab is made of. Node i has the address NodeAddress(i) on its one interface, "net0".
struct Topology {
  std::string profile;  // the name it was made from, or the file; for records
  std::vector<NodeSpec> nodes;
  std::vector<PathSpec> paths;  // every ordered pair that may talk
  int mtu = 1500;
  std::vector<SiteSpec> sites = {};
  std::vector<ScheduledChange> changes = {};  // in the order of their times
  // That it was read from: the topology file first, then what it names. None of a profile.
  std::vector<std::string> files = {};
};

// InvalidArgument naming the field: rates <= 0, negative or NaN delays, loss outside [0, 1), names
// that are no node's (CheckNodeName) or repeat, also in another case or as the "NAME.v4" of another
// node (lab/host_names.h), a path to nowhere, a pair given twice.
absl::Status Validate(const Topology& topology);

// Whether a program that looks the name up gets the node: InvalidArgument, "WHERE: why", for what a
// resolver reads as an address ("0", "127.1", "0x7f.1"), for localhost, for an empty label as a dot at
// the end makes one, and for what neither a host name nor the kernel takes.
absl::Status CheckNodeName(const std::string& where, const std::string& name);
std::string InSmallLetters(std::string_view name);  // names of hosts are equal without their case

// The same for one path of it.
absl::Status ValidatePath(const Topology& topology, const PathSpec& path);

// What befalls the packets of a path, for an emulator.
ImpairmentSpec ImpairmentOf(const PathSpec& path);

// The share of packets that a path loses in the long run; a corrupted one is lost to its receiver.
double MeanLoss(const PathSpec& path);

// Gives a path a trace, and the trace's mean as its rate; null takes the trace away and gives the
// path the rate back that it had before.
void SetRateTrace(PathSpec& path, std::shared_ptr<const RateTrace> trace, int mtu);

// Whether it is known only as a frame leaves the path's queue when that is: under queue management
// or before a trace.
bool IsServedByEvents(const PathSpec& path);

// Why the kernel's netem cannot be these links: one line that says what to do; "" when it can.
std::string WhyTapAlone(const Topology& topology);

// The path of an ordered pair; null when the pair may not talk.
const PathSpec* FindPath(const Topology& topology, int from, int to);

// The topology with the figures of an existing path replaced. InvalidArgument: bad figures, or the
// pair has no path.
absl::StatusOr<Topology> WithPath(const Topology& topology, const PathSpec& path);
absl::Status NoPath(int from, int to);  // NotFound

// Which pairs cannot talk, or only one way, a line for each kind; "": every pair can.
std::string MissingPathsText(const Topology& topology);

// Delay of the path and of the path back (of the path twice where there is none back).
absl::Duration NominalRtt(const Topology& topology, const PathSpec& path);

// Full mesh of `nodes` nodes named w0, w1, ... with the same profile between every ordered pair.
// NotFound: unknown profile; the message lists the known ones, or is WhyNoLinks.
absl::StatusOr<Topology> UniformTopology(std::string_view profile, int nodes);

// Of a name that is no profile's: why the file that it names gives no links, and what does; "": it
// does not look like a file's.
std::string WhyNoLinks(std::string_view name);

// The profiles of docs/netem.md: name, rate, RTT, source of the figures.
struct Profile {
  std::string_view name;
  BitsPerSecond rate;
  absl::Duration rtt;
  std::string_view source;
};
const std::vector<Profile>& Profiles();

}  // namespace longhaul
