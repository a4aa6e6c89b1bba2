// `net up --gateway`: out to the host and in by a forwarded port, and nothing else changed or left.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include <nlohmann/json.hpp>

#include "netem/gateway/relay.h"
#include "netem/kernel/posix.h"
#include "tests/netem/net_fixture.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A service of the host, on its own 127.0.0.1: says who it is and hangs up.
class HostService {
 public:
  HostService() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_.get(), 8), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      for (;;) {
        const Fd caller(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!caller.ok()) return;
        if (send(caller.get(), "the host\n", 9, MSG_NOSIGNAL) == 9) ++answered_;
      }
    });
  }
  ~HostService() {
    shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::string port() const { return std::to_string(port_); }
  int answered() const { return answered_; }

 private:
  Fd socket_;
  int port_ = 0;
  std::atomic<int> answered_ = 0;
  std::thread thread_;
};

// A port of the host's 127.0.0.1 that nobody has just now.
std::string FreePort() {
  const HostService service;
  return service.port();
}

class NetGateway : public NetFixture {
 protected:
  void SetUp() override {
    if (auto s = CheckRelay(); !s.ok()) GTEST_SKIP() << s;
    NetFixture::SetUp();
    if (IsSkipped() || HasFailure()) return;
    before_ = HostFacts();
  }
  void TearDown() override {
    NetFixture::TearDown();
    if (made_) {
      EXPECT_EQ(HostFacts(), before_);
    }
  }
  // What a lab must leave as it was: devices, routes, forwarding; and our own processes.
  std::string HostFacts() const {
    return RunShell(
               "ip -o link | cut -d: -f1,2; ip route; ip -6 route; cat "
               "/proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding "
               "/proc/sys/net/ipv4/conf/all/route_localnet; " +
               Processes() + " | wc -l")
        .text;
  }
  // The brackets keep the shell that asks out of the list.
  std::string Processes() const {
    return "pgrep -f -- '--name [g]ateway-" + std::to_string(getpid()) + "'";
  }
  std::string Lab() const { return "gateway-" + std::to_string(getpid()); }
  std::string UpCommand(const std::string& more) const {
    return "net up --rtt 2ms --rate 200mbit --emulator tap --gateway --name " + Lab() + " " + more;
  }
  ShellResult Up(const std::string& more = "") { return Run(UpCommand(more)); }
  ShellResult In(const std::string& node, const std::string& command) {
    return Run("net exec " + Lab() + "/" + node + " -- " + command);
  }
  // Connects to `to` and prints what it is told.
  ShellResult Ask(const std::string& node, const std::string& to) {
    return In(node, "timeout 5 bash -c 'cat < /dev/tcp/" + to + "'");
  }
  nlohmann::json Stats() {
    return nlohmann::json::parse(Run("net stats --json " + Lab()).text, nullptr, false);
  }
  bool has_python_ = RunShell("command -v python3").status == 0;
  std::string before_;
};

TEST_F(NetGateway, ANodeReachesTheHostAndItsBytesAreCounted) {
  HostService service;
  const ShellResult up = Up();
  ASSERT_EQ(up.status, 0) << up.text;
  EXPECT_THAT(up.text, HasSubstr("gateway: nodes reach the host's network through gw0"));
  EXPECT_EQ(Ask("a", "host.internal/" + service.port()).text, "the host\n");
  EXPECT_EQ(Ask("b", "198.18.0.1/" + service.port()).text, "the host\n");
  EXPECT_EQ(service.answered(), 2);
  EXPECT_NE(Ask("a", "198.18.0.3/" + service.port()).status, 0) << "that is nobody";
  const nlohmann::json stats = Stats();
  for (const char* node : {"a", "b"}) {
    const nlohmann::json& counters = stats["gateway_traffic"][node];
    // Three frames at least bear the text: SYN, text, FIN, each of 54 bytes and more.
    EXPECT_GE(counters.value("received_bytes", 0), 3 * 54 + 9) << node;
    EXPECT_GE(counters.value("sent_packets", 0), 3) << node;
  }
  for (const nlohmann::json& path : stats["paths"]) EXPECT_EQ(path.value("packets", -1), 0);
  EXPECT_EQ(stats.value("unroutable_drops", -1), 0);
  for (const std::string command : {"net list ", "net stats ", "net probe --quick --pings 2 "}) {
    EXPECT_THAT(Run(command + Lab()).text, HasSubstr("gateway: ")) << command;
  }
  EXPECT_THAT(Run("net list").text, HasSubstr("figures, gateway"));
}

TEST_F(NetGateway, ALabWithoutOneHasNoWayOut) {
  HostService service;
  ASSERT_EQ(Run("net up --rtt 2ms --emulator tap --name " + Lab()).status, 0);
  EXPECT_EQ(In("a", "ls /sys/class/net").text, "lo\nnet0\n");
  const std::string addresses = RunShell("hostname -I").text;
  const std::string own = addresses.substr(0, addresses.find(' '));
  for (const std::string& to :
       {std::string("host.internal"), std::string("198.18.0.1"), std::string("127.0.0.1"), own}) {
    if (to.empty() || to == "\n") continue;
    EXPECT_NE(
        In("a", "timeout 1 bash -c 'cat < /dev/tcp/" + to + "/" + service.port() + "'").status, 0)
        << to;
  }
  EXPECT_EQ(service.answered(), 0);
  EXPECT_THAT(Run("net list " + Lab() + " --json").text, HasSubstr("\"gateway\": null"));
  EXPECT_THAT(Run("net list").text, Not(HasSubstr("gateway,")));
  EXPECT_THAT(Run("net up --rtt 2ms --name x --forward 8080:a:80").text,
              HasSubstr("a lab without --gateway"));
  EXPECT_NE(Run("net run --rtt 2ms --gateway -- true").status, 0)
      << "never in a lab of one command";
}

// By the counters of the interfaces: net0 and the path have the bytes, gw0 has none.
TEST_F(NetGateway, NodesMeetOverTheirPathsAlone) {
  if (!has_python_) GTEST_SKIP() << "no python3";
  ASSERT_EQ(Up().status, 0);
  const std::string program = Write("meet.py", R"(
import socket, sys
if sys.argv[1] == "server":
    with socket.create_server(("", 7000)) as s:
        c = s.accept()[0]
        while c.recv(1 << 16): pass
else:
    for i in range(100):
        try: s = socket.create_connection(("a", 7000))
        except ConnectionRefusedError: import time; time.sleep(0.05); continue
        s.sendall(bytes(3_000_000)); break
)");
  const ShellResult met =
      RunShell(LONGHAUL_COMMAND " net exec " + Lab() + "/a -- timeout 20 python3 " + program +
               " server & " LONGHAUL_COMMAND " net exec " + Lab() + "/b -- timeout 20 python3 " +
               program + " client; wait $!");
  EXPECT_EQ(met.status, 0) << met.text;
  nlohmann::json stats = Stats();
  for (const nlohmann::json& path : stats["paths"]) {
    if (path.value("from", "") != "b") continue;
    EXPECT_GE(path.value("bytes", 0), 3'000'000);
  }
  const auto through_gateway = [&](const char* node) {
    const nlohmann::json& counters = stats["gateway_traffic"][node];
    return counters.value("sent_bytes", 1) + counters.value("received_bytes", 1);
  };
  EXPECT_EQ(through_gateway("a") + through_gateway("b"), 0);

  // Not even for who insists on it, nor when net0 is down. Nobody answers for the other's address
  // there: what is counted are the questions.
  const std::string insists = Write("insist.py", R"(
import socket
s = socket.socket()
s.settimeout(2)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"gw0")
try: s.connect(("10.0.0.2", 7000)); print("through gw0")
except OSError: print("no")
)");
  EXPECT_EQ(In("b", "python3 " + insists).text, "no\n");
  ASSERT_EQ(In("b", "ip link set net0 down").status, 0);
  EXPECT_THAT(In("b", "ping -c 1 -W 1 10.0.0.2").text, HasSubstr("No route to host"));
  EXPECT_EQ(In("b", "python3 " + insists).text, "no\n");
  stats = Stats();
  EXPECT_EQ(stats["gateway_traffic"]["b"].value("received_bytes", -1), 0);
  EXPECT_EQ(through_gateway("a"), 0);
}

TEST_F(NetGateway, AForwardedPortLeadsToTheNodes) {
  if (!has_python_) GTEST_SKIP() << "no python3";
  const std::string first = FreePort(), second = FreePort();
  const ShellResult up =
      Up("--forward " + first + ":a:7000 --forward 127.0.0.2:" + second + ":b:7000");
  ASSERT_EQ(up.status, 0) << up.text;
  EXPECT_THAT(up.text, HasSubstr("forward: 127.0.0.1:" + first +
                                 " of the host > a:7000\n"
                                 "forward: 127.0.0.2:" +
                                 second + " of the host > b:7000\n"));
  // Bound to the node's one address, which is net0's.
  const std::string program = Write("serve.py", R"(
import socket
with socket.create_server((socket.gethostname(), 7000)) as s:
    c, peer = s.accept()
    c.sendall((socket.gethostname() + " " + peer[0] + "\n").encode()); c.close()
)");
  const auto serve = [&](const std::string& node, const std::string& to) {
    return RunShell(LONGHAUL_COMMAND " net exec " + Lab() + "/" + node + " -- timeout 20 python3 " +
                    program + " & for i in $(seq 100); do x=$(timeout 2 bash -c 'cat < /dev/tcp/" +
                    to +
                    "' 2>/dev/null) && [ -n \"$x\" ] && echo \"$x\" && break; sleep 0.05; done; "
                    "wait")
        .text;
  };
  EXPECT_EQ(serve("a", "127.0.0.1/" + first), "a 198.18.0.1\n");
  EXPECT_EQ(serve("b", "127.0.0.2/" + second), "b 198.18.0.1\n");
  EXPECT_NE(RunShell("bash -c '< /dev/tcp/127.0.0.1/" + second + "'").status, 0);
  EXPECT_EQ(Run("net down " + Lab()).status, 0);
  EXPECT_NE(RunShell("bash -c '< /dev/tcp/127.0.0.1/" + first + "'").status, 0) << "closed";
}

// In a network of its own, with a name server that knows one answer and a service that is there.
TEST_F(NetGateway, NamesResolveAsOnTheHostAndLeadThere) {
  if (!has_python_) GTEST_SKIP() << "no python3";
  if (geteuid() != 0) GTEST_SKIP() << "a resolv.conf of its own needs root";
  const std::string server = Write("names.py", R"(
import socket, threading
def serve():
    with socket.create_server(("192.0.2.7", 7007)) as far:
        while True:
            c = far.accept()[0]; c.sendall(b"from afar\n"); c.close()
threading.Thread(target=serve, daemon=True).start()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
while True:
    q, peer = s.recvfrom(512)
    end = q.index(b"\0", 12) + 5
    a = q[end - 4:end - 2] == b"\0\1"  # a question for an IPv4 address
    s.sendto(q[:2] + b"\x81\x80\0\1" + (b"\0\1" if a else b"\0\0") + b"\0\0\0\0" + q[12:end] +
             (b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + bytes([192, 0, 2, 7]) if a else b""), peer)
)");
  const auto with = [&](const std::string& resolv_conf, const std::string& commands) {
    const std::string file = Write("resolv.conf", resolv_conf);
    return RunShell(
               "unshare -mn --propagation private bash -c 'ip link set lo up; ip addr add 192.0.2.7 dev lo; mount --bind " +
               file + " /etc/resolv.conf; python3 " + server +
               " & server=$!; " LONGHAUL_COMMAND " " + UpCommand("") + "; sleep 0.3; " + commands +
               "; " LONGHAUL_COMMAND " net down " + Lab() + "; kill $server'")
        .text;
  };
  const std::string getent = LONGHAUL_COMMAND " net exec " + Lab() + "/a -- getent ahostsv4 ";
  EXPECT_THAT(with("nameserver 127.0.0.1\nsearch example\n",
                   getent + "far.example; " + getent + "b; " LONGHAUL_COMMAND " net exec " + Lab() +
                       "/a -- bash -c \"cat /etc/resolv.conf; timeout 5 cat < "
                       "/dev/tcp/far.example/7007\""),
              AllOf(HasSubstr("names resolve as on the host"), HasSubstr("192.0.2.7"),
                    HasSubstr("from afar\n"), HasSubstr("10.0.0.3"),
                    HasSubstr("nameserver 198.18.0.2\nsearch example\n")));
  EXPECT_THAT(with("# none\n", getent + "far.example || echo failed"),
              AllOf(HasSubstr("names no server with an IPv4 address"), HasSubstr("failed")));
}

TEST_F(NetGateway, WhatIsAskedWronglyIsOneLineAndLeavesNothing) {
  HostService service;
  for (const auto& [more, says] :
       {std::pair<std::string, std::string>{"--forward " + service.port() + ":a:80",
                                            "Address already in use; choose another port"},
        {"--forward 192.0.2.250:8080:a:80", "Cannot assign requested address"}}) {
    const ShellResult up = Up(more);
    EXPECT_EQ(up.status, 1) << more;
    EXPECT_THAT(up.text, AllOf(StartsWith("longhaul: "), HasSubstr(says)));
    EXPECT_EQ(std::count(up.text.begin(), up.text.end(), '\n'), 1) << up.text;
    EXPECT_EQ(HostFacts(), before_);
  }
}

// Each step of the set-up fails for want of a descriptor, the next one with one more to be had.
TEST_F(NetGateway, AStepThatFailsLeavesNothing) {
  bool stood = false;
  for (int limit = 8; limit < 60 && !stood; ++limit) {
    const ShellResult up =
        RunShell("ulimit -n " + std::to_string(limit) + "; " LONGHAUL_COMMAND " " +
                 UpCommand("--forward " + FreePort() + ":a:80"));
    stood = up.status == 0;
    if (stood) continue;
    EXPECT_THAT(up.text, HasSubstr("longhaul: ")) << limit;
    EXPECT_EQ(HostFacts(), before_) << limit << ": " << up.text;
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/longhaul")) << limit << ": " << up.text;
  }
  EXPECT_TRUE(stood);
}

TEST_F(NetGateway, KilledAtAnyMomentItLeavesNothing) {
  const std::string port = FreePort();
  for (int ms = 1; ms < 120; ms += 9) {
    RunShell("timeout -s KILL 0." +
             std::string(ms < 10    ? "00"
                         : ms < 100 ? "0"
                                    : "") +
             std::to_string(ms) + " " LONGHAUL_COMMAND " " +
             UpCommand("--forward " + port + ":a:80"));
    Run("net down " + Lab() + " 2>/dev/null");
    std::string now = HostFacts();
    for (int i = 0; i < 100 && now != before_; ++i) {  // the kernel ends the rest by itself
      absl::SleepFor(absl::Milliseconds(20));
      now = HostFacts();
    }
    EXPECT_EQ(now, before_) << ms << " ms";
    EXPECT_NE(RunShell("bash -c '< /dev/tcp/127.0.0.1/" + port + "'").status, 0) << ms << " ms";
  }
}

TEST_F(NetGateway, DownEndsAStoppedRelay) {
  const std::string port = FreePort();
  ASSERT_EQ(Up("--forward " + port + ":a:80").status, 0);
  RunShell("kill -STOP $(" + Processes() + ")");
  EXPECT_EQ(Run("net down " + Lab()).text, "lab " + Lab() + " is down\n");
  EXPECT_EQ(HostFacts(), before_);
  EXPECT_NE(RunShell("bash -c '< /dev/tcp/127.0.0.1/" + port + "'").status, 0);
}

TEST_F(NetGateway, ARelayThatDiesIsSaidAndThePathsGoOn) {
  ASSERT_EQ(Up().status, 0);
  // Of the lab's processes the one that is in this network namespace.
  const ShellResult killed = RunShell(
      "for p in $(" + Processes() +
      "); do [ \"$(readlink /proc/$p/ns/net)\" = \"$(readlink /proc/self/ns/net)\" ] && kill -9 $p; "
      "done; true");
  EXPECT_EQ(killed.text, "");
  std::string list;
  for (int i = 0; i < 100 && list.find("relay has ended") == std::string::npos; ++i) {
    absl::SleepFor(absl::Milliseconds(20));
    list = Run("net list").text;
  }
  EXPECT_THAT(list, HasSubstr("relay has ended"));
  EXPECT_THAT(Run("net stats " + Lab()).text, HasSubstr("BROKEN: gateway: its relay has ended"));
  EXPECT_EQ(In("a", "ls /sys/class/net").text, "lo\nnet0\n");
  EXPECT_EQ(In("a", "ping -c 1 -W 2 b >/dev/null").status, 0);
  EXPECT_THAT(In("a", "ping -c 1 -W 2 198.18.0.1").text, HasSubstr("No route to host"));
  EXPECT_EQ(Run("net down " + Lab()).status, 0);
}

}  // namespace
}  // namespace longhaul
