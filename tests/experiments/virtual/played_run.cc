#include "tests/experiments/virtual/played_run.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "experiments/spec/plans_of_spec.h"
#include "experiments/train/model_of_spec.h"
#include "experiments/train/traffic.h"
#include "netem/kernel/netns.h"
#include "plugin/core/packet.h"

namespace longhaul {
namespace {

enum class Kind : int32_t { kActivation, kGradient, kExchange, kNorms };
// What a message is, in its first bytes. kExchange: `of` is the stage, `at` the step that began it.
struct Tag {
  Kind kind;
  int32_t from, of, at, step;
  int64_t bytes;  // of the whole message
  friend bool operator<(const Tag& a, const Tag& b) {
    return std::tie(a.kind, a.from, a.of, a.at, a.step) <
           std::tie(b.kind, b.from, b.of, b.at, b.step);
  }
};
constexpr int64_t kNormBytes = kPacketHeaderBytes + 8;
static_assert(sizeof(Tag) <= kPacketHeaderBytes);

// What has arrived at a rank.
class Inbox {
 public:
  void Put(const Tag& tag) {
    const std::lock_guard lock(mutex_);
    ++there_[tag];
    changed_.notify_all();
  }
  void Take(const Tag& tag) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return there_[tag] > 0; });
    --there_[tag];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Tag, int> there_;
};

// A connection from one rank to another, with a thread at either end.
class Way {
 public:
  Way(Fd sender, Fd receiver, Inbox* inbox)
      : sender_(std::move(sender)), receiver_(std::move(receiver)), inbox_(inbox) {
    sending_ = std::thread([this] { SendAll(); });
    receiving_ = std::thread([this] { ReceiveAll(); });
  }
  ~Way() {
    Post(std::nullopt);
    sending_.join();
    receiving_.join();
  }
  // Returns at once; messages go one behind the other.
  void Post(std::optional<Tag> tag) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(tag);
    changed_.notify_all();
  }
  // Until the socket has taken all that was posted.
  void WaitUntilLeft() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.empty(); });
  }

 private:
  void SendAll() {
    std::vector<char> bytes(1 << 16);
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !waiting_.empty(); });
      const std::optional<Tag> tag = waiting_.front();
      lock.unlock();
      if (!tag) break;
      // With what follows: a segment of its own would be less than a full one.
      std::memcpy(bytes.data(), &*tag, sizeof *tag);
      for (int64_t left = tag->bytes; left > 0;) {
        const auto part = std::min<int64_t>(left, static_cast<int64_t>(bytes.size()));
        Send(bytes.data(), static_cast<size_t>(part));
        left -= part;
      }
      lock.lock();
      waiting_.pop_front();
      changed_.notify_all();
    }
    shutdown(sender_.get(), SHUT_WR);
  }
  void Send(const void* bytes, size_t count) {
    const auto* at = static_cast<const char*>(bytes);
    while (count > 0) {
      const ssize_t n = send(sender_.get(), at, count, MSG_NOSIGNAL);
      if (n <= 0) return;  // the other end is gone, and what it waits for never comes
      at += n;
      count -= static_cast<size_t>(n);
    }
  }
  void ReceiveAll() {
    std::vector<char> nowhere(1 << 20);
    Tag tag;
    while (recv(receiver_.get(), &tag, sizeof tag, MSG_WAITALL) == sizeof tag) {
      int64_t left = tag.bytes - static_cast<int64_t>(sizeof tag);
      while (left > 0) {
        const auto part = std::min<int64_t>(left, static_cast<int64_t>(nowhere.size()));
        const ssize_t n = recv(receiver_.get(), nowhere.data(), static_cast<size_t>(part),
                               MSG_TRUNC | MSG_WAITALL);
        if (n <= 0) return;
        left -= n;
      }
      inbox_->Put(tag);
    }
  }

  const Fd sender_, receiver_;
  Inbox* const inbox_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::optional<Tag>> waiting_;  // nullopt: no more comes
  std::thread sending_, receiving_;
};

absl::StatusOr<std::unique_ptr<Way>> Connect(const Emulator& emulator, int from, int to,
                                             Inbox* inbox) {
  const auto failed = [&](std::string_view what) {
    return ErrnoStatus(fmt::format("played run: {} from rank {} to rank {}", what, from, to),
                       errno);
  };
  auto listener = OpenSocketIn(emulator.node_netns_fd(to), AF_INET, SOCK_STREAM, 0);
  if (!listener.ok()) return listener.status();
  auto sender = OpenSocketIn(emulator.node_netns_fd(from), AF_INET, SOCK_STREAM, 0);
  if (!sender.ok()) return sender.status();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = inet_addr(NodeAddress(to).c_str());
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener->get(), generic, size) != 0 || listen(listener->get(), 1) != 0 ||
      getsockname(listener->get(), generic, &size) != 0) {
    return failed("listen");
  }
  if (connect(sender->get(), generic, size) != 0) return failed("connect");
  Fd receiver(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!receiver.ok()) return failed("accept");
  const int on = 1;
  setsockopt(sender->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return std::make_unique<Way>(*std::move(sender), std::move(receiver), inbox);
}

struct Played {
  explicit Played(const RunSpec& s) : spec(s), plan(OuterPlanOf(s)) {}

  absl::Status Prepare(const Emulator& emulator);
  absl::Status ConnectAll(const Emulator& emulator);
  void RunRank(int rank, absl::Time start);

  const RunSpec& spec;
  const OuterPlan plan;
  PipelineProgram program;
  int ranks = 0, groups = 0;  // P, G
  std::vector<PipelineCosts::Stage> seconds;
  std::map<std::tuple<bool, int64_t, int64_t>, int64_t> message_bytes;  // activations?, from, to
  std::map<std::pair<int64_t, int>, int64_t> exchange_bytes;            // fragment, stage
  std::vector<std::unique_ptr<Inbox>> inboxes;
  std::map<std::pair<int, int>, std::unique_ptr<Way>> ways;
  std::vector<std::vector<double>> ended_s;

 private:
  void Act(int rank, int step, const Action& action, double speed);
  void SendTo(const OuterExchange& exchange, int rank);
  void ReceiveFrom(const OuterExchange& exchange, int rank, int step);
};

absl::Status Played::Prepare(const Emulator& emulator) {
  auto found = PipelineOf(spec);
  if (!found.ok()) return found.status();
  program = *std::move(found);
  ranks = program.num_ranks();
  groups = static_cast<int>(spec.outer.groups);
  seconds = StageSeconds(spec);
  const auto crossings = PlanCrossings(spec);
  if (!crossings.ok()) return crossings.status();
  for (const PlannedCrossing& c : *crossings) {
    const auto bytes = static_cast<int64_t>(std::llround(MessageBytes(c).value_or(0)));
    if (c.direction == Direction::kTied) {
      return absl::UnimplementedError("played run: a tied head's messages are not played");
    }
    if (c.direction == Direction::kOuter) {
      exchange_bytes[{c.fragment, static_cast<int>(c.stage)}] = bytes;
    } else {
      message_bytes[{c.direction == Direction::kForward, c.src_rank, c.dst_rank}] = bytes;
    }
  }
  ended_s.resize(groups * ranks);
  return ConnectAll(emulator);
}

// All at once, so that no connection is a round trip older than another.
absl::Status Played::ConnectAll(const Emulator& emulator) {
  const int workers = groups * ranks;
  for (int i = 0; i < workers; ++i) inboxes.push_back(std::make_unique<Inbox>());
  std::map<std::pair<int, int>, absl::StatusOr<std::unique_ptr<Way>>> made;
  std::vector<std::thread> threads;
  for (int from = 0; from < workers; ++from) {
    for (int to = 0; to < workers; ++to) {
      if (from == to || (from / ranks != to / ranks && from % ranks != to % ranks)) continue;
      auto& way = made[{from, to}];
      threads.emplace_back([this, &emulator, &way, from, to] {
        way = Connect(emulator, from, to, inboxes[to].get());
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& [ends, way] : made) {
    if (!way.ok()) return way.status();
    ways[ends] = *std::move(way);
  }
  return absl::OkStatus();
}

void Played::Act(int rank, int step, const Action& action, double speed) {
  const int first = rank / ranks * ranks;
  const auto tag_of = [&](const Message& m) {
    return Tag{m.kind == MessageKind::kActivation ? Kind::kActivation : Kind::kGradient,
               first + program.rank_of_stage[m.from_stage],
               m.to_stage,
               m.microbatch,
               step,
               0};
  };
  if (const auto input = InputOf(action, program.num_stages())) {
    const Tag tag = tag_of(*input);
    if (tag.from != rank) inboxes[rank]->Take(tag);
  }
  absl::SleepFor(absl::Seconds(seconds[action.stage].Of(action.op) / speed));
  if (const auto output = OutputOf(action, program.num_stages())) {
    Tag tag = tag_of(*output);
    const int to = first + program.rank_of_stage[output->to_stage];
    if (to == rank) return;
    tag.bytes = message_bytes.at({output->kind == MessageKind::kActivation, rank, to});
    ways.at({rank, to})->Post(tag);
  }
}

void Played::SendTo(const OuterExchange& e, int rank) {
  const int group = rank / ranks;
  for (const int stage : program.StagesOf(rank % ranks)) {
    const auto planned = exchange_bytes.find({e.fragment, stage});
    if (planned == exchange_bytes.end()) continue;
    for (const int other : plan.MembersOf(e, group)) {
      if (other == group) continue;
      ways.at({rank, other * ranks + rank % ranks})
          ->Post(Tag{Kind::kExchange, rank, stage, static_cast<int32_t>(e.begun),
                     static_cast<int32_t>(e.fragment), planned->second});
    }
  }
}

void Played::ReceiveFrom(const OuterExchange& e, int rank, int step) {
  const int group = rank / ranks;
  for (const int other : plan.MembersOf(e, group)) {
    if (other == group) continue;
    const int peer = other * ranks + rank % ranks;
    for (const int stage : program.StagesOf(rank % ranks)) {
      if (!exchange_bytes.contains({e.fragment, stage})) continue;
      inboxes[rank]->Take(Tag{Kind::kExchange, peer, stage, static_cast<int32_t>(e.begun),
                              static_cast<int32_t>(e.fragment), 0});
    }
    ways.at({rank, peer})->WaitUntilLeft();
  }
  if (plan.gradients()) return;
  const auto norms_of = [&](int from) {
    return Tag{
        Kind::kNorms, from,      static_cast<int32_t>(e.fragment), static_cast<int32_t>(e.begun),
        step,         kNormBytes};
  };
  for (int other = group * ranks; other < (group + 1) * ranks; ++other) {
    if (other != rank) ways.at({rank, other})->Post(norms_of(rank));
  }
  for (int other = group * ranks; other < (group + 1) * ranks; ++other) {
    if (other != rank) inboxes[rank]->Take(norms_of(other));
  }
}

void Played::RunRank(int rank, absl::Time start) {
  const RunSpec::Compute& machine = *spec.compute;
  const auto group = static_cast<size_t>(rank / ranks);
  const double speed = machine.group_speed.empty() ? 1 : machine.group_speed[group];
  const double update_s =
      machine.optimizer_s / speed * static_cast<double>(program.StagesOf(rank % ranks).size());
  const bool meets = groups > 1 && plan.meets();
  absl::SleepFor(start - MonotonicNow());
  for (int step = 1; step <= plan.steps(); ++step) {
    for (const Action& action : program.ranks[rank % ranks]) Act(rank, step, action, speed);
    if (meets && plan.gradients()) {
      const OuterExchange gradients{.begun = step, .applied = step, .fragment = 0};
      SendTo(gradients, rank);
      ReceiveFrom(gradients, rank, step);
    }
    absl::SleepFor(absl::Seconds(update_s));
    if (meets && plan.exchanges()) {
      for (const OuterExchange& e : plan.AppliedAfter(step)) {
        if (e.begun < step) ReceiveFrom(e, rank, step);
      }
      for (const OuterExchange& e : plan.BegunAfter(step)) {
        SendTo(e, rank);
        if (e.applied == step) ReceiveFrom(e, rank, step);
      }
    }
    ended_s[rank].push_back(absl::ToDoubleSeconds(MonotonicNow() - start));
  }
}

}  // namespace

absl::StatusOr<std::vector<std::vector<double>>> PlayRun(const RunSpec& spec,
                                                         const Emulator& emulator) {
  // The kernel may end a sleep 50 us late to save wake-ups, unless a thread asks it not to.
  prctl(PR_SET_TIMERSLACK, 1);
  Played played(spec);
  if (absl::Status s = played.Prepare(emulator); !s.ok()) return s;
  const absl::Time start = MonotonicNow() + absl::Milliseconds(10);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < played.groups * played.ranks; ++rank) {
    threads.emplace_back([&played, rank, start] { played.RunRank(rank, start); });
  }
  for (std::thread& thread : threads) thread.join();
  return std::move(played.ended_s);
}

}  // namespace longhaul
