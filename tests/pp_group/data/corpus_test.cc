#include "pp_group/data/corpus.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "compressors/numbers/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/data/corpus_files.h"
#include "pp_group/data/row_order.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CorpusTest : public testing::Test {
 protected:
  CorpusTest() : folder_(testing::TempDir() + "/corpus_" + std::to_string(getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CorpusTest() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = folder_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static std::string Ids(const std::vector<uint16_t>& ids) {
    return {reinterpret_cast<const char*>(ids.data()), 2 * ids.size()};
  }
  static std::string Header(int32_t magic, int32_t version, int32_t count) {
    std::vector<int32_t> header(256, 0);
    header[0] = magic, header[1] = version, header[2] = count;
    return {reinterpret_cast<const char*>(header.data()), 1024};
  }
  static std::vector<uint16_t> Counting(size_t count) {
    std::vector<uint16_t> ids(count);
    std::iota(ids.begin(), ids.end(), uint16_t{0});
    return ids;
  }
  std::string folder_;
};

TEST_F(CorpusTest, EveryWindowIsReadOncePerEpochInAnOrderOfItsOwn) {
  const auto corpus = Corpus::Open("tokens:" + Write("a.bin", Ids(Counting(6400))), 6400);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ((*corpus)->train_tokens(), 6300);
  EXPECT_EQ((*corpus)->held_out_tokens(), 100);
  constexpr int64_t kContext = 10;
  const int64_t rows = (*corpus)->train_rows(kContext);
  EXPECT_EQ(rows, 629);
  std::vector<std::vector<int64_t>> epochs(3);
  std::vector<int64_t> row(kContext + 1);
  for (int64_t i = 0; i < 2 * rows; ++i) {
    (*corpus)->TrainRow(/*seed=*/1, i, kContext, row);
    for (int64_t j = 0; j <= kContext; ++j) ASSERT_EQ(row[j], row[0] + j);
    epochs[i / rows].push_back(row[0]);
  }
  for (int64_t i = 0; i < rows; ++i) {
    (*corpus)->TrainRow(/*seed=*/2, i, kContext, row);
    epochs[2].push_back(row[0]);
  }
  for (const auto& epoch : epochs) {
    EXPECT_EQ(std::set(epoch.begin(), epoch.end()).size(), static_cast<size_t>(rows));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[0], epochs[2]);
}

TEST_F(CorpusTest, HeldOutTokensAreNeverTrainedOn) {
  const auto corpus = Corpus::Open("tokens:" + Write("a.bin", Ids(Counting(6400))), 6400);
  std::vector<int64_t> row(11);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < (*corpus)->held_out_rows(10); ++i) {
    (*corpus)->HeldOutRow(i, 10, row);
    EXPECT_GE(row.front(), 6300);
    seen.insert(row.front());
  }
  EXPECT_EQ(seen.size(), 9u);
}

TEST_F(CorpusTest, TokenFilesWithAndWithoutHeaderAreTheSameCorpus) {
  const std::vector<uint16_t> ids = Counting(1000);
  const auto bare = Corpus::Open("tokens:" + Write("bare.bin", Ids(ids)), 1000);
  const auto headed =
      Corpus::Open("tokens:" + Write("headed.bin", Header(20240520, 1, 1000) + Ids(ids)), 1000);
  ASSERT_TRUE(headed.ok()) << headed.status();
  EXPECT_EQ((*headed)->train_hash(), (*bare)->train_hash());
  EXPECT_EQ((*headed)->held_out_hash(), (*bare)->held_out_hash());
  EXPECT_NE((*headed)->train_hash(), (*headed)->held_out_hash());
}

TEST_F(CorpusTest, BadSourcesAreRefusedWithWhatWasSeen) {
  const auto refusal = [&](const std::string& source, int64_t vocab = 256) {
    const auto corpus = Corpus::Open(source, vocab);
    EXPECT_FALSE(corpus.ok()) << source;
    return corpus.status().ToString();
  };
  const std::vector<uint16_t> ids = Counting(1000);
  EXPECT_THAT(refusal("pile:x"), HasSubstr("text:PATH, tokens:PATH, tokens32:PATH or headers:DIR"));
  EXPECT_THAT(refusal("text:/nowhere/x"), HasSubstr("NOT_FOUND"));
  EXPECT_THAT(refusal("headers:/nowhere"), HasSubstr("NOT_FOUND"));
  EXPECT_THAT(refusal("text:/nowhere/x"), HasSubstr("No such file"));
  EXPECT_THAT(refusal("text:" + folder_), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal("text:" + Write("empty", "")), HasSubstr("0 tokens to train on"));
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal("text:" + folder_ + "/pipe"), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal("text:" + Write("short", "abc")), HasSubstr("too few"));
  EXPECT_THAT(refusal("text:" + Write("t", std::string(999, 'a')), 100), HasSubstr("vocab of 256"));
  EXPECT_THAT(refusal("tokens:" + Write("b", Ids(ids)), 500), HasSubstr("id 500 at token 500"));
  EXPECT_THAT(refusal("tokens:" + Write("odd", Ids(ids) + "x"), 1000),
              HasSubstr("no whole uint16"));
  EXPECT_THAT(refusal("tokens:" + Write("lie", Header(20240520, 1, 999) + Ids(ids)), 1000),
              HasSubstr("the file holds 1000"));
  EXPECT_THAT(refusal("tokens:" + Write("v2", Header(20240520, 2, 1000) + Ids(ids)), 1000),
              HasSubstr("version 2"));
}

TEST_F(CorpusTest, HeadersAreReadInPathOrderAndHeldOutByWholeFiles) {
  std::string train, held_out;
  for (int i = 0; i < 200; ++i) {
    const std::string name = absl::StrCat("d", i % 7, "/f", i, ".h");
    Write(name, absl::StrCat("int ", name, ";\n"));
  }
  Write("d0/ignored.txt", "not a header");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (entry.path().extension() == ".h") {
      names.insert(entry.path().lexically_relative(folder_).string());
    }
  }
  for (const std::string& name : names) {
    absl::StrAppend(IsHeldOut(name) ? &held_out : &train, "int ", name, ";\n");
  }
  const auto tokens = ReadHeaders(folder_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const auto text = [](const MappedTokens& part) {
    std::string all;
    part.Visit([&](std::span<const uint32_t> ids) { all.append(ids.begin(), ids.end()); });
    return all;
  };
  EXPECT_EQ(text(tokens->train), train);
  EXPECT_EQ(text(tokens->held_out), held_out);
  // Rows go on from one file into the next.
  for (const auto& [part, whole] :
       {std::pair{&tokens->train, &train}, {&tokens->held_out, &held_out}}) {
    for (int64_t first = 0; first + 40 <= part->size(); ++first) {
      std::vector<int64_t> row(40);
      part->Copy(first, row);
      ASSERT_EQ(std::string(row.begin(), row.end()), whole->substr(first, 40));
    }
  }
  EXPECT_GT(held_out.size(), 0u);
  EXPECT_GT(train.size(), 10 * held_out.size());
}

// Of this process: what it alone holds in memory.
int64_t OwnBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  }
  return -1;
}

TEST_F(CorpusTest, ShardsFollowOneAnotherAndAPatternsMatchesComeByName) {
  const std::vector<uint16_t> all = Counting(6400);
  const auto shard = [&](const char* name, size_t begin, size_t end) {
    return Write(name, Ids({all.begin() + begin, all.begin() + end}));
  };
  const std::string whole = Write("whole.bin", Ids(all));
  const std::string first = shard("shard_a.bin", 0, 1000),
                    second = shard("shard_b.bin", 1000, 1001),
                    third = shard("shard_c.bin", 1001, 6400);
  const std::string pattern = first.substr(0, first.size() - 5) + "?.bin";
  const auto one = Corpus::Open("tokens:" + whole, 6400);
  ASSERT_TRUE(one.ok()) << one.status();
  for (const std::string& list : {pattern, first + "," + second + "," + third}) {
    const auto shards = Corpus::Open("tokens:" + list, 6400);
    ASSERT_TRUE(shards.ok()) << shards.status();
    EXPECT_EQ((*shards)->train_hash(), (*one)->train_hash());
    EXPECT_EQ((*shards)->held_out_hash(), (*one)->held_out_hash());
  }
  EXPECT_THAT(std::string(Corpus::Open("tokens:" + first + ".none*", 6400).status().message()),
              HasSubstr("no file matches"));
}

TEST_F(CorpusTest, WideIdsAreReadWhole) {
  std::vector<uint32_t> ids(1000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint32_t>(100'000 + i);
  const auto bytes = std::as_bytes(std::span(ids));
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string path = Write("wide.bin", text);
  const auto corpus = Corpus::Open("tokens32:" + path, 101'000);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  std::vector<int64_t> row(11);
  (*corpus)->TrainRow(1, 0, 10, row);
  EXPECT_GE(row.front(), 100'000);
  EXPECT_EQ(row.back(), row.front() + 10);
  EXPECT_THAT(std::string(Corpus::Open("tokens32:" + path, 100'500).status().message()),
              testing::AllOf(HasSubstr("wide.bin"), HasSubstr("id 100500 at token 500")));
  const auto headed =
      Corpus::Open("tokens32:" + Write("headed32.bin", Header(20240801, 7, 1000) + text), 101'000);
  ASSERT_TRUE(headed.ok()) << headed.status();
  EXPECT_EQ((*headed)->train_hash(), (*corpus)->train_hash());
  EXPECT_THAT(
      std::string(
          Corpus::Open("tokens32:" + Write("odd.bin", text + "x"), 101'000).status().message()),
      HasSubstr("no whole uint32"));
}

TEST_F(CorpusTest, AnEvaluationFileIsHeldOutAndTheRestIsTrainedOn) {
  const std::string train = Write("train.bin", Ids(Counting(640)));
  const std::string held_out = Write("eval.bin", Ids(Counting(320)));
  const auto corpus = Corpus::Open("tokens:" + train, 640, "tokens:" + held_out);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ((*corpus)->train_tokens(), 640);
  EXPECT_EQ((*corpus)->held_out_tokens(), 320);
  EXPECT_THAT(
      std::string(Corpus::Open("tokens:" + held_out, 320, "tokens:" + train).status().message()),
      testing::AllOf(HasSubstr("train.bin"), HasSubstr("id 320 at token 320")));
}

TEST_F(CorpusTest, FilesAreMappedNotRead) {
  constexpr int64_t kBytes = int64_t{32} << 20;
  const std::string text = Write("big", std::string(kBytes, 'a'));
  const std::string ids = Write("big.bin", std::string(kBytes, '\1'));
  const int64_t before = OwnBytes();
  ASSERT_GT(before, 0);
  for (const std::string kind : {"text:", "tokens:"}) {
    const auto corpus = Corpus::Open(kind + (kind == "text:" ? text : ids), 65536);
    ASSERT_TRUE(corpus.ok()) << corpus.status();
    EXPECT_EQ((*corpus)->train_hash().size(), 64u);
    EXPECT_LT(OwnBytes() - before, kBytes / 8) << kind;
  }
}

TEST(Permute, IsABijectionForEverySizeAndKey) {
  for (uint64_t size : {1u, 2u, 3u, 15u, 16u, 17u, 1000u}) {
    for (uint64_t key : {0u, 1u, 99u}) {
      std::set<uint64_t> images;
      for (uint64_t i = 0; i < size; ++i) images.insert(Permute(i, size, key));
      EXPECT_EQ(images.size(), size);
      EXPECT_EQ(*images.rbegin(), size - 1);
    }
  }
}

TEST(Sha256, KnownAnswers) {
  const auto hex = [](const std::string& text) {
    return Sha256Hex(std::as_bytes(std::span(text)));
  };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace longhaul
