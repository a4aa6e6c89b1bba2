// A file that a user named is written where the name leads, whatever is there.
#include "experiments/record/whole_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class WholeFileTest : public testing::Test {
 protected:
  WholeFileTest() {
    char folder[] = "/tmp/whole-file-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~WholeFileTest() override { fs::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  // Nothing but these is in the folder: no half of a file is left.
  void ExpectFiles(std::vector<std::string> names) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      found.push_back(entry.path().filename());
    }
    EXPECT_THAT(found, testing::UnorderedElementsAreArray(names));
  }

  std::string folder_;
};

TEST_F(WholeFileTest, ARegularFileIsReplacedAndKeepsItsMode) {
  const std::string path = Path("a.csv");
  ASSERT_TRUE(WriteWholeFile(path, "one").ok());
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  std::ifstream earlier(path);  // who reads the earlier file goes on with it
  ASSERT_TRUE(WriteWholeFile(path, "two").ok());
  std::string text;
  earlier >> text;
  EXPECT_EQ(text, "one");
  EXPECT_EQ(Read(path), "two");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  ExpectFiles({"a.csv"});
}

TEST_F(WholeFileTest, ASymbolicLinkStaysAndItsTargetIsWritten) {
  std::ofstream(Path("target")) << "old";
  fs::create_symlink("target", Path("link"));
  fs::create_symlink(Path("link"), Path("link-to-link"));
  fs::create_symlink("not-there", Path("dangling"));
  ASSERT_TRUE(WriteWholeFile(Path("link-to-link"), "new").ok());
  ASSERT_TRUE(WriteWholeFile(Path("dangling"), "made").ok());
  EXPECT_EQ(Read(Path("target")), "new");
  EXPECT_EQ(Read(Path("not-there")), "made");
  for (const char* link : {"link", "link-to-link", "dangling"}) {
    EXPECT_TRUE(fs::is_symlink(Path(link))) << link;
  }
  ExpectFiles({"target", "link", "link-to-link", "dangling", "not-there"});
}

TEST_F(WholeFileTest, ALoopOfLinksAndAFolderAreErrors) {
  fs::create_symlink("b", Path("a"));
  fs::create_symlink("a", Path("b"));
  for (const std::string& path : {Path("a"), folder_, Path("none/x")}) {
    for (const absl::Status& status : {WriteWholeFile(path, "x"), CheckWritable(path)}) {
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write " + path + ": "));
    }
  }
}

TEST_F(WholeFileTest, AFifoGetsTheBytes) {
  const std::string path = Path("fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ASSERT_TRUE(CheckWritable(path).ok());  // neither waits for a reader nor ends one's file
  std::string got;
  std::thread reader([&] { got = Read(path); });
  EXPECT_TRUE(WriteWholeFile(path, "through").ok());
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(path));
  ExpectFiles({"fifo"});
}

TEST_F(WholeFileTest, DevicesStayAndAFullOneIsAnError) {
  for (const char* device : {"/dev/null", "/dev/full"}) {
    ASSERT_TRUE(fs::is_character_file(device)) << device;
  }
  EXPECT_TRUE(WriteWholeFile("/dev/null", "x").ok());
  const absl::Status full = WriteWholeFile("/dev/full", "x");
  EXPECT_TRUE(absl::IsUnavailable(full));
  EXPECT_EQ(std::string(full.message()), "cannot write /dev/full: No space left on device");
  for (const char* device : {"/dev/null", "/dev/full"}) {
    EXPECT_TRUE(fs::is_character_file(device)) << device;
  }
}

// As /dev/null, where root could replace it.
TEST_F(WholeFileTest, ADeviceNodeInAFolderOfOursStays) {
  const std::string path = Path("null");
  if (mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) GTEST_SKIP() << "mknod: not root";
  const int opened = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (opened < 0) GTEST_SKIP() << "this folder's file system has no devices";
  close(opened);
  EXPECT_TRUE(WriteWholeFile(path, "x").ok());
  EXPECT_TRUE(fs::is_character_file(path));
  ExpectFiles({"null"});
}

TEST_F(WholeFileTest, StandardOutputIsWrittenAtItsPlace) {
  const std::string path = Path("out");
  std::ofstream(path).flush();
  const pid_t child = fork();
  if (child == 0) {
    std::freopen(path.c_str(), "w", stdout);
    std::fputs("before\n", stdout);
    const bool ok = WriteWholeFile("/dev/stdout", "csv\n").ok();
    std::fputs("after\n", stdout);
    std::fflush(stdout);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Read(path), "before\ncsv\nafter\n");
}

TEST_F(WholeFileTest, WhatIsNotClosedLeavesNothing) {
  std::ofstream(Path("a")) << "old";
  {
    absl::StatusOr<WholeFile> file = WholeFile::Open(Path("a"));
    ASSERT_TRUE(file.ok());
    file->Write("half");
  }
  EXPECT_EQ(Read(Path("a")), "old");
  ExpectFiles({"a"});
}

}  // namespace
}  // namespace longhaul
