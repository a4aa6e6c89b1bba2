// Labs that live on: their daemon, socket, state folder, and what is left of them (nothing).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "netem/lab_control/capture.h"
#include "netem/lab_control/lab_client.h"
#include "netem/lab_control/lab_daemon.h"
#include "netem/lab_control/node_entry.h"
#include "netem/nodes/node_setup.h"
#include "tests/netem/lab_control_fixture.h"

namespace longhaul {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(LabControl, UpAnswersUntilItIsTakenDown) {
  ASSERT_TRUE(Up("one").ok());
  auto info = AskLab(*store_, "one", {{"do", "info"}});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->message.value("emulator", ""), "tap");
  EXPECT_EQ(info->message.at("nodes").size(), 2u);
  EXPECT_EQ(info->message.at("nodes")[1].value("address", ""), NodeAddress(1));
  EXPECT_EQ(ListLabs(*store_).size(), 1u);
  EXPECT_TRUE(TakeDown(*store_, "one").ok());
  EXPECT_THAT(ListLabs(*store_), IsEmpty());
  EXPECT_EQ(TakeDown(*store_, "one").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(AskLab(*store_, "one", {{"do", "info"}}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LabControl, TwoLabsStandSideBySideAndANameIsTakenOnce) {
  ASSERT_TRUE(Up("one").ok());
  ASSERT_TRUE(Up("two").ok());
  const absl::Status again = Up("one");
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("longhaul net down one"));
  EXPECT_EQ(ListLabs(*store_).size(), 2u);
}

TEST_F(LabControl, WhatCannotBeBuiltLeavesNothing) {
  const Topology topology = *UniformTopology("colocated", 2);
  absl::Status s = StartLabDaemon(*store_, {.name = "bad",
                                            .topology = topology,
                                            .emulator = EmulatorKind::kTap,
                                            .options = {.congestion_control = "nosuch"}});
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition) << s;
  EXPECT_THAT(store_->Names(), IsEmpty());
  s = StartLabDaemon(*store_,
                     {.name = "../bad", .topology = topology, .emulator = {}, .options = {}});
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << s;
  s = StartLabDaemon(*store_, {.name = "fast",
                               .topology = topology,
                               .emulator = EmulatorKind::kTap,
                               .options = {},
                               .ceiling = TapCeiling{Mbit(900), Mbit(800), 1, 1}});
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("1000 Mbit/s is more than this machine carries"));
  EXPECT_THAT(store_->Names(), IsEmpty());
}

TEST_F(LabControl, KilledDaemonIsForgottenAndItsNameFreeAgain) {
  ASSERT_TRUE(Up("one").ok());
  const auto holder = store_->Holder("one");
  ASSERT_TRUE(holder && *holder > 0);
  ASSERT_EQ(kill(*holder, SIGKILL), 0);
  while (store_->Holder("one")) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(std::filesystem::is_empty(store_->folder()));
  EXPECT_THAT(ListLabs(*store_), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(store_->folder()));
  ASSERT_TRUE(Up("one").ok());
  ASSERT_EQ(kill(*store_->Holder("one"), SIGKILL), 0);
  while (store_->Holder("one")) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(Up("one").ok());
}

TEST_F(LabControl, DaemonThatDoesNotAnswerIsTakenDownByForce) {
  ASSERT_TRUE(Up("one").ok());
  const auto holder = store_->Holder("one");
  ASSERT_EQ(kill(*holder, SIGSTOP), 0);
  EXPECT_TRUE(TakeDown(*store_, "one").ok());
  EXPECT_FALSE(store_->Holder("one").has_value());
}

// The lab's keeper, its init and its daemon, from the outside in.
std::vector<pid_t> ProcessesOf(const LabStore& store, const std::string& lab) {
  std::vector<pid_t> processes = {*store.Holder(lab)};
  for (int up = 0; up < 2; ++up) {
    const std::string stat = ReadFileOrEmpty("/proc/" + std::to_string(processes[0]) + "/stat");
    processes.insert(processes.begin(), std::stoi(stat.substr(stat.rfind(')') + 4)));
  }
  return processes;
}

bool LivesOn(pid_t pid) {
  const std::string stat = ReadFileOrEmpty("/proc/" + std::to_string(pid) + "/stat");
  return !stat.empty() && stat[stat.rfind(')') + 2] != 'Z';
}

TEST_F(LabControl, DownLeavesNoProcessWhicheverIsStopped) {
  for (const size_t stopped : {0u, 1u, 2u}) {
    ASSERT_TRUE(Up("one").ok());
    const std::vector<pid_t> processes = ProcessesOf(*store_, "one");
    ASSERT_EQ(kill(processes[stopped], SIGSTOP), 0);
    EXPECT_TRUE(TakeDown(*store_, "one").ok());
    for (pid_t process : processes) EXPECT_FALSE(LivesOn(process)) << stopped << " was stopped";
  }
}

TEST_F(LabControl, WhatADeadDaemonLeftIsEndedByWhoeverComesNext) {
  for (const bool by_list : {true, false}) {
    ASSERT_TRUE(Up("one").ok());
    const std::vector<pid_t> processes = ProcessesOf(*store_, "one");
    for (const size_t stopped : {0u, 1u}) ASSERT_EQ(kill(processes[stopped], SIGSTOP), 0);
    ASSERT_EQ(kill(processes[2], SIGKILL), 0);
    while (store_->Holder("one")) absl::SleepFor(absl::Milliseconds(1));
    if (by_list) {
      EXPECT_THAT(ListLabs(*store_), IsEmpty());
    } else {
      EXPECT_TRUE(Up("one").ok());
    }
    for (pid_t process : processes) EXPECT_FALSE(LivesOn(process));
  }
}

TEST_F(LabControl, UpKilledAtAnyMomentLeavesWhatUpOrDownCleans) {
  for (int moment_ms = 0; moment_ms < 60; moment_ms += 5) {
    fflush(nullptr);
    const pid_t caller = fork();
    if (caller == 0) {
      setsid();
      Up("one").IgnoreError();
      _exit(0);
    }
    absl::SleepFor(absl::Milliseconds(moment_ms));
    kill(caller, SIGKILL);
    waitpid(caller, nullptr, 0);
    if (moment_ms % 10 == 0) {
      const absl::Status s = TakeDown(*store_, "one");
      EXPECT_TRUE(s.ok() || absl::IsNotFound(s)) << moment_ms << " ms: " << s;
    } else {
      const absl::Status s = Up("one");
      EXPECT_TRUE(s.ok() || absl::IsAlreadyExists(s)) << moment_ms << " ms: " << s;
      EXPECT_TRUE(AskLab(*store_, "one", {{"do", "info"}}).ok());
      EXPECT_TRUE(TakeDown(*store_, "one").ok());
    }
  }
}

#ifdef __SANITIZE_THREAD__
constexpr bool kCanEnterNodes = false;
#else
constexpr bool kCanEnterNodes = true;
#endif
constexpr char kWhyNot[] =
    "ThreadSanitizer runs a thread of its own, and no process of two threads may enter a mount "
    "namespace";

TEST_F(LabControl, ProgramsRunInTheirNodeWithTheCallersFolder) {
  if (!kCanEnterNodes) GTEST_SKIP() << kWhyNot;
  ASSERT_TRUE(Up("one").ok());
  const auto [status, text] =
      Exec("one", "w1", {"sh", "-c", "ls /sys/class/net | tr '\\n' ' '; pwd; echo $LONGHAUL_NODE"});
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text, "lo net0 " + std::filesystem::current_path().string() + "\none/w1\n");
  EXPECT_EQ(Exec("one", "w1", {"sh", "-c", "exit 7"}).first, 7);
  EXPECT_EQ(Exec("one", "w1", {"sh", "-c", "kill -TERM $$"}).first, 128 + SIGTERM);
}

TEST_F(LabControl, WhatCannotBeRunSaysWhy) {
  if (!kCanEnterNodes) GTEST_SKIP() << kWhyNot;
  ASSERT_TRUE(Up("one").ok());
  const auto [status, text] = Exec("one", "w1", {"no-such-program"});
  EXPECT_EQ(status, 127);
  EXPECT_THAT(text, HasSubstr("no-such-program in one/w1: "));
  EXPECT_THAT(Exec("one", "w7", {"true"}).second,
              HasSubstr("no node 'w7' in lab 'one'; nodes: w0 w1"));
  EXPECT_THAT(Exec("none", "w1", {"true"}).second, HasSubstr("no lab 'none' is up"));
}

TEST_F(LabControl, ProgramsEndWithTheLab) {
  if (!kCanEnterNodes) GTEST_SKIP() << kWhyNot;
  ASSERT_TRUE(Up("one").ok());
  const pid_t waiting = fork();
  if (waiting == 0) {
    auto status = RunInNode(*store_, "one", "w0", {"sleep", "600"});
    _exit(status.ok() ? *status : 99);
  }
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_TRUE(TakeDown(*store_, "one").ok());
  int status = 0;
  ASSERT_EQ(waitpid(waiting, &status, 0), waiting);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGKILL);
}

TEST_F(LabControl, SetChangesLinksUnderTrafficAndRefusesNonsense) {
  ASSERT_TRUE(Up("one").ok());
  const auto set = [&](const std::string& path, const std::vector<std::string>& words) {
    return AskLab(*store_, "one", {{"do", "set"}, {"path", path}, {"assignments", words}}).status();
  };
  ASSERT_TRUE(set("w0<>w1", {"delay=30ms", "rate=50mbit"}).ok());
  auto info = AskLab(*store_, "one", {{"do", "info"}});
  for (const auto& path : info->message.at("paths")) {
    EXPECT_EQ(path.value("delay_ms", 0.0), 30);
    EXPECT_EQ(path.value("rate_mbit", 0.0), 50);
  }
  EXPECT_EQ(set("w0>w1", {"delay=-1ms"}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(set("w0>w9", {"delay=1ms"}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(set("w0>w1", {}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LabControl, ProbeAndStatsSeeTheTraffic) {
  ASSERT_TRUE(Up("one").ok());
  auto probe =
      AskLab(*store_, "one", {{"do", "probe"}, {"rate", false}, {"pings", 5}}, absl::Minutes(1));
  ASSERT_TRUE(probe.ok()) << probe.status();
  ASSERT_EQ(probe->message.at("paths").size(), 2u);
  EXPECT_EQ(probe->message.at("paths")[0].at("rtt").value("received", 0), 5);
  auto stats = AskLab(*store_, "one", {{"do", "stats"}});
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_GE(stats->message.at("paths")[0].value("packets", 0), 10) << "requests and replies";
  EXPECT_EQ(stats->message.at("paths")[0].value("held_bytes", -1), 0);
  EXPECT_EQ(stats->message.value("unroutable_drops", -1), 0);
}

TEST_F(LabControl, CaptureWritesWhatArrives) {
  ASSERT_TRUE(Up("one").ok());
  const std::string file = folder_ + "/echoes.pcap";
  const pid_t capturing = fork();
  if (capturing == 0) {
    const Fd out(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    CaptureSpec spec{.device = kNodeDevice, .from = NodeAddress(0), .to = ""};
    spec.max_packets = 4;
    spec.max_time = absl::Seconds(20);
    if (!EnterNodeNetwork(*store_, "one", "w1", spec.to).ok()) _exit(2);
    auto captured = Capture(spec, out);
    _exit(captured.ok() && captured->packets == 4 && captured->lost == 0 ? 0 : 1);
  }
  int status = 0;
  while (waitpid(capturing, &status, WNOHANG) == 0) {
    AskLab(*store_, "one", {{"do", "probe"}, {"rate", false}, {"pings", 2}}, absl::Minutes(1))
        .status()
        .IgnoreError();
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // 24 bytes of file, then per echo 16 of record and 98 of frame.
  EXPECT_EQ(std::filesystem::file_size(file), 24u + 4 * (16 + 98));
}

TEST_F(LabControl, UnknownAndBrokenRequestsAreAnsweredAndTheLabGoesOn) {
  ASSERT_TRUE(Up("one").ok());
  EXPECT_EQ(AskLab(*store_, "one", {{"do", "dance"}}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(AskLab(*store_, "one", {{"do", 5}}).ok());
  EXPECT_FALSE(AskLab(*store_, "one", {{"do", "probe"}, {"pings", -3}}).ok());
  auto socket = store_->Connect("one");
  ASSERT_TRUE(socket.ok());
  ASSERT_EQ(write(socket->get(), "rubbish\n", 8), 8);
  EXPECT_FALSE(ReceiveLine(*socket, absl::Seconds(10)).ok());
  EXPECT_TRUE(AskLab(*store_, "one", {{"do", "info"}}).ok());
}

TEST_F(LabControl, OrdinaryUserHasLabsToo) {
  if (geteuid() != 0) GTEST_SKIP() << "every other test here ran as an ordinary user";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const std::string folder = folder_ + "/user";
  const auto [status, text] = InChild([&] {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) return 90;
    prctl(PR_SET_DUMPABLE, 1);  // as after a login; else /proc/self stays root's
    auto store = LabStore::OpenAt(folder);
    if (!store.ok()) return 91;
    const absl::Status up = StartLabDaemon(*store, {.name = "mine",
                                                    .topology = *UniformTopology("colocated", 2),
                                                    .emulator = EmulatorKind::kTap,
                                                    .options = {}});
    if (absl::IsPermissionDenied(up)) {
      printf("%s", std::string(up.message()).c_str());
      return 77;
    }
    if (!up.ok()) return 92;
    const pid_t program = fork();
    if (program == 0) {
      auto code = RunInNode(*store, "mine", "w0", {"sh", "-c", "ls /sys/class/net; id -u"});
      _exit(code.ok() ? *code : 93);
    }
    int code = 0;
    waitpid(program, &code, 0);
    return TakeDown(*store, "mine").ok() && WIFEXITED(code) ? WEXITSTATUS(code) : 94;
  });
  if (status == 77) GTEST_SKIP() << text;
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text, "lo\nnet0\n0\n");
}

}  // namespace
}  // namespace longhaul
