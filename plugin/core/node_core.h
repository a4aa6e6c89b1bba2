#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "plugin/core/buffer_pool.h"
#include "plugin/core/coder.h"
#include "plugin/core/node.h"
#include "plugin/core/peer.h"
#include "plugin/core/transport.h"

namespace longhaul {

// What the node calls of a group; always on the strand.
class GroupEndpoint {
 public:
  virtual ~GroupEndpoint() = default;
  // A data packet. The callee accounts for it with peer.Release() in the end.
  virtual void OnData(Peer& peer, const PacketHeader& header, ArrivedPayload& payload) = 0;
  // TransportSink::OnCrossing.
  virtual bool OnCrossing(Peer& peer, Crossing& crossing) = 0;
  virtual void OnWant(Peer& peer, const PacketHeader& header) = 0;
  virtual void OnStarving(Peer& peer) = 0;  // tell it what is wanted
  virtual void OnPeerGone(Peer& peer) = 0;
  virtual void OnPeerAborted(Peer& peer, const PacketHeader& header, std::string why) = 0;
  virtual void OnPeerWaits(Peer& peer, const PacketHeader& header, std::string what) = 0;
  virtual void OnAbort(absl::Status why) = 0;
  // Fails what is overdue; answers the earliest deadline left.
  virtual absl::Duration OnTimer(absl::Duration now) = 0;
};

// Node over any Transport: knows the peers, hands packets to groups, keeps the peers' health. All
// state but what is marked lives on the strand.
class NodeCore final : public Node,
                       public TransportSink,
                       public std::enable_shared_from_this<NodeCore> {
 public:
  NodeCore(const NodeOptions& options, TransportKind kind, std::shared_ptr<Transport> transport);
  void Start();  // once, after construction by make_shared

  // Node.
  std::string address() const override;
  NodeTraffic traffic() const override;
  std::string description() const override;
  void Abort(absl::Status why) override { Shutdown(End::kAbort, std::move(why)); }

  // Ends it: what is outstanding fails, peers are told, threads stop. Waits for the peers to have
  // received what was sent (bounded) when clean. Idempotent; any thread.
  enum class End { kClean, kAbort };
  void Shutdown(End end, absl::Status why);

  // Any thread but the strand: waits until all are connected (and, over a network, have answered).
  // `addresses` by rank; errors name the rank.
  absl::Status Connect(const std::vector<NodeAddress>& addresses, absl::Duration timeout);

  // Runs it on the strand. False when the node has ended: see end_status().
  bool Post(Task task) { return transport_->Post(std::move(task)); }
  bool OnStrand() const { return transport_->OnStrand(); }
  // At once when already there.
  void RunOnStrand(Task task);
  absl::Status end_status() const;

  // On the strand.
  Peer* FindPeer(uint64_t node_id);
  absl::Status AddGroup(uint64_t hash, std::shared_ptr<GroupEndpoint> group);
  void RemoveGroup(uint64_t hash);
  void WakeAt(absl::Duration when);
  void Lose(Peer& peer, absl::Status why);  // it died or broke the protocol
  void Starving(Peer& peer);                // tell it what every group wants

  uint64_t node_id() const { return node_id_; }
  const NodeOptions& options() const { return options_; }
  const Clock& clock() const { return *options_.clock; }
  BufferPool& pool() { return pool_; }
  Coder& coder() { return *coder_; }  // of host memory
  bool codes_inline() const { return !options_.coder && CoderThreads(options_) == 0; }
  // A tensor has crossed from or to this node without a transport (crossing.h).
  void CountSentCrossing(int64_t wire_bytes);
  // Held by a job of any other coder until its last callback has come to the strand: the node does
  // not end before.
  std::shared_ptr<void> JobElsewhere();

 private:
  struct Early {  // a packet of a group that this node has not made yet
    Peer* peer;
    PacketHeader header;
    KeptBytes payload;
  };
  class JobCount;
  // Somebody outside the strand who waits for peers to be ready.
  class Waiter {
   public:
    std::vector<std::pair<size_t, Peer*>> peers;  // with their ranks; on the strand
    absl::Duration deadline;

    static absl::Status Named(size_t rank, const absl::Status& why);
    // On the strand: true when all are ready; an error when that cannot be any more.
    absl::StatusOr<bool> Check(absl::Duration now) const;
    void Finish(absl::Status status);  // on the strand
    absl::Status Wait();               // any other thread

   private:
    std::mutex mu_;
    std::condition_variable finished_;
    bool done_ = false;    // under mu_
    absl::Status status_;  // under mu_
  };

  // TransportSink.
  void OnPacket(std::span<const std::byte> header, ArrivedPayload& payload) override;
  void OnLinkLost(uint64_t node_id, absl::Status why) override;
  void OnTimer() override;
  bool OnCrossing(Crossing& crossing) override;

  void OnControl(Peer* peer, const PacketHeader& header, ArrivedPayload& payload);
  void OnData(Peer& peer, const PacketHeader& header, ArrivedPayload& payload);
  void OnHello(Peer* peer, const PacketHeader& header, std::span<const std::byte> payload);
  void RefuseStranger() { strangers_.fetch_add(1, std::memory_order_relaxed); }
  NodeAddress OwnAddress() const;
  void OnWelcome(Peer& peer);
  void OnGoodbye(Peer& peer, const PacketHeader& header, std::span<const std::byte> payload);
  absl::StatusOr<Peer*> EnsurePeer(const NodeAddress& address);
  void SendHello(Peer& peer);
  void Gone(Peer& peer, Peer::State state, absl::Status why);
  void CheckWaiters();
  void Leave(End end, absl::Status why);
  void CheckLeft();
  absl::Duration CheckHealth(absl::Duration now);
  std::string Seen(const Peer& peer, absl::Duration now) const;

  const NodeOptions options_;
  const TransportKind kind_;
  const std::shared_ptr<Transport> transport_;
  const uint64_t node_id_;
  const NodeKey key_;
  BufferPool pool_;
  const std::unique_ptr<Coder> coder_;
  const std::shared_ptr<JobCount> jobs_elsewhere_;

  absl::flat_hash_map<uint64_t, std::unique_ptr<Peer>> peers_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<GroupEndpoint>> groups_;
  absl::flat_hash_set<uint64_t> closed_groups_;
  absl::flat_hash_map<uint64_t, std::vector<Early>> early_;
  std::vector<std::shared_ptr<Waiter>> waiters_;
  absl::Duration next_beat_ = absl::InfiniteDuration();
  int64_t proven_bytes_ = 0;
  int64_t interface_start_bytes_ = 0;
  bool leaving_ = false;
  absl::Duration leave_deadline_;

  // Any thread.
  std::atomic<uint32_t> generation_{0};
  TrafficCounters traffic_;
  std::atomic<int64_t> damaged_{0}, strangers_{0};
  mutable std::mutex mu_;
  std::condition_variable changed_;
  bool ended_ = false, left_ = false;  // under mu_
  absl::Status end_status_;            // under mu_
  std::string proof_;                  // under mu_
};

}  // namespace longhaul
