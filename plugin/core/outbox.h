#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "compressors/frame/frame_pieces.h"
#include "plugin/core/once.h"
#include "plugin/core/transport.h"

namespace longhaul {

// What a node has moved, every kind of packet included. Written on the strand, read anywhere.
struct TrafficCounters {
  std::atomic<int64_t> sent_bytes{0}, received_bytes{0};
  std::atomic<int64_t> sent_messages{0}, received_messages{0};
};

// One message on its way to a peer.
struct OutMessage {
  PacketHeader header;                 // offset, payload_bytes, payload_crc are set per packet
  std::span<const std::byte> payload;  // lives until `done` has run
  std::shared_ptr<const void> owner;   // of a payload that is not the caller's; let go at the end
  std::vector<FramePart> order;        // in which the payload goes; empty: as it lies
  size_t ready_bytes = SIZE_MAX;       // of the payload, in that order: what may go
  bool coding = false;                 // somebody still works on it: it does not end before
  Once<absl::Status> done;             // on the strand; may be empty

  // The outbox's own.
  size_t sent_bytes = 0;  // of the payload
  size_t part = 0;        // of `order`, the one that goes now, and
  size_t part_bytes = 0;  // how much of it has gone
  int64_t packets = 0;    // that have gone
  uint32_t crc = 0;
  int in_flight = 0;  // packets inside the transport
  bool all_sent = false;
  bool exempt = false;  // the receiver waits for it: goes without credit
  absl::Status failure;
};

// The sending half of one peer: cuts messages into packets, gives small messages a way past bulk
// ones, and keeps within the receiver's credit. First packets of one channel leave in the order in
// which messages were submitted. Used on the strand only; callbacks may submit.
class Outbox {
 public:
  struct Limits {
    int64_t credit_bytes;         // the receiver's window
    size_t packet_payload_bytes;  // longest slice
  };
  // `lost` is called when the link refuses a packet; `traffic` must outlive the outbox.
  Outbox(Limits limits, TrafficCounters* traffic, std::function<void(absl::Status)> lost);

  ~Outbox();

  void Open(Link* link) { link_ = link; }  // before the first Submit; must outlive the outbox's use

  // At least one byte of the message is ready, or it has none at all.
  void Submit(std::shared_ptr<OutMessage> message);

  // More of a submitted message is ready, or `coding` has ended.
  void Continue(const std::shared_ptr<OutMessage>& message);

  // Sends no more of it, and in its place a packet telling the receiver why. Its `done` runs when
  // no packet of it is left in the transport.
  void Cancel(const std::shared_ptr<OutMessage>& message, absl::Status why);

  // The same for a message that could not be made: it fails, and the receiver learns why.
  void SubmitCancelled(std::shared_ptr<OutMessage> message, absl::Status why);

  // Messages for which `wanted` answers true may ignore the credit from now on.
  void Exempt(absl::FunctionRef<bool(const PacketHeader&)> wanted);

  void OnReleased(uint64_t cumulative_bytes);

  // The peer is gone: everything fails with `why`, now or when the transport lets go of it.
  void Fail(absl::Status why);

  // What a message of such a payload, all of it ready, counts with its packets' headers. `order` as in
  // OutMessage.
  int64_t WireBytes(size_t payload_bytes, const std::vector<FramePart>& order) const;

  // Nothing is inside the transport.
  bool idle() const { return in_flight_ == 0; }
  bool empty() const { return idle() && fresh_.empty() && running_.empty() && unready_.empty(); }
  uint64_t sent_bytes() const { return sent_; }  // data bytes, headers included

 private:
  using Queue = std::deque<std::shared_ptr<OutMessage>>;
  struct Packet;

  static std::shared_ptr<OutMessage> CancelNotice(const OutMessage& message,
                                                  const absl::Status& why);
  void End(const std::shared_ptr<OutMessage>& message, absl::Status why);
  void Pump();
  bool SendOne(Queue& queue);
  void SendPacket(const std::shared_ptr<OutMessage>& message);
  void OnPacketDone(OutPacket* out, absl::Status status);
  void FinishIfDone(const std::shared_ptr<OutMessage>& message);
  bool HasCredit(const OutMessage& message) const;
  size_t NextBytes(const OutMessage& message) const;
  std::span<const std::byte> NextSlice(OutMessage& message);

  const Limits limits_;
  TrafficCounters* const traffic_;
  const std::function<void(absl::Status)> lost_;
  Link* link_ = nullptr;
  absl::Status failure_;
  Queue fresh_;    // nothing sent yet, in order of submission
  Queue running_;  // bulk messages of which some packets have gone, round robin
  Queue unready_;  // the same, of which nothing that is left is ready
  bool running_next_ = false;
  bool pumping_ = false;
  int64_t in_flight_ = 0;
  uint64_t sent_ = 0, released_ = 0;
  std::vector<std::unique_ptr<Packet>> spare_;
};

}  // namespace longhaul
