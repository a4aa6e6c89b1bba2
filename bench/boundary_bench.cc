// How well encoding, the wire and decoding of one big boundary overlap, between two processes over
// a shaped link. Runs in every node of a lab of two:
//   longhaul net run regional -- boundary_bench [CODEC [MIB [ROUNDS [THREADS]]]]
// Per round, in turn: a bf16 tensor of MIB with CODEC, and as many raw bytes as its frame has. Both
// are timed from the sender's call to the receiver's completion; the processes share a clock.
// Prints medians and the ratio of the first to the largest of encode, wire and decode.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "compressors/kernels/convert.h"
#include "compressors/reference_tensors.h"
#include "plugin/core/group.h"

namespace longhaul {
namespace {

constexpr int kPort = 29517, kControlTag = 7, kWireTag = 8, kBoundaryTag = 9;
constexpr int64_t kWidth = 4096;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "boundary_bench: %s\n", what.c_str());
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

// The nodes' addresses, over one connection: node a listens, node b connects.
std::string Exchange(int rank, const std::string& own) {
  int fd = -1;
  if (rank == 0) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    const int one = 1;
    ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_port = htons(kPort);
    if (::bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof(any)) != 0) Fail("bind");
    ::listen(listener, 1);
    fd = ::accept(listener, nullptr, nullptr);
  }
  addrinfo hints = {}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  for (int tries = 0; fd < 0; ++tries) {
    if (::getaddrinfo("a", std::to_string(kPort).c_str(), &hints, &found) != 0) {
      Fail("there is no node 'a': run it in a lab of two nodes, a and b");
    }
    fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(fd, found->ai_addr, found->ai_addrlen) == 0) break;
    ::close(fd);
    fd = -1;
    if (tries == 200) Fail("node a does not answer");
    absl::SleepFor(absl::Milliseconds(50));
  }
  const auto size = static_cast<uint32_t>(own.size());
  uint32_t other_size = 0;
  if (::send(fd, &size, sizeof(size), 0) != sizeof(size) ||
      ::send(fd, own.data(), own.size(), 0) != static_cast<ssize_t>(own.size()) ||
      ::recv(fd, &other_size, sizeof(other_size), MSG_WAITALL) != sizeof(other_size)) {
    Fail("exchange of addresses");
  }
  std::string other(other_size, '\0');
  if (::recv(fd, other.data(), other.size(), MSG_WAITALL) != static_cast<ssize_t>(other_size)) {
    Fail("exchange of addresses");
  }
  ::close(fd);
  return other;
}

int64_t NowNs() { return absl::ToInt64Nanoseconds(MonotonicClock().Now()); }

class Side {
 public:
  Side(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  void Send(const WireTensor& x, int tag) {
    std::promise<absl::Status> done;
    group_->Send(x, 1 - rank_, tag, [&](absl::Status s) { done.set_value(std::move(s)); });
    Check(done.get_future().get());
  }
  // Answers when it was complete.
  int64_t Recv(const WireTensor& x, int tag, const std::function<void()>& posted = {}) {
    std::promise<std::pair<absl::Status, int64_t>> done;
    group_->Recv(x, 1 - rank_, tag, [&](absl::Status s) {
      done.set_value({std::move(s), NowNs()});
    });
    if (posted) posted();
    const auto [status, at] = done.get_future().get();
    Check(status);
    return at;
  }
  void Say(int64_t value) { Send(Number(value), kControlTag); }
  int64_t Hear() {
    int64_t value = 0;
    Recv(Number(value), kControlTag);
    return value;
  }
  // Seconds that one transfer takes, at rank 1; 0 at rank 0.
  double Move(const WireTensor& x, int tag) {
    if (rank_ == 0) {
      Hear();
      const int64_t start = NowNs();
      Send(x, tag);
      Say(start);
      return 0;
    }
    const int64_t end = Recv(x, tag, [this] { Say(0); });
    return static_cast<double>(end - Hear()) * 1e-9;
  }
  CrossingCounters Row(bool sent) const {
    for (const CrossingCounters& row : TotalsByPeer(group_->counters())) {
      if (row.sent == sent) return row;
    }
    Fail("no counters");
  }

 private:
  static WireTensor Number(int64_t& value) { return {&value, ElementType::kI64, {1}}; }

  const std::shared_ptr<Group> group_;
  const int rank_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Run(const std::string& codec, int64_t mib, int rounds, int threads) {
  char host[64] = {};
  ::gethostname(host, sizeof(host) - 1);
  const int rank = std::string_view(host) == "a" ? 0 : 1;
  NodeOptions options{.transport = TransportKind::kUcx};
  if (threads >= 0) options.coder_threads = threads;
  const auto node = Node::Create(options);
  Check(node.status());
  std::vector<std::string> addresses(2, (*node)->address());
  addresses[static_cast<size_t>(1 - rank)] = Exchange(rank, (*node)->address());
  GroupOptions group_options{.name = "boundary", .rank = rank, .size = 2};
  group_options.codecs.by_tag[kBoundaryTag] = codec;
  const auto group = Group::Create(*node, group_options, addresses);
  Check(group.status());
  Side side(*group, rank);

  const auto elements = static_cast<size_t>(mib << 20) / 2;
  std::vector<std::byte> tensor(elements * 2);
  const std::vector<float> values = DrawReference(Distribution::kGaussian, 1 << 16, 1);
  for (size_t i = 0; i < elements; ++i) {
    StoreElement(values[i % values.size()], tensor.data(), DType::kBF16, i);
  }
  const WireTensor x{
      tensor.data(), ElementType::kBF16, {static_cast<int64_t>(elements) / kWidth, kWidth}};
  side.Move(x, kBoundaryTag);  // opens the connection's window; tells the frame's length
  const int64_t frame_bytes = (side.Row(rank == 0).payload_bytes - 2 * 8);
  std::vector<std::byte> raw(static_cast<size_t>(frame_bytes));
  const WireTensor bytes{raw.data(), ElementType::kU8, {frame_bytes}};
  side.Move(bytes, kWireTag);
  std::vector<double> boundary, wire, encode, decode;
  for (int i = 0; i < rounds; ++i) {
    const absl::Duration encode_before = side.Row(true).encode;
    const absl::Duration decode_before = side.Row(false).decode;
    boundary.push_back(side.Move(x, kBoundaryTag));
    if (rank == 0) side.Say(absl::ToInt64Nanoseconds(side.Row(true).encode - encode_before));
    if (rank == 1) encode.push_back(static_cast<double>(side.Hear()) * 1e-9);
    decode.push_back(absl::ToDoubleSeconds(side.Row(false).decode - decode_before));
    wire.push_back(side.Move(bytes, kWireTag));
  }
  if (rank == 0) return;
  const double parts[] = {Median(encode), Median(wire), Median(decode)};
  const double most = *std::max_element(std::begin(parts), std::end(parts));
  std::printf(
      "%s, %ld MiB bf16, frame %.2f MiB, %d rounds, over %s\n"
      "encode %.1f ms  wire %.1f ms  decode %.1f ms  sum %.1f ms\n"
      "boundary %.1f ms = %.3f x the largest (best %.1f / %.1f ms)\n",
      codec.c_str(), static_cast<long>(mib), static_cast<double>(frame_bytes) / (1 << 20), rounds,
      (*node)->description().c_str(), parts[0] * 1e3, parts[1] * 1e3, parts[2] * 1e3,
      (parts[0] + parts[1] + parts[2]) * 1e3, Median(boundary) * 1e3, Median(boundary) / most,
      *std::min_element(boundary.begin(), boundary.end()) * 1e3,
      *std::min_element(wire.begin(), wire.end()) * 1e3);
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  longhaul::Run(argc > 1 ? argv[1] : "int4-b64-h64", number(2, 16), number(3, 15), number(4, -1));
}
