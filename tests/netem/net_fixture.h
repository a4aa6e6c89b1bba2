#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/netem/lab_harness.h"
#include "tests/netem/shell_command.h"

namespace longhaul {

// `longhaul net` as a user has it, with labs in a folder of its own; none is left.
class NetFixture : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNot(EmulatorKind::kTap); !why.empty()) GTEST_SKIP() << why;
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    setenv("XDG_CACHE_HOME", (folder_ + "/cache").c_str(), 1);
    made_ = true;
  }
  void TearDown() override {
    if (!made_) return;
    Run("net down --all");
    EXPECT_EQ(Run("net list").text, "no lab is up; start one with 'longhaul net up PROFILE'\n");
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/longhaul"));
    std::filesystem::remove_all(folder_);
  }

  static ShellResult Run(const std::string& arguments) {
    return RunShell(LONGHAUL_COMMAND " " + arguments);
  }
  // Why `net run` cannot be tried here; "": it can. It enters a mount namespace after it has
  // started the lab, which no process with a second thread may, and TSan's fork starts one.
  static std::string WhyNoNetRun() {
#ifdef __SANITIZE_THREAD__
    return "net run: TSan's own thread keeps the process out of a mount namespace";
#else
    return "";
#endif
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string file = folder_ + "/" + name;
    std::ofstream(file) << text;
    return file;
  }

  std::string folder_ = testing::TempDir() + "/net-XXXXXX";
  bool made_ = false;
};

}  // namespace longhaul
