// What names a lab and its processes in the state folder.
#include "netem/lab_control/lab_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "netem/lab_control/process_identity.h"

namespace longhaul {
namespace {

TEST(ProcessIdentity, IsOfThisProcessAlone) {
  const std::string own = IdentityOf(getpid());
  EXPECT_TRUE(OpenProcess(own).ok());
  std::string later = own;  // the same number, another start
  later[later.find(' ') + 1] ^= 1;
  EXPECT_FALSE(OpenProcess(later).ok());
  EXPECT_FALSE(OpenProcess(own + "x").ok()) << "another boot";
  EXPECT_FALSE(OpenProcess("").ok());
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  const std::string dead = IdentityOf(gone);
  waitpid(gone, nullptr, 0);
  EXPECT_FALSE(OpenProcess(dead).ok());
}

TEST(LabStore, FolderOfSomebodyElseIsRefused) {
  std::string folder = testing::TempDir() + "/open-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  EXPECT_TRUE(LabStore::OpenAt(folder).ok());
  chmod(folder.c_str(), 0755);
  EXPECT_EQ(LabStore::OpenAt(folder).status().code(), absl::StatusCode::kPermissionDenied);
  std::filesystem::remove(folder);
}

TEST(LabStore, BadNamesAreRefused) {
  for (const char* name : {"", "a/b", "..", ".a", "-a", "a b", "a\n"}) {
    EXPECT_FALSE(CheckLabName(name).ok()) << name;
  }
  EXPECT_FALSE(CheckLabName(std::string(49, 'a')).ok());
  EXPECT_TRUE(CheckLabName("eu-1.test_2").ok());
}

}  // namespace
}  // namespace longhaul
