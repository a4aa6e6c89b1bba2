#include "plugin/core/node_core.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "plugin/core/crossing.h"
#include "plugin/core/host_coder.h"

namespace longhaul {
namespace {

// A leaving node waits so long for its peers to have received everything.
constexpr absl::Duration kMaxGoodbyeWait = absl::Seconds(5);

uint64_t RandomNodeId() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

NodeKey RandomKey() {
  std::random_device device;
  NodeKey key;
  for (std::byte& part : key) part = std::byte(device());
  return key;
}

std::unique_ptr<Coder> MakeCoder(const NodeOptions& options, const BufferPool& pool) {
  if (options.coder) return options.coder();
  return std::make_unique<HostCoder>(CoderThreads(options), pool, options.clock);
}

}  // namespace

class NodeCore::JobCount {
 public:
  void Add(int jobs) {
    const std::lock_guard lock(mu_);
    jobs_ += jobs;
    if (jobs_ == 0) none_.notify_all();
  }
  void AwaitNone() {
    std::unique_lock lock(mu_);
    none_.wait(lock, [this] { return jobs_ == 0; });
  }

 private:
  std::mutex mu_;
  std::condition_variable none_;
  int jobs_ = 0;  // under mu_
};

NodeCore::NodeCore(const NodeOptions& options, TransportKind kind,
                   std::shared_ptr<Transport> transport)
    : options_(options),
      kind_(kind),
      transport_(std::move(transport)),
      node_id_(RandomNodeId()),
      key_(RandomKey()),
      coder_(MakeCoder(options_, pool_)),
      jobs_elsewhere_(std::make_shared<JobCount>()) {
  interface_start_bytes_ = transport_->InterfaceSentBytes().value_or(0);
}

std::shared_ptr<void> NodeCore::JobElsewhere() {
  jobs_elsewhere_->Add(1);
  return {nullptr, [jobs = jobs_elsewhere_](std::nullptr_t) { jobs->Add(-1); }};
}

void NodeCore::RunOnStrand(Task task) {
  if (OnStrand()) return task();
  Post(std::move(task));
}

void NodeCore::Start() { transport_->Start(weak_from_this()); }

NodeAddress NodeCore::OwnAddress() const {
  return {.transport = kind_,
          .node_id = node_id_,
          .generation = generation_.load(),
          .network_id = transport_->network_id(),
          .credit_bytes = options_.credit_bytes,
          .deadline = options_.peer_deadline,
          .key = key_,
          .blob = transport_->address_blob()};
}

std::string NodeCore::address() const {
  const absl::StatusOr<std::string> bytes = SerializeAddress(OwnAddress());
  return bytes.ok() ? *bytes : std::string();  // its size was checked by Node::Create
}

NodeTraffic NodeCore::traffic() const {
  return {.sent_bytes = traffic_.sent_bytes.load(),
          .received_bytes = traffic_.received_bytes.load(),
          .sent_messages = traffic_.sent_messages.load(),
          .received_messages = traffic_.received_messages.load(),
          .refused_messages = damaged_.load() + transport_->refused_messages(),
          .refused_strangers = strangers_.load(),
          .silent_connections = transport_->silent_connections()};
}

std::string NodeCore::description() const {
  const std::lock_guard lock(mu_);
  return fmt::format("{}{}, {} coder threads", transport_->description(), proof_,
                     CoderThreads(options_));
}

absl::Status NodeCore::end_status() const {
  const std::lock_guard lock(mu_);
  return end_status_.ok() ? absl::AbortedError("the node has ended") : end_status_;
}

Peer* NodeCore::FindPeer(uint64_t node_id) {
  const auto found = peers_.find(node_id);
  return found == peers_.end() ? nullptr : found->second.get();
}

absl::Status NodeCore::AddGroup(uint64_t hash, std::shared_ptr<GroupEndpoint> group) {
  if (leaving_) return end_status();
  GroupEndpoint& endpoint = *group;
  if (!groups_.emplace(hash, std::move(group)).second) {
    return absl::AlreadyExistsError("this node has a group of that name already");
  }
  closed_groups_.erase(hash);
  const auto early = early_.find(hash);
  if (early == early_.end()) return absl::OkStatus();
  std::vector<Early> packets = std::move(early->second);
  early_.erase(early);
  for (Early& packet : packets) {
    // Kept already: handing it on moves the bytes.
    class Kept final : public ArrivedPayload {
     public:
      explicit Kept(KeptBytes* bytes) : bytes_(bytes) {}
      std::span<const std::byte> bytes() const override { return bytes_->bytes(); }
      KeptBytes Keep() override { return std::move(*bytes_); }

     private:
      KeptBytes* const bytes_;
    } payload(&packet.payload);
    endpoint.OnData(*packet.peer, packet.header, payload);
  }
  return absl::OkStatus();
}

void NodeCore::RemoveGroup(uint64_t hash) {
  if (groups_.erase(hash) == 0) return;
  closed_groups_.insert(hash);
  generation_.fetch_add(1);
}

void NodeCore::WakeAt(absl::Duration when) {
  if (when != absl::InfiniteDuration()) transport_->WakeAt(when);
}

void NodeCore::OnPacket(std::span<const std::byte> bytes, ArrivedPayload& payload) {
  if (leaving_ && peers_.empty()) return;
  traffic_.received_bytes.fetch_add(static_cast<int64_t>(bytes.size() + payload.bytes().size()),
                                    std::memory_order_relaxed);
  const absl::StatusOr<PacketHeader> header = ParsePacket(bytes, payload.bytes());
  if (!header.ok()) {
    damaged_.fetch_add(1);  // whose it was cannot be trusted; its message will be missed
    return;
  }
  Peer* const peer = FindPeer(header->source_node);
  if (peer != nullptr) {
    if (!peer->usable()) return;
    peer->last_heard = clock().Now();
  }
  if (header->kind != PacketKind::kData) {
    traffic_.received_messages.fetch_add(1, std::memory_order_relaxed);
    OnControl(peer, *header, payload);
  } else if (peer != nullptr) {
    if (header->offset + header->payload_bytes == header->message_bytes) {
      traffic_.received_messages.fetch_add(1, std::memory_order_relaxed);
    }
    OnData(*peer, *header, payload);
  } else {
    RefuseStranger();
  }
}

void NodeCore::OnData(Peer& peer, const PacketHeader& header, ArrivedPayload& payload) {
  const size_t bytes = kPacketHeaderBytes + header.payload_bytes;
  peer.Received(bytes);
  const auto group = groups_.find(header.group);
  if (group != groups_.end()) {
    const std::shared_ptr<GroupEndpoint> alive = group->second;
    alive->OnData(peer, header, payload);
  } else if (closed_groups_.contains(header.group)) {
    peer.Release(bytes);
  } else {
    early_[header.group].push_back({&peer, header, payload.Keep()});
    if (peer.starving()) Starving(peer);
  }
}

bool NodeCore::OnCrossing(Crossing& crossing) {
  Peer* const peer = FindPeer(crossing.header.source_node);
  const auto group = groups_.find(crossing.header.group);
  if (leaving_ || peer == nullptr || !peer->usable() || group == groups_.end()) return false;
  const std::shared_ptr<GroupEndpoint> alive = group->second;
  if (!alive->OnCrossing(*peer, crossing)) return false;
  traffic_.received_messages.fetch_add(1, std::memory_order_relaxed);
  traffic_.received_bytes.fetch_add(crossing.wire_bytes, std::memory_order_relaxed);
  return true;
}

void NodeCore::CountSentCrossing(int64_t wire_bytes) {
  traffic_.sent_messages.fetch_add(1, std::memory_order_relaxed);
  traffic_.sent_bytes.fetch_add(wire_bytes, std::memory_order_relaxed);
}

void NodeCore::Starving(Peer& peer) {
  for (const auto& [hash, group] : groups_) group->OnStarving(peer);
}

void NodeCore::Shutdown(End end, absl::Status why) {
  {
    const std::lock_guard lock(mu_);
    if (ended_) return;
    ended_ = true;
    end_status_ = why;
  }
  const bool posted = Post([this, self = shared_from_this(), end, why] { Leave(end, why); });
  if (posted && !OnStrand()) {
    std::unique_lock lock(mu_);
    changed_.wait_for(lock, absl::ToChronoNanoseconds(kMaxGoodbyeWait + absl::Seconds(1)),
                      [this] { return left_; });
  }
  // The callbacks of operations that coders work for find the strand alive.
  coder_->Drain();
  if (!OnStrand()) jobs_elsewhere_->AwaitNone();
  const auto cut = [this, self = shared_from_this()] {
    for (auto& [id, peer] : peers_) peer->SetGone(Peer::State::kLost, end_status());
    groups_.clear();  // they hold the node, and their Close() finds no strand any more
  };
  if (OnStrand()) {
    Leave(end, why);
    cut();
  } else {
    Post(cut);
  }
  transport_->Stop();
}

void NodeCore::Leave(End end, absl::Status why) {
  if (leaving_) return;
  leaving_ = true;
  for (const auto& waiter : waiters_) waiter->Finish(why);
  waiters_.clear();
  const auto groups = groups_;  // OnAbort may close groups
  for (const auto& [hash, group] : groups) group->OnAbort(why);
  early_.clear();
  const std::string reason = end == End::kClean ? "" : std::string(why.message());
  for (auto& [id, peer] : peers_) {
    if (!peer->usable()) continue;
    peer->goodbye_pending = end == End::kClean && peer->state() == Peer::State::kReady;
    peer->SayGoodbye(end == End::kAbort ? kPacketAborted : 0, reason);
  }
  const absl::Duration patience =
      std::min({kMaxGoodbyeWait, options_.peer_deadline,
                end == End::kClean ? kMaxGoodbyeWait : absl::ZeroDuration()});
  leave_deadline_ = clock().Now() + patience;
  WakeAt(leave_deadline_);
  CheckLeft();
}

void NodeCore::CheckLeft() {
  if (!leaving_) return;
  const bool waiting = clock().Now() < leave_deadline_ &&
                       std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) {
                         return entry.second->goodbye_pending && entry.second->usable();
                       });
  if (waiting) return;
  const std::lock_guard lock(mu_);
  left_ = true;
  changed_.notify_all();
}

}  // namespace longhaul
