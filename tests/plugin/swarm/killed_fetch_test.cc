// `longhaul-weights fetch` killed at any moment: the next one goes on, and trusts nothing unhashed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include <nlohmann/json.hpp>

#include "tests/plugin/swarm/swarm_fixture.h"

namespace longhaul {
namespace {

constexpr int64_t kBytes = 12 << 20;

class KilledFetch : public SwarmTest {
 protected:
  pid_t StartFetch(const std::string& manifest, const SwarmAddress& source) const {
    const pid_t child = fork();
    if (child != 0) return child;
    const int out = open((folder() + "/out.json").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDOUT_FILENO);
    const std::string into = folder() + "/got", peer = ToString(source),
                      listen = MemberIp(0) + ":0";
    execl(LONGHAUL_WEIGHTS, "longhaul", "weights", "fetch", manifest.c_str(), "--into",
          into.c_str(), "--peer", peer.c_str(), "--listen", listen.c_str(), "--json", "--quiet",
          nullptr);
    _exit(127);
  }
  nlohmann::json Document() const {
    std::ifstream file(folder() + "/out.json");
    return nlohmann::json::parse(file, nullptr, false);
  }
};

// Noise into the middle of a file of the partial, as a torn write would leave it.
void Tear(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error || size < 4096) return;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size / 2));
  for (int i = 0; i < 2000; ++i) file.put('~');
}

// Until so many bytes of a file are on the disk, 20 s at most.
void AwaitBytes(const std::string& path, int64_t bytes) {
  for (int tries = 0; tries < 2000; ++tries) {
    struct stat file {};
    if (stat(path.c_str(), &file) == 0 && file.st_blocks * 512 >= bytes) return;
    absl::SleepFor(absl::Milliseconds(10));
  }
}

TEST_F(KilledFetch, GoesOnFromItsPartialWithoutTrustingIt) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_TRUE(WriteManifest(*manifest, folder() + "/m.json").ok());
  SwarmOptions slow = At(1, {0});
  slow.upload_bytes_per_s = 6 << 20;
  const auto share = Share::Start(*manifest, weights, slow);
  ASSERT_TRUE(share.ok()) << share.status();
  std::mt19937 random(7);
  const std::string into = folder() + "/got";
  for (int kills = 0; kills < 6; ++kills) {
    const pid_t child = StartFetch(folder() + "/m.json", (*share)->address());
    absl::SleepFor(absl::Milliseconds(50 + random() % 700));
    if (kills == 5) AwaitBytes(into + ".partial/files/model.bin", kBytes / 2);
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) break;  // it was quicker
    EXPECT_FALSE(std::filesystem::exists(into)) << "incomplete, after kill " << kills;
    Tear(into + ".partial/files/model.bin");
  }
  const pid_t child = StartFetch(folder() + "/m.json", (*share)->address());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(SameFiles(weights, into));
  EXPECT_FALSE(std::filesystem::exists(into + ".partial"));
  const nlohmann::json document = Document();
  ASSERT_TRUE(document.is_object());
  EXPECT_EQ(document["bytes"], kBytes);
  EXPECT_GT(document["kept_bytes"], 0) << document.dump();
}

TEST_F(KilledFetch, TerminatedFetchSaysWhereItsPartialIs) {
  const std::string weights = MakeWeights("w", kBytes);
  const auto manifest = MakeManifest(weights, {});
  ASSERT_TRUE(WriteManifest(*manifest, folder() + "/m.json").ok());
  const pid_t child = StartFetch(folder() + "/m.json", {MemberIp(1), 9});
  absl::SleepFor(absl::Milliseconds(700));
  kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_THAT(Document().value("error", ""), testing::HasSubstr("got.partial"));
}

}  // namespace
}  // namespace longhaul
