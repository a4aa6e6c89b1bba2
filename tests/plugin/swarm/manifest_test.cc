#include "plugin/swarm/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compressors/numbers/sha256.h"
#include "plugin/swarm/file_digest.h"
#include "plugin/swarm/swarm_address.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

// SHA-256 of "abc", from FIPS 180-4.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

Manifest Small() {
  return {.name = "step-40",
          .model = "gpt",
          .run = "r1",
          .step = 40,
          .piece_bytes = 65536,
          .infohash = std::string(64, 'a'),
          .files = {{"a.bin", 3, kAbc}, {"outer/b.bin", 5, std::string(64, 'b')}},
          .torrent = "d4:infoe"};
}

TEST(Manifest, TextComesBackAsItWas) {
  const auto again = ParseManifest(ManifestText(Small()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, Small());
}

TEST(Manifest, DigestIsThatOfTheText) {
  EXPECT_EQ(Sha256Hex("abc"), kAbc);
  EXPECT_EQ(ManifestDigest(Small()), Sha256Hex(ManifestText(Small())));
}

TEST(Manifest, FilesAreCheckedByContent) {
  const std::string folder = testing::TempDir() + "/manifest_files";
  std::filesystem::create_directories(folder + "/outer");
  std::ofstream(folder + "/a.bin") << "abc";
  std::ofstream(folder + "/outer/b.bin") << "12345";
  Manifest manifest = Small();
  manifest.files[1].sha256 = Sha256Hex("12345");
  EXPECT_TRUE(CheckFiles(manifest, folder).ok());
  std::ofstream(folder + "/outer/b.bin") << "12346";
  const absl::Status changed = CheckFiles(manifest, folder);
  EXPECT_TRUE(absl::IsDataLoss(changed));
  EXPECT_THAT(std::string(changed.message()), HasSubstr("outer/b.bin"));
  std::filesystem::remove_all(folder);
}

TEST(Manifest, LinksDoNotTravel) {
  const std::string folder = testing::TempDir() + "/manifest_links";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/a.bin") << "abc";
  EXPECT_EQ(ListFiles(folder).value(), std::vector<std::string>{"a.bin"});
  std::filesystem::create_symlink("/etc/passwd", folder + "/link");
  EXPECT_THAT(std::string(ListFiles(folder).status().message()), HasSubstr("link"));
  std::filesystem::remove_all(folder);
}

TEST(SwarmAddress, OnlyDigits) {
  EXPECT_EQ(ParseSwarmAddress("10.0.0.2:6881").value(), (SwarmAddress{"10.0.0.2", 6881}));
}

TEST(SwarmAddress, OfAnInterfaceThatIsThereAndHasOne) {
  EXPECT_EQ(AddressOfInterface("lo"), "127.0.0.1");
  EXPECT_EQ(AddressOfInterface("none0"), "");
}

TEST(SwarmAddress, RangesOfMembers) {
  const auto one = ParseMember("10.0.0.2");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->first, 0x0a000002u);
  EXPECT_EQ(one->last, 0x0a000002u);
  const auto range = ParseMember("10.0.3.9/16");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->first, 0x0a000000u);
  EXPECT_EQ(range->last, 0x0a00ffffu);
  EXPECT_EQ(ParseMember("0.0.0.0/0")->last, 0xffffffffu);
}

TEST(Manifest, PiecesAreOfSixteenKibToEightMib) {
  const auto with = [](int64_t piece_bytes) {
    Manifest manifest = Small();
    manifest.piece_bytes = piece_bytes;
    return ParseManifest(ManifestText(manifest)).ok();
  };
  EXPECT_TRUE(with(16'384));
  EXPECT_TRUE(with(8'388'608));
  EXPECT_FALSE(with(8'192));
  EXPECT_FALSE(with(16'777'216));
  EXPECT_FALSE(with(16'384 + 32'768));
}

TEST(Manifest, HasAFileAtLeastAndAHundredThousandAtMost) {
  const auto with = [](size_t files) {
    Manifest manifest = Small();
    manifest.files.clear();
    for (size_t i = 0; i < files; ++i) {
      manifest.files.push_back({std::to_string(100'000 + i), 1, kAbc});
    }
    return ParseManifest(ManifestText(manifest)).ok();
  };
  EXPECT_FALSE(with(0));
  EXPECT_TRUE(with(1));
  EXPECT_TRUE(with(100'000));
  EXPECT_FALSE(with(100'001));
}

// 2^50 bytes of one file and of all together; of all nothing is nothing to spread.
TEST(Manifest, BytesReachTheirBoundAndNoFurther) {
  const auto with = [](int64_t first, int64_t second) {
    Manifest manifest = Small();
    manifest.files[0].bytes = first;
    manifest.files[1].bytes = second;
    return ParseManifest(ManifestText(manifest)).ok();
  };
  constexpr int64_t kMost = 1'125'899'906'842'624;
  EXPECT_TRUE(with(kMost, 0));
  EXPECT_TRUE(with(kMost - 1, 1));
  EXPECT_FALSE(with(kMost, 1));
  EXPECT_FALSE(with(kMost + 1, 0));
  EXPECT_FALSE(with(0, 0));
  EXPECT_EQ(TotalBytes(Small()), 8);
}

TEST(SwarmAddress, PortsAndRangesReachBothEnds) {
  EXPECT_EQ(ParseSwarmAddress("0.0.0.0:0")->port, 0);
  EXPECT_EQ(ParseSwarmAddress("255.255.255.255:65535")->port, 65535);
  EXPECT_EQ(ToString(SwarmAddress{"10.1.2.3", 4}), "10.1.2.3:4");
  const auto range = [](const char* text) {
    const MemberRange r = *ParseMember(text);
    return std::pair(r.first, r.last);
  };
  EXPECT_EQ(range("10.0.0.3/32"), std::pair(0x0a000003u, 0x0a000003u));
  EXPECT_EQ(range("10.0.0.3/31"), std::pair(0x0a000002u, 0x0a000003u));
  EXPECT_EQ(range("200.0.0.3/1"), std::pair(0x80000000u, 0xffffffffu));
}

}  // namespace
}  // namespace longhaul
