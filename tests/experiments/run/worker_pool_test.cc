// Workers that end without a word. This program stands in for the worker: the pool starts whatever
// it is itself (/proc/self/exe) with the argument "worker".
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "experiments/run/worker_pool.h"
#include "netem/lab/lab.h"

namespace longhaul {
namespace {

using testing::ElementsAre;

// Nodes that all are the namespace we are in; no links.
class NoLinks : public Emulator {
 public:
  NoLinks() : topology_(*UniformTopology("regional", 2)) {}
  ~NoLinks() override { close(netns_); }
  EmulatorKind kind() const override { return EmulatorKind::kTap; }
  const Topology& topology() const override { return topology_; }
  const EmulatorOptions& options() const override { return options_; }
  absl::Status ChangePath(const PathSpec&) override { return absl::OkStatus(); }
  absl::Status SetCarrier(int, int, Carrier) override { return absl::OkStatus(); }
  int node_netns_fd(int) const override { return netns_; }
  absl::StatusOr<PathCounters> counters(int, int) const override { return PathCounters{}; }
  absl::StatusOr<std::vector<LineCounters>> line_counters() const override {
    return std::vector<LineCounters>();
  }
  absl::StatusOr<int64_t> unroutable_drops() const override { return 0; }
  std::string_view scheduling() const override { return "none"; }
  absl::Duration cpu_time() const override { return absl::ZeroDuration(); }
  Lateness lateness() const override { return {}; }
  absl::Status health() const override { return absl::OkStatus(); }

 private:
  const Topology topology_;
  const EmulatorOptions options_;
  const int netns_ = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
};

// The lab's first process: 0 when the pool says that a rank ended with status 7.
int FirstProcess(int events_fd) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
  RunSpec spec{};
  spec.schedule = {"1f1b", 2};
  spec.limits.threads = 1;
  FdEventSink sink(events_fd);
  NoLinks links;
  WorkerPool pool(spec, links, sink, events_fd, [](const std::string&) {});
  absl::Status status = pool.StartAll("");
  if (status.ok()) status = pool.WaitForAll(absl::Seconds(5));
  const std::string message(status.message());
  const bool told = absl::IsUnavailable(status) &&
                    message.find("the worker ended with status 7") != std::string::npos;
  if (!told) sink.Emit({{"event", "failed"}, {"message", status.ToString()}});
  return told ? 0 : 1;
}

TEST(WorkerPool, AWorkerThatEndsWithAStatusAndNoWordFailsTheRun) {
  int events[2];
  ASSERT_EQ(pipe2(events, O_CLOEXEC), 0);
  const absl::StatusOr<LabProcess> lab =
      StartLab([&] { return FirstProcess(events[1]); }, {events[1]});
  close(events[1]);
  if (!lab.ok()) GTEST_SKIP() << lab.status();
  std::vector<std::string> exits;
  EventReader reader(events[0]);
  for (bool more = true; more;) {
    const auto read = reader.Read([&](const nlohmann::json& e) {
      if (e["event"] == "exited") exits.push_back(e["message"]);
      if (e["event"] == "failed") ADD_FAILURE() << e["message"];
    });
    ASSERT_TRUE(read.ok()) << read.status();
    more = *read == EventReader::More::kYes;
  }
  int status = -1;
  ASSERT_EQ(waitpid(lab->pid, &status, 0), lab->pid);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(exits, ElementsAre("the worker ended with status 7"));  // rank 0 ended well
  close(events[0]);
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "worker") == 0) {
    return std::strcmp(getenv("RANK"), "1") == 0 ? 7 : 0;
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
