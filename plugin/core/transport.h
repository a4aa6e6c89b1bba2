#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "plugin/core/packet.h"

namespace longhaul {

struct Crossing;  // crossing.h

using Task = absl::AnyInvocable<void()>;

// Bytes that outlive the call they arrived in; let go by the destructor, on the strand.
class KeptBytes {
 public:
  using Release = void (*)(void* owner, void* cookie);
  KeptBytes() = default;
  KeptBytes(std::span<const std::byte> bytes, Release release, void* owner, void* cookie)
      : bytes_(bytes), release_(release), owner_(owner), cookie_(cookie) {}
  KeptBytes(KeptBytes&& other) noexcept { *this = std::move(other); }
  KeptBytes& operator=(KeptBytes&& other) noexcept;
  ~KeptBytes();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
  Release release_ = nullptr;
  void* owner_ = nullptr;
  void* cookie_ = nullptr;
};

// The payload of a packet that has just arrived, still in the transport's buffer.
class ArrivedPayload {
 public:
  virtual ~ArrivedPayload() = default;
  virtual std::span<const std::byte> bytes() const = 0;  // valid during the call
  virtual KeptBytes Keep() = 0;                          // at most once; valid until destroyed
};

// What a transport calls, always on its strand.
class TransportSink {
 public:
  virtual ~TransportSink() = default;
  virtual void OnPacket(std::span<const std::byte> header, ArrivedPayload& payload) = 0;
  virtual void OnLinkLost(uint64_t node_id, absl::Status why) = 0;
  virtual void OnTimer() = 0;
  // A tensor from a rank of this process. False: it has not crossed and must come as packets.
  virtual bool OnCrossing(Crossing&) { return false; }
};

// Bulk carries data; control carries small packets that must not queue behind it.
enum class Lane { kBulk, kControl };

// A packet on its way out. Header and payload stay valid and unchanged until `done` has run.
struct OutPacket {
  std::array<std::byte, kPacketHeaderBytes> header = {};
  std::span<const std::byte> payload;
  // Keeps the payload's bytes as they are; null: they are the sender's own.
  std::shared_ptr<const void> owner;
  absl::AnyInvocable<void(OutPacket*, absl::Status)> done;
};

enum class SendState { kDone, kPending };

// The way to one peer. Used on the strand only.
class Link {
 public:
  virtual ~Link() = default;  // as Cut()
  // Packets of one lane arrive in order. kDone: the bytes are no longer needed and `done` will not
  // run; kPending: `done` runs on the strand later, exactly once, also after Cut().
  virtual absl::StatusOr<SendState> Send(Lane lane, OutPacket* packet) = 0;
  // Where the peer is in this process and nobody is on its strand: its sink's OnCrossing, inside the
  // call. False: it has not crossed.
  virtual bool Cross(Crossing&) { return false; }
  // Gives up at once: pending packets come back with an error, soon and whatever the network does;
  // nothing more arrives. Idempotent.
  virtual void Cut() = 0;
};

// Moves packets between nodes, and runs everything of one node on its *strand*: tasks one after
// another, in order, never two at a time. With ucx the strand is the progress thread; with loopback
// it is whichever thread posts while no other runs. The node, its groups and their callbacks live
// on the strand and need no locks.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual void Start(std::weak_ptr<TransportSink> sink) = 0;

  // Any thread. False once stopped: the task is refused. A task that was accepted runs.
  virtual bool Post(Task task) = 0;
  virtual bool OnStrand() const = 0;

  // On the strand: OnTimer runs once at `when` (of the node's clock) or soon after. The earliest of
  // several wins; each OnTimer forgets them all.
  virtual void WakeAt(absl::Duration when) = 0;

  // On the strand. Whether as many more peers can be connected.
  virtual absl::Status CheckRoom(int) const { return absl::OkStatus(); }

  // On the strand. `blob` is a peer's address_blob(); loss is reported under `node_id`.
  virtual absl::StatusOr<std::unique_ptr<Link>> Connect(std::string_view blob,
                                                        uint64_t node_id) = 0;

  virtual std::string address_blob() const = 0;
  virtual std::string description() const = 0;

  // True where a peer can fall silent: heartbeats, probes and deadlines apply.
  virtual bool needs_heartbeat() const = 0;
  // Nodes with equal network ids reach each other without crossing an interface.
  virtual uint64_t network_id() const = 0;
  // Bytes that the kernel has sent through the interface; nullopt where there is none.
  virtual std::optional<int64_t> InterfaceSentBytes() const = 0;

  // Messages that came in a way the transport forbids, and were refused.
  virtual int64_t refused_messages() const = 0;

  // Connections that were ended because nobody spoke at their other end.
  virtual int64_t silent_connections() const { return 0; }

  // No task, timer or delivery runs after it returns (when called on the strand: soon after the
  // current task). All links must have been cut. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace longhaul
