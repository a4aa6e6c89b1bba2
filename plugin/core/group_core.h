#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/core/collectives.h"
#include "plugin/core/group_context.h"
#include "plugin/core/group_state.h"
#include "plugin/core/matcher.h"
#include "plugin/core/sender.h"

namespace longhaul {

// Group over a NodeCore. Public methods of Group run on any thread and post to the strand, where
// everything else lives.
class GroupCore final : public Group,
                        public GroupEndpoint,
                        public std::enable_shared_from_this<GroupCore> {
 public:
  GroupCore(const GroupOptions& options, uint64_t hash, std::shared_ptr<NodeCore> node,
            CodingTable coding);

  // On the strand: the peers are connected.
  absl::Status Open(const std::vector<uint64_t>& node_ids);
  // Any thread: what Create's owner calls in the end.
  void Close();

  const GroupOptions& options() const override { return options_; }
  void Send(const WireTensor& x, int dst, int tag, Done done) override;
  void SendDecoded(const WireTensor& x, void* decoded, int dst, int tag, Done done) override;
  void Recv(const WireTensor& x, int src, int tag, Done done) override;
  void RecvAny(const WireTensor& x, int tag, DoneFrom done) override;
  absl::Status UseCodec(int dst, TensorKind kind, std::string_view codec) override;
  std::string_view CodecFor(const WireTensor& x, int dst, int tag) const override;
  void Broadcast(const WireTensor& x, int root, Done done) override;
  void AllReduce(const WireTensor& x, ReduceOp op, Done done) override;
  void AllGather(const WireTensor& in, const WireTensor& out, Done done) override;
  void AllGatherBytes(std::span<const std::byte> in, uint64_t most, std::shared_ptr<Gathered> out,
                      Done done) override;
  void AllToAll(const WireTensor& in, const std::vector<int64_t>& send_counts,
                const WireTensor& out, const std::vector<int64_t>& recv_counts, Done done) override;
  void ReduceScatter(const WireTensor& in, const std::vector<int64_t>& counts,
                     const WireTensor& out, ReduceOp op, Done done) override;
  void Reduce(const WireTensor& x, int root, ReduceOp op, Done done) override;
  void Gather(const WireTensor& in, const std::vector<WireTensor>& out, int root,
              Done done) override;
  void Scatter(const std::vector<WireTensor>& in, const WireTensor& out, int root,
               Done done) override;
  void Barrier(Done done) override;
  void MonitoredBarrier(absl::Duration timeout, bool name_all, Done done) override;
  void SetTimeout(absl::Duration timeout) override;
  void Watch(MessageWatch watch) override;
  std::vector<CrossingCounters> counters() const override { return context_.counters.Read(); }
  std::string NothingEncoded() const override;
  std::string RecentOperations() const override { return context_.history.Text(context_.Now()); }
  std::vector<NmseSample> TakeNmse() override { return context_.counters.TakeNmse(); }
  absl::StatusOr<std::string> SaveState() override;
  absl::Status CheckState(std::string_view state) const override;
  absl::Status LoadState(std::string_view state) override;
  void Abort(absl::Status why) override;

 private:
  // GroupEndpoint.
  void OnData(Peer& peer, const PacketHeader& header, ArrivedPayload& payload) override;
  bool OnCrossing(Peer& peer, Crossing& crossing) override;
  void OnWant(Peer& peer, const PacketHeader& header) override;
  void OnStarving(Peer& peer) override;
  void OnPeerGone(Peer& peer) override;
  void OnPeerAborted(Peer& peer, const PacketHeader& header, std::string why) override;
  void OnPeerWaits(Peer& peer, const PacketHeader& header, std::string what) override;
  void OnAbort(absl::Status why) override { FailAll(std::move(why)); }
  absl::Duration OnTimer(absl::Duration now) override;

  // Runs `start` on the strand unless the group has failed; `fail` runs instead with the reason.
  void Run(Task start, absl::AnyInvocable<void(absl::Status)> fail);
  absl::Status RunAndWait(absl::AnyInvocable<absl::Status()> work);
  absl::Status CheckPeer(int rank, std::string_view what) const;
  absl::Status CheckTag(int tag, std::string_view what) const;
  // Notes a point-to-point operation that begins; the answer, called with its status, that it ended
  // and names the file with the others where it was late.
  std::function<absl::Status(absl::Status)> Noted(int peer, Direction direction, int tag,
                                                  const WireTensor& x);
  int RankOf(const Peer& peer) const;
  void FailAll(absl::Status why);
  void TellLongWait(absl::Duration now);
  absl::StatusOr<std::string> WriteState() const;  // on the strand, like the next
  absl::Status TakeOver(GroupState state);

  const GroupOptions options_;
  GroupContext context_;
  Sender sender_{&context_};
  Matcher matcher_{&context_};
  Collectives collectives_{&context_, &sender_, &matcher_};
  absl::Status failed_;
  std::optional<LongWait> told_;  // the others know of it
};

}  // namespace longhaul
