#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "netem/lab_control/lab_client.h"
#include "netem/lab_control/lab_daemon.h"
#include "netem/lab_control/node_entry.h"
#include "tests/netem/lab_harness.h"

namespace longhaul {

// A state folder of its own, and no lab left in it.
class LabControl : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNot(EmulatorKind::kTap); !why.empty()) GTEST_SKIP() << why;
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    auto store = LabStore::OpenAt(folder_ + "/labs");
    ASSERT_TRUE(store.ok()) << store.status();
    store_.emplace(*std::move(store));
  }

  void TearDown() override {
    if (!store_) return;
    for (const std::string& lab : store_->Names()) EXPECT_TRUE(TakeDown(*store_, lab).ok()) << lab;
    EXPECT_THAT(store_->Names(), testing::IsEmpty());
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/labs"));
    std::filesystem::remove_all(folder_);
  }

  absl::Status Up(const std::string& name, const std::string& profile = "colocated") {
    auto topology = UniformTopology(profile, 2);
    if (!topology.ok()) return topology.status();
    return StartLabDaemon(*store_, {.name = name,
                                    .topology = *std::move(topology),
                                    .emulator = EmulatorKind::kTap,
                                    .options = {}});
  }

  // In a process of its own, as entering a node is for good. Returns its exit status and output.
  std::pair<int, std::string> Exec(const std::string& lab, const std::string& node,
                                   const std::vector<std::string>& argv) {
    return InChild([&] {
      auto status = RunInNode(*store_, lab, node, argv);
      if (!status.ok()) printf("%s", std::string(status.status().message()).c_str());
      return status.ok() ? *status : 99;
    });
  }

  std::pair<int, std::string> InChild(const std::function<int()>& body) {
    int out[2];
    EXPECT_EQ(pipe(out), 0);
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      dup2(out[1], STDOUT_FILENO);
      dup2(out[1], STDERR_FILENO);
      close(out[0]);
      close(out[1]);
      const int code = body();
      fflush(nullptr);
      _exit(code);
    }
    close(out[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = read(out[0], buffer, sizeof buffer)) > 0;) text.append(buffer, n);
    close(out[0]);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text};
  }

  std::string folder_ = testing::TempDir() + "/labs-XXXXXX";
  std::optional<LabStore> store_;
};

}  // namespace longhaul
