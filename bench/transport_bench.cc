// One-way bandwidth and half round trips of both transports between two ranks of this process,
// beside memcpy and plain TCP sockets over lo in the same run:
//   of_memcpy  share of this run's memcpy bandwidth at that size
//   of_tcp     share of what two plain sockets carry at that size, or times their half round trip
// Only ratios of one run mean anything; absolute figures change with the machine and its
// neighbours.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "plugin/core/group.h"

namespace longhaul {
namespace {

constexpr int64_t kSmall = 4, kChunk = 64 << 10, kBulk = 64 << 20;

// Best bytes per second, or shortest seconds, of the references, by size.
std::map<int64_t, double> memcpy_rate, tcp_rate;
double tcp_half_round_trip = 0;

double Rate(const benchmark::State& state, int64_t bytes, double seconds) {
  return static_cast<double>(state.iterations()) * static_cast<double>(bytes) / seconds;
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void Memcpy(benchmark::State& state) {
  std::vector<std::byte> from(static_cast<size_t>(state.range(0)), std::byte{1}), to(from.size());
  const Stopwatch watch;
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  memcpy_rate[state.range(0)] = Rate(state, state.range(0), watch.seconds());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Memcpy)->Arg(kChunk)->Arg(kBulk)->UseRealTime();

// Two connected TCP sockets over lo.
class Sockets {
 public:
  Sockets() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener, any, size) != 0 || ::listen(listener, 1) != 0) std::abort();
    ::getsockname(listener, any, &size);
    near = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(near, any, size) != 0) std::abort();
    far = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    const int one = 1;
    for (const int fd : {near, far}) {
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
  }
  ~Sockets() {
    ::close(near);
    ::close(far);
  }
  static bool Write(int fd, const std::vector<std::byte>& bytes) {
    return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  static bool Read(int fd, std::vector<std::byte>& bytes) {
    return ::recv(fd, bytes.data(), bytes.size(), MSG_WAITALL) ==
           static_cast<ssize_t>(bytes.size());
  }
  int near = -1, far = -1;
};

// The far end answers every message of `bytes` with one of four, as the near end does in Ucx*.
void TcpSockets(benchmark::State& state) {
  Sockets sockets;
  std::vector<std::byte> out(static_cast<size_t>(state.range(0))), in(out.size()), reply(kSmall);
  std::thread far([&] {
    std::vector<std::byte> answer(kSmall);
    while (Sockets::Read(sockets.far, in) && Sockets::Write(sockets.far, answer)) {
    }
  });
  const Stopwatch watch;
  for (auto _ : state) {
    if (!Sockets::Write(sockets.near, out) || !Sockets::Read(sockets.near, reply)) std::abort();
  }
  const double seconds = watch.seconds();
  ::shutdown(sockets.near, SHUT_RDWR);
  far.join();
  tcp_rate[state.range(0)] = Rate(state, state.range(0), seconds);
  if (state.range(0) == kSmall) {
    tcp_half_round_trip = seconds / static_cast<double>(state.iterations()) / 2;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(TcpSockets)->Arg(kSmall)->Arg(kChunk)->Arg(kBulk)->UseRealTime();

class Pair {
 public:
  explicit Pair(TransportKind kind) {
    std::vector<std::shared_ptr<Node>> nodes;
    std::vector<std::string> addresses;
    for (int rank = 0; rank < 2; ++rank) {
      NodeOptions options{.transport = kind};
      if (kind == TransportKind::kUcx) options.interface = "lo";
      nodes.push_back(Node::Create(options).value());
      addresses.push_back(nodes.back()->address());
    }
    for (int rank = 0; rank < 2; ++rank) {
      groups.push_back(Group::Create(nodes[static_cast<size_t>(rank)],
                                     GroupOptions{.name = "bench", .rank = rank, .size = 2},
                                     addresses)
                           .value());
    }
  }
  // Returns when the values are in place at the other rank.
  void Move(std::vector<std::byte>& from, std::vector<std::byte>& to, int src) {
    const auto tensor = [](std::vector<std::byte>& bytes) {
      return WireTensor{bytes.data(), ElementType::kU8, {static_cast<int64_t>(bytes.size())}};
    };
    const auto arrived = [this](absl::Status status) {
      if (!status.ok()) std::abort();
      done_.release();
    };
    const auto sent = [](absl::Status) {};
    groups[static_cast<size_t>(1 - src)]->Recv(tensor(to), src, 0, arrived);
    groups[static_cast<size_t>(src)]->Send(tensor(from), 1 - src, 0, sent);
    done_.acquire();
  }
  std::vector<std::shared_ptr<Group>> groups;

 private:
  std::counting_semaphore<> done_{0};
};

void Run(benchmark::State& state, TransportKind kind) {
  Pair pair(kind);
  std::vector<std::byte> out(static_cast<size_t>(state.range(0)), std::byte{1}), in(out.size());
  std::vector<std::byte> reply(kSmall), answer(kSmall);
  pair.Move(out, in, 0);
  const Stopwatch watch;
  for (auto _ : state) {
    pair.Move(out, in, 0);
    pair.Move(answer, reply, 1);
  }
  const double seconds = watch.seconds();
  const double rate = Rate(state, state.range(0), seconds);
  if (state.range(0) == kSmall) {
    const double half = seconds / static_cast<double>(state.iterations()) / 2;
    state.counters["half_round_trip_us"] = half * 1e6;
    state.counters["of_tcp"] = half / tcp_half_round_trip;
  } else {
    state.counters["of_memcpy"] = rate / memcpy_rate[state.range(0)];
    state.counters["of_tcp"] = rate / tcp_rate[state.range(0)];
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void Loopback(benchmark::State& state) { Run(state, TransportKind::kLoopback); }
void UcxOverLo(benchmark::State& state) { Run(state, TransportKind::kUcx); }
BENCHMARK(Loopback)->Arg(kSmall)->Arg(kChunk)->Arg(kBulk)->UseRealTime();
BENCHMARK(UcxOverLo)->Arg(kSmall)->Arg(kChunk)->Arg(kBulk)->UseRealTime();

}  // namespace
}  // namespace longhaul

BENCHMARK_MAIN();
