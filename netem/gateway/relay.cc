#include "netem/gateway/relay.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <slirp/libslirp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "netem/lab_control/lab_messages.h"
#include "netem/nodes/addressing.h"

namespace longhaul {
namespace {

constexpr size_t kFrameBytes = 14 + kGatewayMtu;
constexpr int kFramesPerTurn = 64;  // of one node, then the others get theirs
constexpr absl::Duration kMessagePatience = absl::Seconds(5);

in_addr Address(const char* text) {
  in_addr address{};
  inet_pton(AF_INET, text, &address);
  return address;
}

// libslirp's words for poll's.
constexpr std::pair<int, short> kEvents[] = {{SLIRP_POLL_IN, POLLIN},
                                             {SLIRP_POLL_OUT, POLLOUT},
                                             {SLIRP_POLL_PRI, POLLPRI},
                                             {SLIRP_POLL_ERR, POLLERR},
                                             {SLIRP_POLL_HUP, POLLHUP}};

// The network stack that stands behind one node's gw0.
class NodeStack {
 public:
  NodeStack(int node, Fd device) : node_(node), device_(std::move(device)), slirp_(New(this)) {}

  absl::Status Listen(const PortForward& forward) {
    if (slirp_add_hostfwd(slirp_.get(), /*is_udp=*/0, Address(forward.host_address.c_str()),
                          forward.host_port, in_addr{htonl(NodeAddressValue(node_))},
                          forward.node_port) == 0) {
      return absl::OkStatus();
    }
    const absl::Status s = ErrnoStatus(fmt::format("listen for {}", ToString(forward)), errno);
    return absl::Status(s.code(), fmt::format("{}; choose another port or address of the host's",
                                              std::string(s.message())));
  }

  // Adds to `all` what this one waits for; `timeout_ms`: no longer than that.
  void Watch(std::vector<pollfd>& all, uint32_t& timeout_ms) {
    device_at_ = all.size();
    all.push_back({device_.get(), POLLIN, 0});
    slirp_pollfds_fill(slirp_.get(), &timeout_ms, &NodeStack::Add, &all);
  }

  // After poll() over what Watch added. False: the device is gone.
  bool Serve(std::vector<pollfd>& all) {
    const bool there = all[device_at_].revents == 0 || ReadFrames();
    slirp_pollfds_poll(slirp_.get(), 0, &NodeStack::Ready, &all);  // last: it sends what waits
    return there;
  }

 private:
  struct Cleanup {
    void operator()(Slirp* slirp) const { slirp_cleanup(slirp); }
  };

  static Slirp* New(NodeStack* self) {
    SlirpConfig config{};
    config.version = 4;
    config.in_enabled = true;
    config.vnetwork = Address("198.18.0.0");
    config.vnetmask = Address("255.255.255.252");  // of kRelayNetwork
    config.vhost = Address(kHostAddress);
    config.vnameserver = Address(kNameServerAddress);
    config.if_mtu = config.if_mru = kGatewayMtu;
    config.disable_dhcp = true;
    return slirp_new(&config, &kCalls, self);
  }

  bool ReadFrames() {
    std::array<uint8_t, kFrameBytes> frame;
    for (int i = 0; i < kFramesPerTurn; ++i) {
      const ssize_t bytes = read(device_.get(), frame.data(), frame.size());
      if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (bytes <= 0) return false;
      slirp_input(slirp_.get(), frame.data(), static_cast<int>(bytes));
    }
    return true;
  }

  static ssize_t Send(const void* frame, size_t bytes, void* opaque) {
    return write(static_cast<NodeStack*>(opaque)->device_.get(), frame, bytes);
  }
  static int64_t Now(void*) { return absl::ToUnixNanos(MonotonicNow()); }
  static int Add(int fd, int events, void* opaque) {
    auto& all = *static_cast<std::vector<pollfd>*>(opaque);
    pollfd wanted{fd, 0, 0};
    for (const auto& [theirs, ours] : kEvents) {
      if ((events & theirs) != 0) wanted.events = static_cast<short>(wanted.events | ours);
    }
    all.push_back(wanted);
    return static_cast<int>(all.size() - 1);
  }
  static int Ready(int at, void* opaque) {
    const pollfd& one = (*static_cast<std::vector<pollfd>*>(opaque))[static_cast<size_t>(at)];
    int events = 0;
    for (const auto& [theirs, ours] : kEvents) {
      if ((one.revents & ours) != 0) events |= theirs;
    }
    return events;
  }

  static const SlirpCb kCalls;

  int node_;
  Fd device_;
  size_t device_at_ = 0;
  std::unique_ptr<Slirp, Cleanup> slirp_;
};

// No timers: they are for router advertisements of IPv6.
const SlirpCb NodeStack::kCalls = {
    .send_packet = &NodeStack::Send,
    .guest_error = [](const char*, void*) {},
    .clock_get_ns = &NodeStack::Now,
    .timer_new = [](SlirpTimerCb, void*, void*) -> void* { return nullptr; },
    .timer_free = [](void*, void*) {},
    .timer_mod = [](void*, int64_t, void*) {},
    .register_poll_fd = [](int, void*) {},
    .unregister_poll_fd = [](int, void*) {},
    .notify = [](void*) {},
    .init_completed = [](Slirp*, void*) {},
    .timer_new_opaque = nullptr,
};

class Relay {
 public:
  Relay(const GatewaySpec& spec, const Topology& topology, Fd lab)
      : spec_(spec), topology_(topology), lab_(std::move(lab)) {}

  // Until the lab's end of the socket is closed.
  void Serve() {
    for (;;) {
      std::vector<pollfd> all = {{lab_.get(), POLLIN, 0}};
      uint32_t timeout_ms = UINT32_MAX;
      for (const auto& stack : stacks_) stack->Watch(all, timeout_ms);
      const int wait_ms =
          timeout_ms == UINT32_MAX ? -1 : static_cast<int>(std::min(timeout_ms, 60'000u));
      if (poll(all.data(), all.size(), wait_ms) < 0) continue;
      std::erase_if(stacks_, [&](const auto& stack) { return !stack->Serve(all); });
      if (all[0].revents != 0 && !TakeNode()) return;
    }
  }

 private:
  // False: the lab has ended.
  bool TakeNode() {
    auto message = ReceiveLine(lab_, kMessagePatience);
    if (!message.ok() || message->fds.size() != 1) return false;
    const auto node = message->message.find("node");
    if (node == message->message.end() || !node->is_number_integer()) return false;
    const absl::Status added = AddNode(node->get<int>(), std::move(message->fds[0]));
    return SendLine(lab_, added.ok() ? nlohmann::json{{"ok", true}} : ErrorAnswer(added)).ok();
  }

  absl::Status AddNode(int node, Fd device) {
    auto stack = std::make_unique<NodeStack>(node, std::move(device));
    for (const PortForward& forward : spec_.forwards) {
      if (forward.node != topology_.nodes.at(static_cast<size_t>(node)).name) continue;
      RETURN_IF_ERROR(stack->Listen(forward));
    }
    stacks_.push_back(std::move(stack));
    return absl::OkStatus();
  }

  const GatewaySpec& spec_;
  const Topology& topology_;
  Fd lab_;
  std::vector<std::unique_ptr<NodeStack>> stacks_;
};

}  // namespace

absl::Status CheckRelay() { return absl::OkStatus(); }

int RunRelay(const GatewaySpec& spec, const Topology& topology, Fd lab) {
  signal(SIGPIPE, SIG_IGN);
  Relay(spec, topology, std::move(lab)).Serve();
  return 0;
}

}  // namespace longhaul
