#include "plugin/core/group_core.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "plugin/core/collective_arguments.h"
#include "plugin/core/group_members.h"
#include "plugin/core/reduce.h"

namespace longhaul {
namespace {

constexpr absl::Duration kMaxConnectTime = absl::Seconds(60);

}  // namespace

absl::StatusOr<std::shared_ptr<Group>> Group::Create(std::shared_ptr<Node> node,
                                                     const GroupOptions& options,
                                                     const std::vector<std::string>& addresses) {
  auto* const core = static_cast<NodeCore*>(node.get());  // every Node is one
  ASSIGN_OR_RETURN(const std::vector<NodeAddress> parsed,
                   ParseAll(core->node_id(), options, addresses));
  ASSIGN_OR_RETURN(CodingTable coding,
                   CodingTable::Create(options.codecs, options.rank, options.size));
  const auto connected = core->Connect(parsed, std::min(options.timeout, kMaxConnectTime));
  if (!connected.ok()) {
    return absl::Status(connected.code(), fmt::format("group '{}': {}", options.name,
                                                      std::string(connected.message())));
  }
  auto group = std::make_shared<GroupCore>(options, GroupHash(options, parsed),
                                           core->shared_from_this(), std::move(coding));
  std::vector<uint64_t> node_ids;
  for (const NodeAddress& address : parsed) node_ids.push_back(address.node_id);
  RETURN_IF_ERROR(group->Open(node_ids));
  // The strand may hold the core a little longer than the caller does; the node stays until then.
  Group* const face = group.get();
  return std::shared_ptr<Group>(face,
                                [group = std::move(group), node = std::move(node)](Group*) mutable {
                                  group->Close();
                                  group.reset();
                                  node.reset();
                                });
}

GroupCore::GroupCore(const GroupOptions& options, uint64_t hash, std::shared_ptr<NodeCore> node,
                     CodingTable coding)
    : options_(options),
      context_{.options = options,
               .hash = hash,
               .node = std::move(node),
               .peers = {},
               .coding = std::move(coding),
               .counters = CounterTable(options.rank, options.size),
               .history = History(fmt::format("group '{}' rank {} of {}", options.name,
                                              options.rank, options.size),
                                  options.size),
               .owner = {}} {}

absl::Status GroupCore::Open(const std::vector<uint64_t>& node_ids) {
  return RunAndWait([this, self = shared_from_this(), node_ids] {
    context_.owner = weak_from_this();
    for (const uint64_t id : node_ids) {
      context_.peers.push_back(id == context_.node->node_id() ? nullptr
                                                              : context_.node->FindPeer(id));
    }
    absl::Status added = context_.node->AddGroup(context_.hash, self);
    if (added.ok()) return added;
    return absl::Status(added.code(),
                        fmt::format("group '{}': {}", options_.name, std::string(added.message())));
  });
}

void GroupCore::Close() {
  context_.node->Post([this, self = shared_from_this()] {
    FailAll(absl::AbortedError(fmt::format("group '{}' was closed", options_.name)));
    context_.node->RemoveGroup(context_.hash);
  });
}

void GroupCore::Run(Task start, absl::AnyInvocable<void(absl::Status)> fail) {
  struct Call {
    Task start;
    absl::AnyInvocable<void(absl::Status)> fail;
  };
  auto call = std::make_shared<Call>(Call{std::move(start), std::move(fail)});
  const bool posted = context_.node->Post([this, self = shared_from_this(), call] {
    if (failed_.ok()) {
      call->start();
    } else {
      call->fail(failed_);
    }
  });
  if (!posted) call->fail(context_.node->end_status());
}

absl::Status GroupCore::RunAndWait(absl::AnyInvocable<absl::Status()> work) {
  if (context_.node->OnStrand()) {
    return absl::FailedPreconditionError("this call waits and must not be made from a callback");
  }
  struct Result {
    std::mutex mu;
    std::condition_variable ready;
    bool done = false;
    absl::Status status;
  };
  auto result = std::make_shared<Result>();
  const auto finish = [result](absl::Status status) {
    const std::lock_guard lock(result->mu);
    result->status = std::move(status);
    result->done = true;
    result->ready.notify_all();
  };
  Run([finish, work = std::move(work)]() mutable { finish(work()); }, finish);
  std::unique_lock lock(result->mu);
  result->ready.wait(lock, [&] { return result->done; });
  return result->status;
}

absl::Status GroupCore::CheckPeer(int rank, std::string_view what) const {
  if (rank >= 0 && rank < options_.size && rank != options_.rank) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} rank {} on rank {} of group '{}' of {}", what,
                                                rank, options_.rank, options_.name, options_.size));
}

absl::Status GroupCore::CheckTag(int tag, std::string_view what) const {
  if (tag >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} on rank {} of group '{}': tag {}, tags are 0 and more", what, options_.rank,
                  options_.name, tag));
}

void GroupCore::Send(const WireTensor& x, int dst, int tag, Done done) {
  SendDecoded(x, nullptr, dst, tag, std::move(done));
}

void GroupCore::SendDecoded(const WireTensor& x, void* decoded, int dst, int tag, Done done) {
  absl::Status s = CheckPeer(dst, "send to");
  if (s.ok()) s = CheckTag(tag, "send");
  if (s.ok()) s = context_.coding.CheckKind(x, dst, tag);  // never changes: any thread may read it
  if (s.ok() && decoded != nullptr && x.coder != nullptr) {
    s = absl::InvalidArgumentError("what a receiver will hold is told of tensors in host memory");
  }
  if (!s.ok()) return done(s);
  Run(
      [=, this] {
        sender_.Send(x, decoded, dst, tag,
                     [done, noted = Noted(dst, Direction::kSent, tag, x)](absl::Status status) {
                       done(noted(std::move(status)));
                     });
      },
      done);
}

std::function<absl::Status(absl::Status)> GroupCore::Noted(int peer, Direction direction, int tag,
                                                           const WireTensor& x) {
  const uint64_t number = context_.history.Begin(
      peer,
      {.direction = direction,
       .what = direction == Direction::kSent ? "send" : "recv",
       .tag = tag,
       .bytes = static_cast<uint64_t>(x.elements()) * BytesPerElement(x.type)},
      context_.Now());
  return [this, peer, number](absl::Status status) {
    const absl::Duration now = context_.Now();
    context_.history.End(peer, number, status.ok(), now);
    if (!absl::IsDeadlineExceeded(status)) return status;
    return absl::DeadlineExceededError(std::string(status.message()) + context_.WhyLate(peer) +
                                       context_.history.Written(now));
  };
}

absl::Status GroupCore::UseCodec(int dst, TensorKind kind, std::string_view codec) {
  RETURN_IF_ERROR(CheckPeer(dst, "use a codec"));
  return RunAndWait([&] { return context_.coding.Use(dst, kind, codec); });
}

std::string_view GroupCore::CodecFor(const WireTensor& x, int dst, int tag) const {
  const Codec* codec = context_.coding.Pick(x, dst, tag);
  return codec == nullptr ? std::string_view() : codec->name();
}

std::string GroupCore::NothingEncoded() const {
  const int64_t longest = context_.counters.LongestOfShort();
  if (longest == 0) return "";
  const CodecPolicy& codecs = options_.codecs;
  return fmt::format(
      "group '{}' opted in to codecs (forward '{}', backward '{}'{}) and rank {} encoded nothing: "
      "every tensor that was to be is shorter than min_elements = {}, the longest has {} "
      "elements. They went exact; to encode them, set Options(min_elements={})",
      options_.name, codecs.forward, codecs.backward, ToString(codecs.collectives), options_.rank,
      codecs.min_elements, longest, longest);
}

void GroupCore::Recv(const WireTensor& x, int src, int tag, Done done) {
  absl::Status s = CheckPeer(src, "recv from");
  if (s.ok()) s = CheckTag(tag, "recv");
  if (!s.ok()) return done(s);
  Run(
      [=, this] {
        matcher_.Receive(x, src, ChannelSpace::kPointToPoint, tag,
                         [done, noted = Noted(src, Direction::kReceived, tag, x)](
                             absl::Status status) { done(noted(std::move(status))); });
      },
      done);
}

void GroupCore::RecvAny(const WireTensor& x, int tag, DoneFrom done) {
  if (absl::Status s = CheckTag(tag, "recv from any rank"); !s.ok()) return done(s);
  Run(
      [=, this] {
        matcher_.ReceiveAny(x, tag,
                            [done, noted = Noted(kAnySource, Direction::kReceived, tag, x)](
                                absl::StatusOr<int> source) {
                              absl::Status status = noted(source.status());
                              done(status.ok() ? std::move(source) : std::move(status));
                            });
      },
      done);
}

void GroupCore::SetTimeout(absl::Duration timeout) {
  Run([this, timeout] { context_.options.timeout = timeout; }, [](absl::Status) {});
}

void GroupCore::Watch(MessageWatch watch) {
  Run([this, watch = std::move(watch)]() mutable { context_.watch = std::move(watch); },
      [](absl::Status) {});
}

void GroupCore::Abort(absl::Status why) {
  Run(
      [this, why] {
        for (Peer* peer : context_.peers) {
          if (peer == nullptr) continue;
          peer->SendControl(context_.Header(PacketKind::kGroupAbort), std::string(why.message()));
        }
        FailAll(why);
      },
      [](absl::Status) {});
}

int GroupCore::RankOf(const Peer& peer) const {
  const auto found = std::find(context_.peers.begin(), context_.peers.end(), &peer);
  return found == context_.peers.end() ? -1 : static_cast<int>(found - context_.peers.begin());
}

void GroupCore::OnData(Peer& peer, const PacketHeader& header, ArrivedPayload& payload) {
  bool wanted = failed_.ok() && header.source_rank == RankOf(peer);
  if (wanted && header.space == ChannelSpace::kCollective) wanted = collectives_.Takes(header);
  if (!wanted) {
    return peer.Release(kPacketHeaderBytes + header.payload_bytes);
  }
  matcher_.OnData(peer, header, payload);
}

bool GroupCore::OnCrossing(Peer& peer, Crossing& crossing) {
  return failed_.ok() && crossing.header.source_rank == RankOf(peer) && matcher_.Cross(crossing);
}

void GroupCore::OnWant(Peer& peer, const PacketHeader& header) {
  const int rank = RankOf(peer);
  if (rank >= 0) sender_.OnWant({rank, header.space, header.tag}, header.sequence);
}

void GroupCore::OnStarving(Peer& peer) {
  const int rank = RankOf(peer);
  if (rank >= 0) matcher_.OnStarving(rank);
}

void GroupCore::OnPeerGone(Peer& peer) {
  const int rank = RankOf(peer);
  if (rank < 0) return;
  matcher_.OnPeerGone(rank);
}

void GroupCore::OnPeerAborted(Peer& peer, const PacketHeader& header, std::string why) {
  const int rank = RankOf(peer);
  if (rank < 0 || !failed_.ok()) return;
  if (header.space == ChannelSpace::kCollective) {
    return collectives_.OnPeerFailed(rank, header, why);
  }
  FailAll(
      absl::AbortedError(fmt::format("rank {} aborted group '{}': {}", rank, options_.name, why)));
}

absl::Duration GroupCore::OnTimer(absl::Duration now) {
  context_.armed = absl::InfiniteDuration();  // callbacks of what expires may start operations
  const absl::Duration next =
      std::min({collectives_.Expire(now), sender_.Expire(now), matcher_.Expire(now)});
  TellLongWait(now);
  context_.armed = std::min(context_.armed, next);
  return context_.armed;
}

void GroupCore::TellLongWait(absl::Duration now) {
  std::optional<LongWait> wait = collectives_.Longest(now), receive = matcher_.Longest(now);
  if (!wait || (receive && receive->deadline < wait->deadline)) wait = std::move(receive);
  if (!wait || (told_ && told_->rank == wait->rank && told_->what == wait->what &&
                told_->deadline == wait->deadline)) {
    return;
  }
  PacketHeader header = context_.Header(PacketKind::kWaits);
  header.tag = wait->rank;
  for (Peer* peer : context_.peers) {
    if (peer != nullptr && peer->usable()) peer->SendControl(header, wait->what);
  }
  told_ = std::move(wait);
}

void GroupCore::OnPeerWaits(Peer& peer, const PacketHeader& header, std::string what) {
  const int rank = RankOf(peer);
  if (rank < 0 || header.tag < 0 || header.tag >= options_.size) return;
  constexpr size_t kLongest = 200;
  what.resize(std::min(what.size(), kLongest));
  context_.waits.Said(rank, header.tag, std::move(what), context_.Now());
}

void GroupCore::FailAll(absl::Status why) {
  if (!failed_.ok()) return;
  failed_ = std::move(why);
  sender_.CancelAll(failed_);
  matcher_.FailAll(failed_);
}

void GroupCore::Broadcast(const WireTensor& x, int root, Done done) {
  if (absl::Status s = CheckRoot(options_, root, "broadcast from"); !s.ok()) return done(s);
  Run([=, this] { collectives_.Broadcast(x, root, done); }, done);
}

void GroupCore::AllReduce(const WireTensor& x, ReduceOp op, Done done) {
  if (absl::Status s = CheckReduce(x.type, op); !s.ok()) return done(s);
  Run([=, this] { collectives_.AllReduce(x, op, done); }, done);
}

void GroupCore::AllGather(const WireTensor& in, const WireTensor& out, Done done) {
  if (absl::Status s = CheckAllGather(options_, in, out); !s.ok()) return done(s);
  Run([=, this] { collectives_.AllGather(in, out, done); }, done);
}

void GroupCore::AllGatherBytes(std::span<const std::byte> in, uint64_t most,
                               std::shared_ptr<Gathered> out, Done done) {
  Run([=, this] { collectives_.AllGatherBytes(in, most, out, done); }, done);
}

void GroupCore::AllToAll(const WireTensor& in, const std::vector<int64_t>& send_counts,
                         const WireTensor& out, const std::vector<int64_t>& recv_counts,
                         Done done) {
  if (absl::Status s = CheckAllToAll(options_, in, send_counts, out, recv_counts); !s.ok()) {
    return done(s);
  }
  Run([=, this] { collectives_.AllToAll(in, send_counts, out, recv_counts, done); }, done);
}

void GroupCore::ReduceScatter(const WireTensor& in, const std::vector<int64_t>& counts,
                              const WireTensor& out, ReduceOp op, Done done) {
  if (absl::Status s = CheckReduceScatter(options_, in, counts, out, op); !s.ok()) return done(s);
  Run([=, this] { collectives_.ReduceScatter(in, counts, out, op, done); }, done);
}

void GroupCore::Reduce(const WireTensor& x, int root, ReduceOp op, Done done) {
  absl::Status s = CheckRoot(options_, root, "reduce to");
  if (s.ok()) s = CheckReduce(x.type, op);
  if (!s.ok()) return done(s);
  Run([=, this] { collectives_.Reduce(x, root, op, done); }, done);
}

void GroupCore::Gather(const WireTensor& in, const std::vector<WireTensor>& out, int root,
                       Done done) {
  if (absl::Status s = CheckGather(options_, in, out, root); !s.ok()) return done(s);
  Run([=, this] { collectives_.Gather(in, out, root, done); }, done);
}

void GroupCore::Scatter(const std::vector<WireTensor>& in, const WireTensor& out, int root,
                        Done done) {
  if (absl::Status s = CheckScatter(options_, in, out, root); !s.ok()) return done(s);
  Run([=, this] { collectives_.Scatter(in, out, root, done); }, done);
}

void GroupCore::Barrier(Done done) {
  Run([=, this] { collectives_.Barrier(done); }, done);
}

void GroupCore::MonitoredBarrier(absl::Duration timeout, bool name_all, Done done) {
  if (timeout <= absl::ZeroDuration()) {
    return done(absl::InvalidArgumentError(
        fmt::format("monitoredbarrier: a timeout of {}", absl::FormatDuration(timeout))));
  }
  Run([=, this] { collectives_.MonitoredBarrier(timeout, name_all, done); }, done);
}

}  // namespace longhaul
