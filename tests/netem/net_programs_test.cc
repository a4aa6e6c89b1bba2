// Programs that know nothing of labs, in a node: names, host names, an interface to find.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

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

TEST_F(NetPrograms, BadLinksAreOneLine) {
  for (const std::string arguments :
       {"net run -- true", "net run colocated", "net run nowhere -- true",
        "net run --rate fast -- true", "net run colocated --node z -- true",
        "net run --rtt 5ms --loss 2 -- true"}) {
    const ShellResult result = Run(arguments);
    EXPECT_NE(result.status, 0) << arguments;
    EXPECT_THAT(result.text, AllOf(HasSubstr("longhaul: "), Not(HasSubstr("terminate"))));
  }
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
  EXPECT_THAT(Run("net set demo 'a>b' jitter=5ms").text,
              AllOf(HasSubstr("hold 197 packets"), HasSubstr("frames keep their order")));
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
  EXPECT_NE(Run("net capture demo 'a>b' - --protocol icmp --port 80").status, 0);
  Run("net down demo");
}

}  // namespace
}  // namespace longhaul
