// Which token is where: the split, the windows and their order, by hand and by the documented
// formulas (SplitMix64, a four-round Feistel network, FNV-1a) in another program.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/data/corpus.h"
#include "pp_group/data/corpus_files.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CorpusOrder : public testing::Test {
 protected:
  CorpusOrder() : folder_(testing::TempDir() + "/corpus_order_" + std::to_string(getpid())) {
    fs::create_directories(folder_);
  }
  ~CorpusOrder() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
    return folder_ + "/" + name;
  }
  // uint16 ids first .. first + count - 1.
  std::string Ids(const std::string& name, int first, int count) {
    std::vector<uint16_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), static_cast<uint16_t>(first));
    return Write(name, {reinterpret_cast<const char*>(ids.data()), 2 * ids.size()});
  }
  static std::vector<int64_t> All(const MappedTokens& tokens) {
    std::vector<int64_t> ids(static_cast<size_t>(tokens.size()));
    tokens.Copy(0, ids);
    return ids;
  }
  static std::vector<int64_t> Range(int64_t begin, int64_t end) {
    std::vector<int64_t> ids(static_cast<size_t>(end - begin));
    std::iota(ids.begin(), ids.end(), begin);
    return ids;
  }

  const std::string folder_;
};

TEST_F(CorpusOrder, TheLast64thOfAllFilesIsHeldOut) {
  // 6400 and 50: a 64th of 6450 is 100, of which the second file holds 50.
  const auto two = ReadTokens(Ids("a", 0, 6400) + "," + Ids("b", 7000, 50),
                              MappedTokens::Width::kUint16, 8000, Part::kSplit);
  ASSERT_TRUE(two.ok()) << two.status();
  std::vector<int64_t> held_out = Range(6350, 6400);
  for (const int64_t id : Range(7000, 7050)) held_out.push_back(id);
  EXPECT_EQ(All(two->train), Range(0, 6350));
  EXPECT_EQ(All(two->held_out), held_out);
  // The order is the list's, not that of the names; 64 + 64 give two, 64 + 63 give one.
  const std::string list = Ids("z", 0, 64) + "," + Ids("c", 64, 64);
  const auto listed = ReadTokens(list, MappedTokens::Width::kUint16, 128, Part::kSplit);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(All(listed->train), Range(0, 126));
  EXPECT_THAT(All(listed->held_out), ElementsAre(126, 127));
  Ids("c", 64, 63);
  const auto one = ReadTokens(list, MappedTokens::Width::kUint16, 128, Part::kSplit);
  EXPECT_THAT(All(one->held_out), ElementsAre(126));
  const auto whole = ReadTokens(list, MappedTokens::Width::kUint16, 128, Part::kWhole);
  EXPECT_EQ(All(whole->train), Range(0, 127));
  EXPECT_EQ(whole->held_out.size(), 0);
}

TEST_F(CorpusOrder, TwoHeldOutTokensAreEnoughAndOneIsNot) {
  EXPECT_TRUE(Corpus::Open("tokens:" + Ids("a", 0, 128), 128).ok());
  const auto few = Corpus::Open("tokens:" + Ids("a", 0, 127), 128);
  EXPECT_THAT(std::string(few.status().message()),
              HasSubstr("126 tokens to train on and 1 held out"));
}

TEST_F(CorpusOrder, BytesAreIdsFromNullTo255) {
  const auto text = ReadText(Write("text", std::string("\x00\x7f\x80\xff", 4)), Part::kWhole);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(All(text->train), ElementsAre(0, 127, 128, 255));
}

TEST_F(CorpusOrder, WindowsAreOneTokenLongerThanTheirContextAndStartEveryContext) {
  const std::string held_out = Ids("eval", 0, 28);
  const auto rows = [&](int tokens, int64_t context) {
    return (*Corpus::Open("tokens:" + Ids("a", 0, tokens), 128, "tokens:" + held_out))
        ->train_rows(context);
  };
  EXPECT_EQ(rows(63, 3), 20);
  EXPECT_EQ(rows(64, 3), 21) << "the last target is the last token";
  EXPECT_EQ(rows(66, 3), 21);
  EXPECT_EQ(rows(67, 3), 22);
  EXPECT_EQ(rows(63, 62), 1);
  EXPECT_EQ(rows(63, 63), 0);
}

TEST_F(CorpusOrder, IsThatOfTheFormulas) {
  // 21 windows of 3 (the last token of 65 is in none), and 9 held out.
  const auto corpus =
      Corpus::Open("tokens:" + Ids("a", 0, 65), 200, "tokens:" + Ids("eval", 100, 28));
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  const auto order = [&](uint64_t seed, int64_t first, int64_t count) {
    std::vector<int64_t> windows, row(4);
    for (int64_t i = first; i < first + count; ++i) {
      (*corpus)->TrainRow(seed, i, 3, row);
      EXPECT_EQ(row, Range(row[0], row[0] + 4));
      EXPECT_EQ(row[0] % 3, 0);
      windows.push_back(row[0] / 3);
    }
    return windows;
  };
  EXPECT_THAT(order(5, 0, 21), ElementsAre(7, 5, 9, 15, 3, 2, 1, 0, 20, 14, 8, 11, 13, 4, 18, 12,
                                           19, 17, 6, 16, 10));
  EXPECT_THAT(order(5, 21, 21),
              ElementsAre(12, 8, 20, 13, 14, 5, 10, 11, 2, 4, 17, 1, 6, 16, 19, 15, 9, 3, 0, 18, 7))
      << "the second epoch";
  EXPECT_THAT(order(6, 0, 21),
              ElementsAre(4, 19, 20, 15, 3, 18, 13, 1, 12, 17, 16, 2, 6, 9, 14, 11, 10, 0, 7, 8, 5))
      << "another seed";
  std::vector<int64_t> held_out, row(4);
  for (int64_t i = 0; i < (*corpus)->held_out_rows(3); ++i) {
    (*corpus)->HeldOutRow(i, 3, row);
    EXPECT_EQ(row, Range(row[0], row[0] + 4));
    held_out.push_back((row[0] - 100) / 3);
  }
  EXPECT_THAT(held_out, ElementsAre(5, 7, 1, 8, 0, 2, 4, 3, 6));
}

TEST_F(CorpusOrder, WholeFilesAreHeldOutByTheHashOfTheirPath) {
  std::vector<int> held_out;
  for (int i = 0; i < 200; ++i) {
    if (IsHeldOut("d/f" + std::to_string(i) + ".h")) held_out.push_back(i);
  }
  EXPECT_THAT(held_out, ElementsAre(49, 50, 152, 165, 174, 184));
}

TEST_F(CorpusOrder, HeadersEndBeforeTheFileThatWouldPass64MiB) {
  fs::create_directories(folder_ + "/d");
  const auto tokens = [&](uintmax_t bytes) {
    Write("d/a.h", std::string(1024, 'a'));
    Write("d/b.h", "");
    fs::resize_file(folder_ + "/d/b.h", bytes);  // a hole: nothing is written
    Write("d/c.h", "c");
    const auto read = ReadHeaders(folder_);
    return read.ok() ? read->train.size() + read->held_out.size() : -1;
  };
  constexpr int64_t kLimit = int64_t{64} << 20;
  EXPECT_EQ(tokens(kLimit - 1024), kLimit) << "c.h is one byte too much";
  EXPECT_EQ(tokens(kLimit - 1025), kLimit);
  EXPECT_EQ(tokens(kLimit - 1023), 1024) << "what follows is not squeezed in";
}

TEST_F(CorpusOrder, AHeaderIsReadFromItsFullLengthOn) {
  const auto file = [&](std::vector<int32_t> header, const std::vector<uint16_t>& ids) {
    header.resize(256, 0);
    std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
    bytes.append(reinterpret_cast<const char*>(ids.data()), 2 * ids.size());
    const auto read =
        ReadTokens(Write("h", bytes), MappedTokens::Width::kUint16, 65536, Part::kWhole);
    return read.ok() ? All(read->train) : std::vector<int64_t>{-1};
  };
  EXPECT_THAT(file({20240520, 1, 3}, {5, 6, 7}), ElementsAre(5, 6, 7));
  EXPECT_THAT(file({20240520, 1, 4}, {5, 6, 7}), ElementsAre(-1)) << "one fewer than it says";
  EXPECT_THAT(file({20240520, 1, 2}, {5, 6, 7}), ElementsAre(-1));
  EXPECT_THAT(file({20240520, 0, 3}, {5, 6, 7}), ElementsAre(-1));
  EXPECT_EQ(file({20240521, 1, 3}, {5, 6, 7}).size(), 515u) << "no header: 512 ids of it are data";
}

// Only ids below the vocabulary; the place that is told counts from the file's first id.
TEST_F(CorpusOrder, TheFirstIdBeyondTheVocabularyIsTold) {
  EXPECT_TRUE(Corpus::Open("tokens:" + Ids("a", 0, 15000), 15000).ok());
  const auto beyond = Corpus::Open("tokens:" + Ids("a", 0, 15000), 14998);
  EXPECT_THAT(std::string(beyond.status().message()),
              HasSubstr("id 14998 at token 14998, but vocab is 14998"));
}

}  // namespace
}  // namespace longhaul
