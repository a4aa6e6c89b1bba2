// Folders for large files that a kill leaves behind, and who removes them.
#include "experiments/train/temporary_folder.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

class TemporaryFolderTest : public testing::Test {
 protected:
  TemporaryFolderTest() : below_(testing::TempDir() + "/temporary-" + std::to_string(getpid())) {
    fs::remove_all(below_);
    fs::create_directories(below_);
    setenv("TMPDIR", below_.c_str(), 1);
  }
  ~TemporaryFolderTest() override {
    unsetenv("TMPDIR");
    fs::remove_all(below_);
  }

  // A process that makes one, writes into it and is killed with SIGKILL; the folder's path.
  std::string LeftByAKill() const {
    int told[2];
    EXPECT_EQ(pipe(told), 0);
    const pid_t child = fork();
    if (child == 0) {
      const auto made = TemporaryFolder::Make();
      if (!made.ok()) _exit(1);
      fs::create_directories((*made)->path() + "/given-8/state");
      std::ofstream((*made)->path() + "/given-8/state/outer_start.f32") << std::string(1000, 'x');
      const std::string& path = (*made)->path();
      if (write(told[1], path.data(), path.size()) < 0) _exit(1);
      for (;;) pause();
    }
    close(told[1]);
    char path[4096] = {};
    EXPECT_GT(read(told[0], path, sizeof(path) - 1), 0);
    close(told[0]);
    children_.push_back(child);
    return path;
  }
  void Kill() const {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    children_.clear();
  }

  const std::string below_;
  mutable std::vector<pid_t> children_;
};

TEST_F(TemporaryFolderTest, WhatAKillLeavesIsRemovedByWhoeverMakesTheNext) {
  const std::string left = LeftByAKill();
  Kill();
  ASSERT_TRUE(fs::exists(left + "/given-8/state/outer_start.f32"));
  const auto made = TemporaryFolder::Make(absl::ZeroDuration());
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists((*made)->path()));
}

TEST_F(TemporaryFolderTest, OneThatALivingProcessHoldsStaysHoweverOldItIs) {
  const std::string held = LeftByAKill();
  ASSERT_TRUE(TemporaryFolder::Make(absl::ZeroDuration()).ok());
  EXPECT_TRUE(fs::exists(held + "/given-8/state/outer_start.f32"));
  Kill();
}

TEST_F(TemporaryFolderTest, OneThatMayBeAboutToBeLockedStays) {
  const std::string left = LeftByAKill();
  Kill();
  fs::create_directory(below_ + "/longhaul-state-abcdef");  // made and not yet locked
  ASSERT_TRUE(TemporaryFolder::Make().ok());
  EXPECT_TRUE(fs::exists(left));
  EXPECT_TRUE(fs::exists(below_ + "/longhaul-state-abcdef"));
  ASSERT_TRUE(TemporaryFolder::Make(absl::ZeroDuration()).ok());
  EXPECT_TRUE(fs::is_empty(below_));
}

TEST_F(TemporaryFolderTest, OtherNamesFilesAndWhatLinksLeadToAreLeftAlone) {
  fs::create_directories(below_ + "/longhaul-state-abcdefg");  // a character too many
  fs::create_directories(below_ + "/other/kept");
  fs::create_directory_symlink(below_ + "/other", below_ + "/longhaul-state-linked");
  std::ofstream(below_ + "/longhaul-state-a.file") << "x";
  const std::string left = LeftByAKill();
  Kill();
  fs::create_directory_symlink(below_ + "/other", left + "/given-8/link");
  ASSERT_TRUE(TemporaryFolder::Make(absl::ZeroDuration()).ok());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(below_ + "/longhaul-state-abcdefg"));
  EXPECT_TRUE(fs::exists(below_ + "/longhaul-state-a.file"));
  EXPECT_TRUE(fs::is_symlink(below_ + "/longhaul-state-linked"));
  EXPECT_TRUE(fs::exists(below_ + "/other/kept"));
}

TEST_F(TemporaryFolderTest, AnothersIsLeftAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "who is not root can give nothing away";
  const std::string left = LeftByAKill();
  Kill();
  ASSERT_EQ(chown(left.c_str(), 4711, 4711), 0);
  ASSERT_TRUE(TemporaryFolder::Make(absl::ZeroDuration()).ok());
  EXPECT_TRUE(fs::exists(left));
}

TEST_F(TemporaryFolderTest, WhereThereIsNoRoomForItTheFolderIsNamed) {
  setenv("TMPDIR", (below_ + "/nowhere").c_str(), 1);
  const auto made = TemporaryFolder::Make();
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(made.status().message()), testing::HasSubstr("TMPDIR"));
}

}  // namespace
}  // namespace longhaul
