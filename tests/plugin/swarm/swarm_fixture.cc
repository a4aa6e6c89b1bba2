#include "tests/plugin/swarm/swarm_fixture.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>

#include "plugin/swarm/file_digest.h"

namespace longhaul {
namespace {

std::string FreshFolder() {
  std::string pattern = testing::TempDir() + "/swarm.XXXXXX";
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  return pattern;
}

void WriteNoise(const std::string& path, int64_t bytes, uint64_t seed) {
  std::mt19937_64 noise(seed);
  std::string text(static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i + 8 <= text.size(); i += 8) {
    const uint64_t word = noise();
    std::memcpy(text.data() + i, &word, 8);
  }
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

SwarmTest::SwarmTest() : folder_(FreshFolder()) {}
SwarmTest::~SwarmTest() { std::filesystem::remove_all(folder_); }

std::string SwarmTest::MakeWeights(const std::string& name, int64_t bytes) const {
  const std::string weights = folder_ + "/" + name;
  std::filesystem::create_directories(weights + "/outer");
  WriteNoise(weights + "/model.bin", bytes * 3 / 4, 1);
  WriteNoise(weights + "/outer/state.bin", bytes - bytes * 3 / 4, 2);
  std::ofstream(weights + "/outer/none");
  return weights;
}

SwarmOptions SwarmTest::At(int member, std::vector<int> others) {
  SwarmOptions options{.listen = {MemberIp(member), 0}};
  for (const int other : others) options.members.push_back(MemberIp(other));
  options.notice = [this](const std::string& line) {
    const std::lock_guard lock(mu_);
    notices_ += line + "\n";
  };
  return options;
}

std::unique_ptr<Share> SwarmTest::StartShare(const Manifest& manifest, const std::string& weights,
                                             int member, std::vector<int> others) {
  auto share = Share::Start(manifest, weights, At(member, std::move(others)));
  EXPECT_TRUE(share.ok()) << share.status();
  return share.ok() ? *std::move(share) : nullptr;
}

FetchOptions SwarmTest::FetchAt(int member, const std::vector<const Share*>& sources) {
  FetchOptions options{.swarm = At(member, {}), .sources = {}, .model = std::nullopt};
  for (const Share* share : sources) options.sources.push_back(share->address());
  options.give_up_after = absl::Seconds(20);
  return options;
}

std::string SwarmTest::Notices() const {
  const std::lock_guard lock(mu_);
  return notices_;
}

std::string MemberIp(int member) { return fmt::format("127.0.0.{}", 10 + member); }

bool SameFiles(const std::string& a, const std::string& b) {
  const auto files = ListFiles(a);
  if (!files.ok() || files != ListFiles(b)) return false;
  for (const std::string& file : *files) {
    const auto one = DigestFile(a + "/" + file), other = DigestFile(b + "/" + file);
    if (!one.ok() || !other.ok() || one->sha256 != other->sha256) return false;
  }
  return true;
}

}  // namespace longhaul
