#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "plugin/core/clock.h"

namespace longhaul {

class Coder;  // coder.h

enum class TransportKind { kLoopback, kUcx };

constexpr int64_t kMinCreditBytes = 64 << 10;
constexpr int kMaxCoderThreads = 256;

struct NodeOptions {
  TransportKind transport;
  // ucx: the interface every byte must cross ("net0"). Empty: what the variable LONGHAUL_INTERFACE
  // names, else the one interface besides lo that is up; several are an error that lists them.
  std::string interface = {};
  // Who chose `interface`, for the description; empty: "named".
  std::string interface_why = {};
  // ucx on a real cluster only: lets UCX use shared memory between processes of one host, which
  // bypasses shaped links. Never set by the launcher.
  enum class SharedMemory { kForbidden, kAllowed } shared_memory = SharedMemory::kForbidden;
  // ucx: variables UCX_* in the environment could undo what is set in code; kRefused makes them an
  // error that names them. Those of its log and of hardware that TCP never uses always pass.
  enum class UcxEnvironment { kRefused, kAllowed } ucx_environment = UcxEnvironment::kRefused;
  // A peer silent for this long (no frame, no heartbeat) is dead, and nothing else makes it so but a
  // connection that its end or the kernel breaks. Must exceed RTT + queueing delay; to ride outages
  // out, 2.5 times the longest: TCP tries again at pauses that double, so it may take as long again
  // to notice their end, and up to a fifth of the deadline was silent before. InfiniteDuration:
  // never.
  absl::Duration peer_deadline = absl::Seconds(30);
  // Bytes that each peer may have sent here and that no receive has taken yet: the bound on memory
  // held for messages that arrive before their receive, per peer. At least kMinCreditBytes, and two
  // bandwidth-delay products of the link or it throttles it. A message that a receive is posted for
  // is never held back, whatever its size.
  int64_t credit_bytes = 64 << 20;
  // Threads that encode and decode beside the strand, at most kMaxCoderThreads; 0: on the strand
  // itself. Unset: none for loopback, which one thread may then drive alone, and two for ucx. Bytes
  // are the same with any number.
  std::optional<int> coder_threads = {};
  // Peers that will be connected soon: ucx asks for their file descriptors too before it opens any.
  int expected_peers = 0;
  const Clock* clock = &MonotonicClock();
  // For tests: makes what encodes and decodes instead.
  std::function<std::unique_ptr<Coder>()> coder = {};
};

// How many coder threads a node made with these has: what is unset decided.
int CoderThreads(const NodeOptions& options);

// Counted at the transport: whole messages, our headers included, TCP/IP headers not.
struct NodeTraffic {
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  int64_t sent_messages = 0;
  int64_t received_messages = 0;
  int64_t refused_messages = 0;  // arrived damaged, or by rendezvous: should be 0
  // From senders that are no peers: greetings without the proof that this node's address was read in
  // a group's store, greetings that came before, and whatever else such a sender says.
  int64_t refused_strangers = 0;
  int64_t silent_connections = 0;  // ended after peer_deadline: at their other end nobody spoke
};

// Timers sleep for real durations computed on `clock`: a test clock must not run slower than real
// time. It must outlive the node.
//
// A Node is one rank's attachment to the network: the transport, its progress thread (ucx), the
// connections to its peers and their heartbeats. Groups (group.h) share it. A process has one; the
// in-process runs have one per rank, on one LoopbackHub. Thread safe.
class Node {
 public:
  virtual ~Node() = default;  // says goodbye to its peers; outstanding operations fail first

  // ucx: opens the worker on the interface, forces TCP, refuses UCX_* from the environment.
  // FailedPrecondition: no such interface; the message lists those there are; or too few file
  // descriptors, with both figures.
  static absl::StatusOr<std::shared_ptr<Node>> Create(const NodeOptions& options);

  // What a peer needs to reach this node, and to be let in: a secret of the groups that it is of
  // (opaque bytes, at most 4 KiB).
  virtual std::string address() const = 0;

  virtual NodeTraffic traffic() const = 0;

  // "ucx tcp/net0 (named), 2 coder threads" or "loopback, 0 coder threads": what is really used, the
  // first part read back from the transport, and why this interface; for records.
  virtual std::string description() const = 0;

  // Everything outstanding and later fails with `why`; threads stop. Idempotent.
  virtual void Abort(absl::Status why) = 0;
};

// What keeps every ucx node with such options from being made, before one is: FailedPrecondition
// for variables in the environment that they refuse, or no UCX to load.
absl::Status CheckUcx(const NodeOptions& options);

// "1.13.1": of the UCX that a ucx node would use; loads it. FailedPrecondition: there is none.
absl::StatusOr<std::string> UcxVersion();

}  // namespace longhaul
