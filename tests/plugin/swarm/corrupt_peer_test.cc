// A peer that lies: it says that it has everything and sends bytes that do not match.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <libtorrent/add_torrent_params.hpp>
#include <libtorrent/session.hpp>
#include <libtorrent/session_params.hpp>
#include <libtorrent/settings_pack.hpp>

#include "plugin/swarm/torrent.h"
#include "tests/plugin/swarm/swarm_fixture.h"

namespace longhaul {
namespace {

namespace lt = libtorrent;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;

constexpr int64_t kBytes = 6 << 20;

// A libtorrent that checks nothing of what it gives.
class Liar {
 public:
  Liar(const Manifest& manifest, const std::string& weights, const std::string& ip, uint16_t port) {
    lt::settings_pack pack;
    for (const int off : {lt::settings_pack::enable_dht, lt::settings_pack::enable_lsd,
                          lt::settings_pack::enable_upnp, lt::settings_pack::enable_natpmp}) {
      pack.set_bool(off, false);
    }
    pack.set_bool(lt::settings_pack::disable_hash_checks, true);
    pack.set_str(lt::settings_pack::listen_interfaces, ip + ":" + std::to_string(port));
    session_ = std::make_unique<lt::session>(lt::session_params(std::move(pack), {}));
    lt::add_torrent_params params;
    params.ti = *TorrentOf(manifest);
    params.save_path = weights;
    params.flags = lt::torrent_flags::seed_mode;
    session_->add_torrent(params);
  }

 private:
  std::unique_ptr<lt::session> session_;
};

// Every byte of both files turned over.
void Spoil(const std::string& weights) {
  for (const char* name : {"/model.bin", "/outer/state.bin"}) {
    std::ifstream in(weights + name, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    for (char& c : text) c = static_cast<char>(~c);
    std::ofstream(weights + name, std::ios::binary) << text;
  }
}

TEST_F(SwarmTest, CorruptPeerIsNamedAndBannedAndTheOthersDeliver) {
  const std::string weights = MakeWeights("w", kBytes), spoilt = MakeWeights("spoilt", kBytes);
  const auto manifest = MakeManifest(weights, {});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  Spoil(spoilt);
  const Liar liar(*manifest, spoilt, MemberIp(3), 27193);
  SwarmOptions slow = At(1, {0});
  slow.upload_bytes_per_s = 2 << 20;  // so that the liar is asked too
  const auto honest = Share::Start(*manifest, weights, slow);
  ASSERT_TRUE(honest.ok()) << honest.status();
  FetchOptions options = FetchAt(0, {honest->get()});
  options.sources.push_back({MemberIp(3), 27193});
  const auto fetch = Fetch::Start(*manifest, folder() + "/got", options);
  ASSERT_TRUE(fetch.ok()) << fetch.status();
  const auto report = (*fetch)->Wait();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(SameFiles(weights, folder() + "/got"));
  EXPECT_EQ(report->banned, std::vector<std::string>{MemberIp(3)});
  EXPECT_GT(report->rejected_bytes, 0);
  EXPECT_THAT(Notices(), HasSubstr(MemberIp(3) + " sent bytes that do not match"));
  EXPECT_THAT(Notices(), Not(HasSubstr(MemberIp(1) + " sent")));
}

TEST_F(SwarmTest, WhereAllLieTheFetchEndsAndNamesThem) {
  const std::string weights = MakeWeights("w", kBytes), spoilt = MakeWeights("spoilt", kBytes);
  const auto manifest = MakeManifest(weights, {});
  Spoil(spoilt);
  const Liar liar(*manifest, spoilt, MemberIp(3), 27194);
  FetchOptions options = FetchAt(0, {});
  options.sources.push_back({MemberIp(3), 27194});
  const auto fetch = Fetch::Start(*manifest, folder() + "/got", options);
  ASSERT_TRUE(fetch.ok()) << fetch.status();
  const auto report = (*fetch)->Wait();
  EXPECT_TRUE(absl::IsDataLoss(report.status())) << report.status();
  EXPECT_THAT(std::string(report.status().message()), HasSubstr(MemberIp(3)));
  EXPECT_FALSE(std::filesystem::exists(folder() + "/got"));
}

// The torrent delivers what the manifest does not want: its own hashes are asked last.
TEST_F(SwarmTest, ManifestWhoseHashesDoNotFitItsTorrentIsCaught) {
  const std::string weights = MakeWeights("w", kBytes);
  auto manifest = MakeManifest(weights, {});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto share = StartShare(*manifest, weights, 1, {0});
  manifest->files[0].sha256[5] ^= 1;
  const auto fetch = Fetch::Start(*manifest, folder() + "/got", FetchAt(0, {share.get()}));
  ASSERT_TRUE(fetch.ok()) << fetch.status();
  const auto report = (*fetch)->Wait();
  EXPECT_TRUE(absl::IsDataLoss(report.status())) << report.status();
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("model.bin"));
  EXPECT_FALSE(std::filesystem::exists(folder() + "/got"));
}

}  // namespace
}  // namespace longhaul
