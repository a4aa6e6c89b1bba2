#include "netem/emulators/tap_loop.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "netem/emulators/frame.h"
#include "netem/kernel/scheduling.h"
#include "netem/nodes/addressing.h"

namespace longhaul {
namespace {

constexpr int kReadsPerPort = 64;  // then the other ports get their turn
constexpr uint64_t kWakeToken = ~uint64_t{0};
constexpr uint64_t kTimerToken = kWakeToken - 1;

int64_t NowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

size_t HeadBytes(int mtu) {
  const size_t frame = kVnetHeaderBytes + kEthernetHeaderBytes + static_cast<size_t>(mtu);
  return (std::max(frame, kParsedBytes) + 63) / 64 * 64;
}

}  // namespace

TapLoop::TapLoop(std::vector<Fd> taps, std::vector<std::string> names, TapNetwork network, int mtu)
    : taps_(std::move(taps)),
      names_(std::move(names)),
      network_(std::move(network)),
      pool_(HeadBytes(mtu)) {}

absl::StatusOr<std::unique_ptr<TapLoop>> TapLoop::Start(std::vector<Fd> taps,
                                                        std::vector<std::string> names,
                                                        TapNetwork network, int mtu) {
  std::unique_ptr<TapLoop> loop(
      new TapLoop(std::move(taps), std::move(names), std::move(network), mtu));
  loop->epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  loop->wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->epoll_.ok() || !loop->wake_.ok()) return ErrnoStatus("tap: epoll, eventfd", errno);
  const auto watch = [&](int fd, uint64_t token) {
    epoll_event event{EPOLLIN, {.u64 = token}};
    return epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  };
  bool watched = watch(loop->wake_.get(), kWakeToken);
  for (size_t i = 0; i < loop->taps_.size(); ++i) {
    watched = watched && watch(loop->taps_[i].get(), i);
  }
  if (!watched) return ErrnoStatus("tap: watch a device with epoll", errno);
  RETURN_IF_ERROR(loop->timers_.Open(loop->epoll_.get(), kTimerToken));
  loop->thread_ = ThreadWithoutSignals([raw = loop.get()] { raw->Main(); });
  std::unique_lock lock(loop->mu_);
  loop->changed_.wait(lock, [&] { return loop->started_; });
  return loop;
}

TapLoop::~TapLoop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mu_);
    stop_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

absl::Status TapLoop::Call(const std::function<void(TapNetwork&)>& work) {
  std::unique_lock lock(mu_);
  PostedCall mine{work};
  calls_.push_back(&mine);
  eventfd_write(wake_.get(), 1);
  if (changed_.wait_for(lock, absl::ToChronoNanoseconds(kAnswerDeadline),
                        [&] { return mine.done; })) {
    return absl::OkStatus();
  }
  std::erase(calls_, &mine);
  return absl::DeadlineExceededError(fmt::format(
      "tap: the emulator's thread has not answered for {}", absl::FormatDuration(kAnswerDeadline)));
}

Lateness TapLoop::lateness() {
  Lateness copy;
  const absl::Status asked = Call([&](TapNetwork&) {
    copy = lateness_;
    copy.lead = absl::Nanoseconds(lead_.ns());
  });
  return asked.ok() ? copy : Lateness{};
}

absl::Duration TapLoop::cpu_time() {
  timespec used{};
  const absl::Status asked =
      Call([&](TapNetwork&) { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used); });
  return asked.ok() ? absl::DurationFromTimespec(used) : absl::ZeroDuration();
}

absl::Status TapLoop::health() {
  absl::Status copy;
  const absl::Status asked = Call([&](TapNetwork&) { copy = health_; });
  return asked.ok() ? copy : asked;
}

void TapLoop::MakeRealTime() {
  prctl(PR_SET_TIMERSLACK, 1);
  pthread_setname_np(pthread_self(), "longhaul-tap");
  scheduling_ = EnterRealTime(RealTime::kEmulator);
}

void TapLoop::Main() {
  MakeRealTime();
  {
    std::lock_guard lock(mu_);
    started_ = true;
  }
  changed_.notify_all();
  Serve();
}

// False: something is due, so there is no sleep. A frame that falls due between the two times is
// taken along with the first, or sets its own later.
bool TapLoop::SetTimers(int64_t now_ns) {
  const auto due_ns = network_.next_due_ns();
  if (!due_ns) return true;
  if (*due_ns - lead_.ns() <= now_ns) return false;
  auto second_ns = network_.next_due_after(*due_ns + lead_.ns());
  if (second_ns) *second_ns -= lead_.ns();
  const auto set = timers_.Set(*due_ns - lead_.ns(), second_ns, lead_.ns() / 4);
  if (!set.ok() && health_.ok()) health_ = set;
  return true;
}

void TapLoop::Serve() {
  std::array<epoll_event, 64> events;
  for (;;) {
    DeliverDue(NowNs());
    const int64_t asleep_ns = NowNs();
    const bool sleeps = SetTimers(asleep_ns);
    const int ready =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), sleeps ? -1 : 0);
    const int64_t awake_ns = NowNs();
    const auto passed_ns = timers_.Passed(awake_ns);
    unseen_ns_ = std::min(awake_ns - asleep_ns, lead_.ns());
    bool by_timer = true;
    for (int i = 0; i < ready; ++i) {
      const uint64_t token = events[i].data.u64;
      if (token == kTimerToken) continue;
      by_timer = false;
      if (token != kWakeToken) {
        ReadPort(static_cast<int>(token));
        continue;
      }
      eventfd_t count;
      eventfd_read(wake_.get(), &count);
      RunCalls();
      std::lock_guard lock(mu_);
      if (stop_) return;
    }
    if (by_timer && passed_ns && *passed_ns > asleep_ns) lead_.Woke(awake_ns - *passed_ns);
  }
}

void TapLoop::RunCalls() {
  std::lock_guard lock(mu_);
  for (PostedCall* call : calls_) {
    call->work(network_);
    call->done = true;
  }
  calls_.clear();
  changed_.notify_all();
}

void TapLoop::ReadPort(int port) {
  for (int i = 0; i < kReadsPerPort && ReadFrame(port); ++i) {
    const auto due_ns = network_.next_due_ns();
    const int64_t now_ns = NowNs();
    if (due_ns && *due_ns <= now_ns + lead_.ns()) DeliverDue(now_ns);
  }
}

bool TapLoop::ReadFrame(int port) {
  if (spare_tail_ == nullptr) spare_tail_ = pool_.TakeTail();
  const uint32_t handle = pool_.Take();
  FramePool::Frame& frame = pool_[handle];
  const iovec parts[] = {{frame.head.get(), pool_.head_bytes()},
                         {spare_tail_.get(), FramePool::kTailBytes}};
  const ssize_t bytes = readv(taps_[port].get(), parts, 2);
  if (bytes <= 0) {
    pool_.Give(handle);
    if (bytes < 0 && errno != EAGAIN && errno != EINTR) DropPort(port, "read", errno);
    return false;
  }
  frame.bytes = static_cast<size_t>(bytes);
  if (frame.bytes > pool_.head_bytes()) frame.tail = std::move(spare_tail_);
  const size_t head_bytes = std::min(frame.bytes, pool_.head_bytes());
  const auto facts = ParseFrame({frame.head.get(), head_bytes}, frame.bytes);
  if (!facts || facts->source != NodeAddressValue(port)) {
    network_.CountUnroutable();
    pool_.Give(handle);
    return true;
  }
  const int to = NodeOfAddress(facts->destination);
  Admit(handle,
        {port,
         to,
         NowNs() - unseen_ns_,
         facts->wire_bytes,
         facts->segments,
         {facts->flow, facts->ecn_capable}},
        false);
  return true;
}

void TapLoop::Admit(uint32_t handle, const Coming& coming, bool copy) {
  // The copy is made before the frame is corrupted, and may go when the frame is lost.
  const auto device_bytes = static_cast<int64_t>(pool_[handle].bytes - kVnetHeaderBytes);
  const TapNetwork::Arrival arrival =
      network_.Arrive(coming.arrived_ns, coming.port, coming.to, handle, coming.wire_bytes,
                      coming.segments, device_bytes, copy, coming.flow);
  if (arrival.duplicated && pool_[handle].tail == nullptr) {
    const uint32_t again = pool_.Take();
    pool_[again].bytes = pool_[handle].bytes;
    std::memcpy(pool_[again].head.get(), pool_[handle].head.get(), pool_[handle].bytes);
    Admit(again, coming, true);
  }
  if (!arrival.taken) {
    pool_.Give(handle);
  } else if (arrival.flip && pool_[handle].tail == nullptr) {
    FlipBit({pool_[handle].head.get(), pool_[handle].bytes}, *arrival.flip);
  }
}

// A frame that is due within the lead leaves now: after a sleep it would be late.
void TapLoop::DeliverDue(int64_t now_ns) {
  while (const auto output = network_.Next(now_ns + lead_.ns())) {
    if (output->delivered) {
      lateness_.Delivered(absl::Nanoseconds(now_ns - output->due_ns));
      WriteFrame(*output);
      now_ns = NowNs();
    }
    pool_.Give(output->handle);
  }
}

void TapLoop::WriteFrame(const TapNetwork::Output& output) {
  FramePool::Frame& frame = pool_[output.handle];
  const size_t head_bytes = std::min(frame.bytes, pool_.head_bytes());
  RewriteMacs({frame.head.get(), head_bytes}, MacOf(MacKind::kNode, output.to),
              MacOf(MacKind::kLan, output.to));
  if (output.congested) MarkCongestion({frame.head.get(), head_bytes});
  const iovec parts[] = {{frame.head.get(), head_bytes},
                         {frame.tail.get(), frame.bytes - head_bytes}};
  const ssize_t written = writev(taps_[output.to].get(), parts, frame.tail == nullptr ? 1 : 2);
  // EIO: the device is down, as a cable that is pulled; EINVAL: a frame the kernel finds odd.
  const bool lost_frame_only = errno == EIO || errno == EINVAL || errno == EAGAIN;
  if (written < 0 && !lost_frame_only) DropPort(output.to, "write", errno);
}

void TapLoop::DropPort(int port, std::string what, int error) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, taps_[port].get(), nullptr);
  if (!health_.ok()) return;
  health_ = absl::UnavailableError(fmt::format("tap: {} on the device of node {}: {}{}", what,
                                               names_[port], strerror(error),
                                               error == EBADFD ? " (the device was deleted)" : ""));
}

}  // namespace longhaul
