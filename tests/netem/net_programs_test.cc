// Programs that know nothing of labs, in a node: names, host names, an interface to find.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "netem/nodes/node_setup.h"
#include "tests/netem/net_fixture.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class NetPrograms : public NetFixture {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNoNetRun(); !why.empty()) GTEST_SKIP() << why;
    NetFixture::SetUp();
  }
  static bool Has(const std::string& program) {
    return RunShell("command -v " + program).status == 0;
  }
  // Where torch is, this build's.
  static std::string Python() {
    const std::string torch = LONGHAUL_TEST_PYTHON;
    return torch.empty() ? "python3" : torch;
  }
  static constexpr const char* kFast = "net run --rtt 2ms --rate 200mbit --emulator tap ";
};

TEST_F(NetPrograms, ANodeHasItsNameAndTheOthersResolve) {
  const ShellResult result =
      Run(std::string(kFast) +
          "--node b -- sh -c 'hostname; getent ahostsv4 b | head -1 | cut -d\" \" -f1; getent "
          "ahostsv4 a | "
          "head -1 | cut -d\" \" -f1; ip -4 -o addr show net0 | grep -o \"inet [0-9.]*\"'");
  EXPECT_EQ(result.text, "b\n10.0.0.3\n10.0.0.2\ninet 10.0.0.3\n");
}

TEST_F(NetPrograms, NamesHaveBothAddressesAndIpv4ComesFirst) {
  if (!KernelHasIpv6() || !Has("python3")) GTEST_SKIP() << "no IPv6, or no python3";
  const std::string program = Write("names.py", R"(
import socket
def ask(family): return [x[4][0] for x in socket.getaddrinfo("b", 80, family, socket.SOCK_STREAM)]
print(ask(socket.AF_UNSPEC), ask(socket.AF_INET6))
for address in ("10.0.0.3", "fd6c:6f6e:6768::a00:3", "::ffff:10.0.0.3"):
    print(socket.gethostbyaddr(address)[0])
)");
  const bool chooses = std::filesystem::exists("/etc/gai.conf");
  const ShellResult names = Run(std::string(kFast) + "--node a -- python3 " + program);
  const std::string rest = " ['fd6c:6f6e:6768::a00:3']\nb\nb\nb.v4\n";
  if (chooses) {
    EXPECT_EQ(names.text, "['10.0.0.3', 'fd6c:6f6e:6768::a00:3']" + rest);
  }
  EXPECT_THAT(names.text, HasSubstr(rest));
  EXPECT_EQ(Run(std::string(kFast) + "--node a -- ping -6 -c 1 -W 5 b >/dev/null").status, 0);
  // What is no node's has no route, so a program does not wait for it.
  EXPECT_THAT(Run(std::string(kFast) + "--node a -- ping -6 -c 1 -W 5 2001:db8::1").text,
              HasSubstr("No route to host"));
}

TEST_F(NetPrograms, OtherNamesFailAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const ShellResult result =
      Run(std::string(kFast) + "--node a -- sh -c 'getent hosts nowhere.example; echo $?'");
  EXPECT_EQ(result.text, "2\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_F(NetPrograms, PythonFindsItsOwnName) {
  if (!Has("python3")) GTEST_SKIP() << "no python3";
  const ShellResult result =
      Run(std::string(kFast) +
          "--node a -- python3 -c 'import socket; print(socket.getfqdn(), "
          "socket.gethostbyname(socket.gethostname()), socket.gethostbyaddr(\"10.0.0.3\")[0])'");
  EXPECT_EQ(result.text, "a 10.0.0.2 b\n");
}

TEST_F(NetPrograms, AServerAndItsClient) {
  if (!Has("python3") || !Has("curl")) GTEST_SKIP() << "no python3 or no curl";
  const std::string site = folder_ + "/site";
  std::filesystem::create_directory(site);
  std::ofstream(site + "/file") << "over the link\n";
  const std::string program = Write(
      "pair.sh",
      "cd " + site +
          "\n[ $RANK = 0 ] && exec timeout 20 python3 -m http.server 8000 >/dev/null 2>&1\n"
          "for i in $(seq 100); do curl -sf http://a:8000/file && kill_me=1 && break; sleep 0.1; "
          "done\n[ -n \"$kill_me\" ] && exit 7\nexit 1\n");
  const ShellResult result = Run(std::string(kFast) + "-- sh " + program);
  EXPECT_EQ(result.text, "over the link\n");
  EXPECT_EQ(result.status, 7) << "the client's, which ends the server";
}

TEST_F(NetPrograms, GlooNeedsToBeToldNothing) {
  if (RunShell(Python() + " -c 'import torch'").status != 0) GTEST_SKIP() << "no torch";
  const std::string program = Write("sum.py", R"(
import torch, torch.distributed as dist
dist.init_process_group("gloo")  # RANK, WORLD_SIZE and MASTER_ADDR are there
x = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(x)
print(x.tolist(), flush=True)
dist.destroy_process_group()
)");
  unsetenv("GLOO_SOCKET_IFNAME");
  const ShellResult result = Run(std::string(kFast) + "--nodes 3 -- " + Python() + " " + program);
  EXPECT_EQ(result.status, 0) << result.text;
  size_t sums = 0;
  for (size_t at = 0; (at = result.text.find("[6.0, 6.0, 6.0]", at)) != std::string::npos; ++at) {
    ++sums;
  }
  EXPECT_EQ(sums, 3u) << result.text;
}

TEST_F(NetPrograms, ALabOfOneCommandLeavesNothing) {
  EXPECT_EQ(Run(std::string(kFast) + "-- sh -c 'exit 0'").status, 0);
  // The first that fails ends the others.
  const ShellResult failed =
      Run(std::string(kFast) + "-- sh -c '[ $RANK = 1 ] && exit 5; sleep 60'");
  EXPECT_EQ(failed.status, 5) << failed.text;
  EXPECT_EQ(Run(std::string(kFast) + "-- no-such-program 2>/dev/null").status, 127);
  // kill -9 of the command: the kernel ends lab and programs.
  const ShellResult killed = RunShell("timeout -s KILL 2 " LONGHAUL_COMMAND " " +
                                      std::string(kFast) + "-- sh -c 'echo $$ >" + folder_ +
                                      "/pid-$RANK; exec sleep 1234.5'; sleep 0.5; "
                                      "pgrep -fx 'sleep 1234.5' | wc -l");
  EXPECT_THAT(killed.text, HasSubstr("0\n"));
  EXPECT_THAT(Run("net list").text, HasSubstr("no lab is up"));
}

TEST_F(NetPrograms, WhatWaitsForAProgramIsSmall) {
  ASSERT_EQ(Run("net up --rtt 1ms --name small --emulator tap").status, 0);
  const ShellResult result =
      RunShell(LONGHAUL_COMMAND
               " net exec small/a -- sleep 1 & sleep 0.5; "
               "grep VmRSS /proc/$(pgrep -f 'exec small/a' | head -1)/status | tr -dc 0-9; wait");
  EXPECT_GT(std::atoi(result.text.c_str()), 0);
  EXPECT_LT(std::atoi(result.text.c_str()), 10'000) << "kB; a build without sanitizers";
  Run("net down small");
}

TEST_F(NetPrograms, WhatIsDownIsShownWithWhatBringsItUp) {
  ASSERT_EQ(Run("net up --rtt 2ms --rate 100mbit --name demo --emulator tap").status, 0);
  ASSERT_EQ(Run("net set demo 'a>b' carrier=down").status, 0);
  const std::string what = "longhaul net set ";
  for (const std::string command : {"net list demo", "net stats demo"}) {
    EXPECT_THAT(Run(command).text, AllOf(HasSubstr("DOWN"), HasSubstr("carrier=up"))) << command;
  }
  const ShellResult probe = Run("net probe demo --quick");
  EXPECT_EQ(probe.status, 1);
  EXPECT_THAT(probe.text,
              HasSubstr("path a > b is down; `longhaul net set demo 'a>b' carrier=up`"));
  EXPECT_THAT(probe.text, HasSubstr("path b > a the way back, a > b, is down"));
  ASSERT_EQ(Run("net set demo 'a>b' carrier=up").status, 0);
  EXPECT_THAT(Run("net list demo").text, Not(HasSubstr("DOWN")));
  EXPECT_THAT(Run("net set demo 'a>b' jitter=5ms").text, HasSubstr("frames keep their order"));
  EXPECT_THAT(Run("net set demo 'a>b' jitter=0ms").text, Not(HasSubstr("order")));
  EXPECT_EQ(Run("net set demo 'a>b' loss=100%").status, 0);
  EXPECT_NE(Run("net exec demo/a -- ping -c 1 -W 1 b").status, 0);
  EXPECT_THAT(Run("net probe demo --quick").text, HasSubstr("loses everything, as it was asked"));
  Run("net down demo");
}

TEST_F(NetPrograms, AFileChangesItsLinksByItself) {
  const std::string nodes = "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[between]\nrtt_ms = 2\n";
  const std::string file = Write("later.toml", nodes +
                                                   "[[change]]\nat_s = 1\npath = 'a<>b'\n"
                                                   "set = 'rtt=40ms rate=20mbit'\n"
                                                   "[[change]]\nat_s = 2\npath = 'a>b'\n"
                                                   "set = 'carrier=down'\n");
  ASSERT_EQ(Run("net up " + file + " --emulator tap").status, 0);
  EXPECT_THAT(Run("net list later").text, Not(HasSubstr("20 Mbit/s")));
  sleep(3);
  EXPECT_THAT(Run("net list later").text, AllOf(HasSubstr("20 Mbit/s"), HasSubstr("DOWN")));
  EXPECT_EQ(Run("net down later").status, 0);
  for (const auto& [change, says] :
       {std::pair("path = 'a>c'\nset = 'rate=1mbit'\nat_s = 1\n", "bad.toml:7: no node 'c'"),
        {"path = 'a>b'\nset = 'speed=1'\nat_s = 1\n", "bad.toml:7: unknown key 'speed'"},
        {"path = 'a>b'\nset = ''\nat_s = 1\n", "bad.toml:7: 'set': want KEY=VALUE"},
        {"path = 'a>b'\nset = 'loss=2'\nat_s = 1\n", "bad.toml:7: "},
        {"path = 'a>b'\nset = 'loss=1%'\nat_s = -1\n", "bad.toml:10: 'at_s'"}}) {
    const std::string bad = Write("bad.toml", nodes + "[[change]]\n" + change);
    const ShellResult result = Run("net up " + bad + " --emulator tap");
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.text, HasSubstr(says));
  }
}

TEST_F(NetPrograms, CaptureTakesWhatIsAskedFor) {
  ASSERT_EQ(Run("net up --rtt 2ms --name demo --emulator tap").status, 0);
  const ShellResult result =
      RunShell("(sleep 1; " LONGHAUL_COMMAND
               " net exec demo/a -- ping -c 3 -i 0.2 b >/dev/null) & " LONGHAUL_COMMAND
               " net capture demo 'a>b' - --protocol icmp --snaplen 60 --packets 2 "
               "--seconds 10 2>/dev/null | wc -c; wait");
  EXPECT_EQ(std::atoi(result.text.c_str()), 24 + 2 * (16 + 60)) << "header, then two cut frames";
  const ShellResult other =
      RunShell("(sleep 0.5; " LONGHAUL_COMMAND
               " net exec demo/a -- ping -c 2 -i 0.2 b >/dev/null) & " LONGHAUL_COMMAND
               " net capture demo 'a>b' - --port 80 --seconds 2 2>/dev/null | wc -c; wait");
  EXPECT_EQ(std::atoi(other.text.c_str()), 24) << "no port 80 in a ping";
  const ShellResult both =
      RunShell("(sleep 0.5; " LONGHAUL_COMMAND
               " net exec demo/a -- ping -c 2 -i 0.2 b >/dev/null) & " LONGHAUL_COMMAND
               " net capture demo 'a<>b' - --protocol icmp --snaplen 60 --seconds 2 2>/dev/null "
               "| wc -c; wait");
  EXPECT_EQ(std::atoi(both.text.c_str()), 24 + 4 * (16 + 60)) << "two requests and two replies";
  EXPECT_NE(Run("net capture demo 'a>b' - --protocol icmp --port 80").status, 0);
  if (KernelHasIpv6()) {
    const ShellResult six =
        RunShell("(sleep 1; " LONGHAUL_COMMAND
                 " net exec demo/a -- ping -6 -c 3 -i 0.2 b >/dev/null) & " LONGHAUL_COMMAND
                 " net capture demo 'a<>b' - --protocol icmp --snaplen 62 --packets 4 "
                 "--seconds 10 2>/dev/null | wc -c; wait");
    EXPECT_EQ(std::atoi(six.text.c_str()), 24 + 4 * (16 + 62));
  }
  Run("net down demo");
}

// A program that reads and writes elsewhere than its caller stands does harm: in '/' most of all.
TEST_F(NetPrograms, AProgramRunsInItsCallersFolderOrNotAtAll) {
  if (geteuid() != 0) GTEST_SKIP() << "mounts need root";
  ASSERT_EQ(Run("net up --rtt 1ms --name demo --emulator tap").status, 0);
  const std::string exec = LONGHAUL_COMMAND " net exec demo/a -- ";
  const std::string pwd = exec + "pwd";
  const std::string folder = std::filesystem::canonical(folder_).string();
  const std::string deleted = folder_ + "/deleted";
  const std::string over = "cd " + folder + " && mkdir over && mount -t tmpfs none over && cd over";
  const std::string made = "cd " + folder +
                           " && mkdir new && mount -t tmpfs none new && "
                           "mkdir new/in && cd new/in";
  const std::pair<std::string, std::string> cases[] = {
      {"mkdir " + deleted + " && cd " + deleted + " && rmdir " + deleted, "has been deleted"},
      {over, "cannot find the same folder " + folder + "/over"},
      {made, "cannot enter the folder " + folder + "/new/in"},
      {"cd /run", "cannot find the same folder /run"}};
  for (const auto& [into, says] : cases) {
    const std::string line = into + " && " + pwd;
    // Mounts of its own, which the lab cannot see.
    const ShellResult result = RunShell("unshare -m --propagation private sh -c '" + line + "'");
    EXPECT_EQ(result.status, 1) << line;
    EXPECT_THAT(result.text, AllOf(testing::StartsWith("longhaul: "), HasSubstr(says))) << line;
    EXPECT_EQ(std::count(result.text.begin(), result.text.end(), '\n'), 1) << result.text;
  }
}

TEST_F(NetPrograms, WhatTheHostHasUnderRunAndMountsLaterIsSeen) {
  if (geteuid() != 0) GTEST_SKIP() << "/run belongs to root";
  const std::string under = "/run/longhaul-test-" + std::to_string(getpid());
  std::filesystem::create_directories(under + "/in");
  std::ofstream(under + "/word") << "from the host\n";
  std::filesystem::copy_file("/bin/echo", under + "/say");
  ASSERT_EQ(Run("net up --rtt 1ms --name demo --emulator tap").status, 0);
  const std::string in = "cd " + under + "/in && " LONGHAUL_COMMAND " ";
  const std::string show = "sh -c \"pwd; cat ../word; ls /run/netns\"";
  EXPECT_EQ(RunShell(in + "net exec demo/a -- " + show).text, under + "/in\nfrom the host\na\nb\n");
  EXPECT_EQ(RunShell(in + kFast + "--node a -- " + show).text,
            under + "/in\nfrom the host\na\nb\n");
  EXPECT_EQ(Run("net exec demo/b -- " + under + "/say here").text, "here\n");
  EXPECT_EQ(
      RunShell("PATH=$PATH:" + under + " " LONGHAUL_COMMAND " net exec demo/b say there").text,
      "there\n");
  EXPECT_EQ(Run("net exec demo/b cat /run/host/" + under.substr(5) + "/word").text,
            "from the host\n");
  std::filesystem::remove_all(under);
  const std::string later = folder_ + "/later";
  std::filesystem::create_directory(later);
  const ShellResult seen = RunShell(
      "unshare -m sh -c 'mount --make-rshared / && " LONGHAUL_COMMAND
      " net up --rtt 1ms --name shared --emulator tap >/dev/null && mount -t tmpfs none " +
      later + " && cd " + later +
      " && echo seen >word && " LONGHAUL_COMMAND
      " net exec shared/a -- cat word; cd /; " LONGHAUL_COMMAND " net down shared; umount " +
      later + "'");
  EXPECT_EQ(seen.text, "seen\nlab shared is down\n");
}

// What runs of ours with this argument, stopped or not.
std::string Alive(const std::string& argument) {
  return RunShell("pgrep -fx 'sleep " + argument + "' | wc -l").text;
}

TEST_F(NetPrograms, WhatDoesNotEndIsKilledAfterTheGrace) {
  const std::string deaf = "trap \"\" TERM INT; while :; do sleep 1000.5; done";
  const ShellResult failed =
      Run(std::string(kFast) +
          "--grace 300ms -- sh -c '[ $RANK = 1 ] && { for i in $(seq 200); do "
          "pgrep -fx \"sleep 1000.5\" >/dev/null && break; sleep 0.05; "
          "done; exit 5; }; " +
          deaf + "'");
  EXPECT_EQ(failed.status, 5);
  EXPECT_EQ(failed.text, "longhaul: sh in a had not ended after 300ms: killed\n");
  const ShellResult stopped = Run(std::string(kFast) +
                                  "--grace 20s -- sh -c '[ $RANK = 1 ] && { "
                                  "sleep 0.5; exit 6; }; trap \"echo told; exit 1\" TERM; "
                                  "kill -STOP $$; sleep 1000.5'");
  EXPECT_EQ(stopped.status, 6);
  EXPECT_EQ(stopped.text, "told\n") << "a stopped one hears it";
  const std::string interrupt =
      "& p=$!; for i in $(seq 200); do pgrep -fx \"sleep 1000.5\" "
      ">/dev/null && break; sleep 0.05; done; kill -INT $p; ";
  const std::string run = LONGHAUL_COMMAND " " + std::string(kFast);
  const ShellResult once =
      RunShell(run + "--grace 300ms -- sh -c '" + deaf + "' " + interrupt + "wait $p; echo $?");
  EXPECT_EQ(once.text,
            "longhaul: interrupted: sh in a, sh in b have 300ms to end; Ctrl-C again kills\n"
            "longhaul: sh in a, sh in b had not ended after 300ms: killed\n130\n");
  const ShellResult twice = RunShell(run + "--grace 1000s -- sh -c '" + deaf + "' " + interrupt +
                                     "sleep 0.3; kill -INT $p; wait $p; echo $?");
  EXPECT_THAT(twice.text, HasSubstr("again kills\n130\n"));
  EXPECT_EQ(Run(std::string(kFast) +
                "--node a -- sh -c 'setsid sleep 1000.5 >/dev/null 2>&1 </dev/null & exit 0'")
                .status,
            0);
  EXPECT_EQ(Alive("1000.5"), "0\n") << "nor one that left its session";
}

TEST_F(NetPrograms, SeveralProgramsInOneLab) {
  const std::string run = std::string(kFast) + "--grace 300ms --node b -- ";
  const ShellResult served =
      Run(run + "sh -c 'hostname; exec sleep 1000.7' --node a -- sh -c 'sleep 0.5; hostname'");
  EXPECT_EQ(served.status, 0);
  EXPECT_EQ(served.text, "b\na\nlonghaul: sh in a has ended; sh in b has 300ms to end as well\n");
  EXPECT_EQ(Run(run + "sleep 1000.7 --node a -- sh -c 'exit 3'").status, 3);
  EXPECT_EQ(Run(run + "sh -c 'exit 4' --node a -- sleep 1000.7").status, 4);
  EXPECT_EQ(Run(run + "sh -c 'sleep 0.2; echo b' --node a -- true").text,
            "longhaul: true in a has ended; sh in b has 300ms to end as well\nb\n");
  EXPECT_EQ(RunShell("echo hi | " LONGHAUL_COMMAND " " + run + "cat").text, "hi\n");
  EXPECT_EQ(Alive("1000.7"), "0\n");
}

TEST_F(NetPrograms, OneFrameForManyIsRefusedAtItsSender) {
  if (!Has("python3")) GTEST_SKIP() << "no python3";
  const std::string program = Write("many.py", R"(
import socket
for to in ("224.0.0.251", "239.1.2.3", "255.255.255.255", "10.0.0.3"):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    try: print(s.sendto(b"x", (to, 9)))
    except OSError as e: print(e.strerror)
)");
  EXPECT_EQ(Run(std::string(kFast) + "--node a -- python3 " + program).text,
            "No route to host\nNo route to host\nNo route to host\n1\n");
  if (!KernelHasIpv6()) return;
  const std::string all = Write("all.py", R"(
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
try: print(s.sendto(b"x", ("ff02::1%net0", 9)))
except OSError: print("refused")
)");
  EXPECT_EQ(Run(std::string(kFast) + "--node a -- python3 " + all).text, "refused\n");
}

// a, b and c in a row, and d, which only c sends to.
constexpr char kRow[] =
    "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n[[node]]\nname = 'c'\n[[node]]\nname = 'd'\n"
    "[[path]]\nfrom = 'a'\nto = 'b'\nboth = true\nrtt_ms = 2\n"
    "[[path]]\nfrom = 'b'\nto = 'c'\nboth = true\nrtt_ms = 2\n"
    "[[path]]\nfrom = 'c'\nto = 'd'\ndelay_ms = 1\n";

TEST_F(NetPrograms, WhereNoPathLeadsAConnectionFailsAtOnce) {
  if (!Has("python3")) GTEST_SKIP() << "no python3";
  const std::string file = Write("row.toml", kRow);
  const std::string connect = Write("connect.py", R"(
import socket, sys, time
for to in sys.argv[1:]:
    for family, *_, address in socket.getaddrinfo(to, 9, type=socket.SOCK_STREAM):
        start, s = time.monotonic(), socket.socket(family)
        s.settimeout(10)
        try: s.connect(address)
        except OSError as e: print(to, e.strerror or e)
        assert time.monotonic() - start < 2, (to, address)
)");
  const ShellResult up = Run("net up " + file + " --emulator tap");
  ASSERT_EQ(up.status, 0) << up.text;
  EXPECT_THAT(up.text, AllOf(HasSubstr("no path between: a and c, a and d, b and d; a connection "
                                       "there fails at once with 'No route to host'\n"),
                             HasSubstr("a path one way only: c > d; datagrams arrive")));
  const auto lines = [&](const std::string& line) { return KernelHasIpv6() ? line + line : line; };
  EXPECT_EQ(Run("net exec row/a -- python3 " + connect + " b c d").text,
            lines("b Connection refused\n") + lines("c No route to host\n") +
                lines("d No route to host\n"));
  EXPECT_EQ(Run("net exec row/c -- python3 " + connect + " d").text,
            lines("d Network is unreachable\n"));
  EXPECT_EQ(Run("net exec row/d -- python3 " + connect + " c").text, lines("c No route to host\n"));
  EXPECT_EQ(Run("net exec row/c -- python3 -c 'import socket; print(socket.socket(socket.AF_INET, "
                "socket.SOCK_DGRAM).sendto(b\"x\", (\"d\", 9)))'")
                .text,
            "1\n")
      << "one way is a way";
  EXPECT_THAT(Run("net probe row 'c>d' --quick").text, HasSubstr("one way"));
  Run("net down row");
  const ShellResult run = Run("net run " + file + " --emulator tap --node b -- true");
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.text, HasSubstr("no path between: a and c, a and d, b and d; "));
  EXPECT_THAT(Run(std::string(kFast) + "--nodes 4 -- true").text, Not(HasSubstr("path")));
}

// What another job has left in the shell is no place in this one.
TEST_F(NetPrograms, TheLabsPlacesReplaceThoseOfTheShell) {
  const std::pair<const char*, const char*> shell[] = {{"RANK", "0"},
                                                       {"WORLD_SIZE", "1"},
                                                       {"LOCAL_RANK", "3"},
                                                       {"GROUP_RANK", "5"},
                                                       {"ROLE_NAME", "default"},
                                                       {"MASTER_ADDR", "localhost"},
                                                       {"MASTER_PORT", "1234"},
                                                       {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                       {"OMPI_COMM_WORLD_RANK", "2"},
                                                       {"PMI_RANK", "2"},
                                                       {"SLURM_PROCID", "2"},
                                                       {"GLOO_SOCKET_IFNAME", "eth0"},
                                                       {"NCCL_SOCKET_IFNAME", "^lo,docker0"},
                                                       {"TP_SOCKET_IFNAME", "eth0"},
                                                       {"UCX_NET_DEVICES", "eth0"},
                                                       {"LONGHAUL_INTERFACE", "eth0"}};
  std::string assignments, echo = "echo ";
  for (const auto& [name, value] : shell) {
    assignments += std::string(name) + "=" + value + " ";
    echo += std::string("/$") + name;
  }
  const std::string show = "sh -c '" + echo + "'";
  const auto of = [](const std::string& rank) {
    return "/" + rank + "/2/0/" + rank + "//a/29500/////net0/net0/net0//net0\n";
  };
  const auto with = [&](const std::string& before, const std::string& arguments) {
    return RunShell(before + LONGHAUL_COMMAND " " + arguments);
  };
  const ShellResult run = with(assignments, std::string(kFast) + "-- " + show);
  EXPECT_THAT(run.text,
              AllOf(HasSubstr(of("0")), HasSubstr(of("1")),
                    HasSubstr("longhaul: the lab's own values replace GLOO_SOCKET_IFNAME, ")));
  EXPECT_EQ(std::count(run.text.begin(), run.text.end(), '\n'), 3) << run.text;
  ASSERT_EQ(Run("net up --rtt 1ms --name demo --emulator tap").status, 0);
  EXPECT_THAT(with(assignments, "net exec demo/b -- " + show).text, HasSubstr(of("1")));
  EXPECT_THAT(
      with("SHELL=/bin/sh " + assignments, "net shell demo/b <<'END'\n" + echo + "\nEND").text,
      HasSubstr(of("1")));
  // A caller that is in the lab's job is left alone, and one that is in none gets no place.
  EXPECT_EQ(with("RANK=3 WORLD_SIZE=4 MASTER_ADDR=b MASTER_PORT=7 ",
                 "net exec demo/a -- sh -c 'echo $RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT'")
                .text,
            "3 4 b 7\n");
  EXPECT_EQ(with("RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.0.0.2 ",
                 "net exec demo/b -- sh -c 'echo $RANK $WORLD_SIZE $MASTER_ADDR'")
                .text,
            "1 2 10.0.0.2\n");
  EXPECT_EQ(
      with("env -u RANK -u WORLD_SIZE -u MASTER_ADDR -u MASTER_PORT ",
           "net exec demo/a -- sh -c 'echo /$RANK$WORLD_SIZE$MASTER_ADDR/$GLOO_SOCKET_IFNAME'")
          .text,
      "//net0\n");
  EXPECT_THAT(with(assignments, "net exec demo/b -- env RANK=7 sh -c 'echo is $RANK'").text,
              HasSubstr("is 7\n"));
  Run("net down demo");
}

// Whatever its programs make of a signal, a run that one ended did not end by itself.
TEST_F(NetPrograms, ARunThatASignalEndsHasItsStatus) {
  const std::string up = folder_ + "/up";
  const std::string deaf =
      "trap \"\" HUP TERM INT QUIT; touch " + up + "; while :; do sleep 0.2; done";
  const std::string obeys =
      "trap \"exit 0\" HUP TERM INT QUIT; touch " + up + "; while :; do sleep 0.1; done";
  const std::string fails =
      "trap \"exit 9\" HUP TERM INT QUIT; touch " + up + "; while :; do sleep 0.1; done";
  const std::string wait =
      "for i in $(seq 200); do [ -e " + up + " ] && break; sleep 0.05; done; sleep 0.3; ";
  for (const auto& [signal, number] :
       {std::pair("HUP", 1), {"INT", 2}, {"QUIT", 3}, {"TERM", 15}}) {
    for (const std::string& program : {deaf, obeys, fails}) {
      std::filesystem::remove(up);
      const ShellResult result = RunShell(
          LONGHAUL_COMMAND " " + std::string(kFast) + "--grace 300ms -- sh -c '" + program +
          "' 2>/dev/null & p=$!; " + wait + "kill -" + signal + " $p; wait $p; echo $?");
      EXPECT_EQ(result.text, std::to_string(128 + number) + "\n") << signal << " " << program;
    }
  }
  // One that failed before keeps its status, and nohup keeps a hang-up from everybody.
  std::filesystem::remove(up);
  EXPECT_EQ(RunShell(LONGHAUL_COMMAND " " + std::string(kFast) +
                     "--grace 2s -- sh -c '[ $RANK = 1 ] && exit 7; " + deaf +
                     "' 2>/dev/null & p=$!; " + wait + "kill -TERM $p; wait $p; echo $?")
                .text,
            "7\n");
  std::filesystem::remove(up);
  EXPECT_EQ(RunShell("nohup " LONGHAUL_COMMAND " " + std::string(kFast) +
                     "--grace 300ms -- sh -c 'touch " + up +
                     "; sleep 1.5; echo done' 2>/dev/null & p=$!; " + wait +
                     "kill -HUP $p; wait $p; echo $?")
                .text,
            "done\ndone\n0\n");
  // What takes Ctrl-C as a command says how it ended.
  std::filesystem::remove(up);
  EXPECT_EQ(RunShell("trap - INT; " LONGHAUL_COMMAND " " + std::string(kFast) +
                     "--grace none --node a -- sh -c '" + obeys + "' 2>/dev/null & p=$!; " + wait +
                     "kill -TERM $p; wait $p; echo $?")
                .text,
            "143\n");
}

TEST_F(NetPrograms, TooManyOpenFilesIsOneLineWithTheLimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "UBSan's check of vptrs opens a file, and reports an error where it cannot";
#endif
  ASSERT_EQ(Run("net up --rtt 1ms --name demo --emulator tap").status, 0);
  for (int limit = 4; limit < 12; ++limit) {
    const ShellResult result = RunShell("ulimit -n " + std::to_string(limit) +
                                        "; exec " LONGHAUL_COMMAND " net exec demo/a true");
    if (result.status == 0) break;
    if (result.text.find("error while loading shared libraries") != std::string::npos) continue;
    EXPECT_THAT(result.text, AllOf(testing::StartsWith("longhaul: "), HasSubstr("Too many open"),
                                   HasSubstr("may hold " + std::to_string(limit))));
  }
  const ShellResult up = RunShell("ulimit -Sn 40; ulimit -Hn 40; " LONGHAUL_COMMAND
                                  " net up --rtt 1ms --nodes 26 --name large --emulator tap");
  EXPECT_EQ(up.status, 1);
  EXPECT_THAT(up.text, AllOf(HasSubstr("a lab of 26 nodes: "), HasSubstr("may hold 40 at once")));
  EXPECT_EQ(Run("net exec demo/a true").status, 0) << "nothing was taken for dead";
}

}  // namespace
}  // namespace longhaul
