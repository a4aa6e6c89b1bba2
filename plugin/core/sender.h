#pragma once

#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "plugin/core/collective_call.h"
#include "plugin/core/encoder.h"
#include "plugin/core/group_context.h"

namespace longhaul {

// The sending half of one group: numbers messages, has them encoded and submits them. A send
// reserves its ticket at once and submits its frame later; first packets of a channel leave in the
// order of the tickets. On the strand.
class Sender {
 public:
  explicit Sender(GroupContext* context)
      : context_(context), encoder_(context, [this](const auto& ticket) { OnCoded(ticket); }) {}

  // `done` may run inside the call. The values are read until it has run. `decoded`: nullptr, or as
  // of Group::SendDecoded.
  void Send(const WireTensor& x, void* decoded, int dst, int tag, Group::Done done);
  // The same of a collective's message.
  void Send(const WireTensor& x, int dst, const CollectiveCall& call, int tag, Group::Done done);

  // The same of one frame for several ranks, in host memory; `decoded` as above.
  struct Target {
    int rank;
    CollectiveCall call;
    Group::Done done;
  };
  void SendEncoded(const WireTensor& x, const Codec* codec, void* decoded, int tag,
                   std::vector<Target> targets);

  // The receiver has posted receives for every message of that channel below `below`.
  void OnWant(const ChannelKey& key, uint64_t below);

  // Cancels what is overdue; answers the earliest deadline left.
  absl::Duration Expire(absl::Duration now);
  void CancelAll(const absl::Status& why);
  void CancelChannels(ChannelSpace space, int tag, const absl::Status& why);  // to every rank
  void Forget(const ChannelKey& key) { channels_.erase(key); }
  // Sends whose `done` has not run: while there are none no coder holds a state.
  size_t outstanding() const { return pending_.size(); }

  // Numbers and residuals of the point-to-point channels, for Group::SaveState.
  std::map<ChannelKey, const SendChannel*> point_to_point() const;
  SendChannel& ChannelOf(const ChannelKey& key);
  Encoder& encoder() { return encoder_; }
  const Encoder& encoder() const { return encoder_; }

 private:
  struct Pending {
    std::shared_ptr<Ticket> ticket;
    absl::Duration deadline;
  };
  // Crosses if it can (crossing.h): true, and `done` has run.
  bool Cross(const WireTensor& x, const ChannelKey& key, const Group::Done& done);
  PacketHeader HeaderOf(const WireTensor& x, const ChannelKey& key, uint64_t sequence) const;
  std::shared_ptr<Ticket> NewTicket(const WireTensor& x, const ChannelKey& key, Group::Done done);
  void OnDone(const std::shared_ptr<Ticket>& ticket, const Group::Done& done, absl::Status status);
  void OnCoded(const std::shared_ptr<Ticket>& ticket);
  void SubmitInOrder(const ChannelKey& key);
  void GiveUp(const std::shared_ptr<Ticket>& ticket, const absl::Status& why);
  void Cancel(absl::FunctionRef<bool(const PacketHeader&)> which, const absl::Status& why);
  Outbox& OutboxOf(const Ticket& ticket);
  std::string Describe(const Ticket& ticket) const;

  GroupContext* const context_;
  Encoder encoder_;
  absl::flat_hash_map<ChannelKey, std::unique_ptr<SendChannel>> channels_;
  absl::flat_hash_map<const Ticket*, Pending> pending_;
};

}  // namespace longhaul
