// Files of other kinds than their source's word says: each was written by hand here as its own
// program would, and is refused in one line with the right word. Beside them: windows of the held-out
// part that the training part has too, counted by hand.
#include "pp_group/data/corpus_format.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pp_group/data/corpus.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

template <typename T>
std::string BytesOf(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), sizeof(T) * numbers.size()};
}

// Ids as a tokenizer of 50257 words gives them: none is special.
template <typename T>
std::vector<T> Drawn(size_t count, int vocab = 50257) {
  std::mt19937 random(7);
  std::vector<T> ids(count);
  for (T& id : ids) id = static_cast<T>(random() % static_cast<unsigned>(vocab));
  return ids;
}

std::string Prose(size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "It was the best of times, it was the worst of times.\n";
  return text.substr(0, bytes);
}

class CorpusFormat : public testing::Test {
 protected:
  CorpusFormat() : folder_(testing::TempDir() + "/corpus_format_" + std::to_string(getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CorpusFormat() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
    return folder_ + "/" + name;
  }
  // What `word` says to a file of this content, "" where it takes it.
  std::string Says(const std::string& word, const std::string& content,
                   const std::string& name = "ids.bin", int64_t vocab = 50257) {
    const auto corpus = Corpus::Open(word + Write(name, content), vocab);
    return corpus.ok() ? "" : std::string(corpus.status().message());
  }
  std::string folder_;
};

TEST_F(CorpusFormat, WhatIsRightIsTaken) {
  EXPECT_EQ(Says("tokens:", BytesOf(Drawn<uint16_t>(4000))), "");
  EXPECT_EQ(Says("tokens32:", BytesOf(Drawn<uint32_t>(4000))), "");
  EXPECT_EQ(Says("tokens:", BytesOf(Drawn<uint16_t>(4000, 27)), "letters.bin", 256), "");
  EXPECT_EQ(Says("tokens32:", BytesOf(Drawn<uint32_t>(4000, 27)), "letters32.bin", 256), "");
  EXPECT_EQ(Says("tokens:", BytesOf(std::vector<uint16_t>(4000, 0)), "zeros.bin"), "");
  EXPECT_EQ(Says("text:", Prose(4000)), "");
  EXPECT_EQ(Says("text:", Prose(100'000)), "");
  EXPECT_EQ(Says("text:", "{\"a document\": 1}\n" + Prose(4000)), "") << "prose that begins so";
  std::string german, chinese;  // in Latin-1 and in UTF-8, both cut within a character
  for (int i = 0; i < 50'000; ++i) german += "f\xfcr ", chinese += "\xe4\xb8\xad\xe6\x96\x87";
  EXPECT_EQ(Says("text:", german), "");
  EXPECT_EQ(Says("text:", chinese.substr(0, chinese.size() - 1)), "");
}

TEST_F(CorpusFormat, WiderIdsThanTheWordSaysAreNamed) {
  const std::string wide = BytesOf(Drawn<uint32_t>(4000));
  EXPECT_THAT(Says("tokens:", wide), AllOf(HasSubstr("ids.bin"), EndsWith("want tokens32:")));
  // A vocabulary of more than 65,536 words: the upper halves are 0 or 1. And one of few letters.
  EXPECT_THAT(Says("tokens:", BytesOf(Drawn<uint32_t>(4000, 128'000)), "wide.bin", 128'000),
              EndsWith("want tokens32:"));
  EXPECT_THAT(Says("tokens:", BytesOf(Drawn<uint32_t>(4000, 27)), "letters.bin", 256),
              EndsWith("want tokens32:"));
  EXPECT_THAT(Says("tokens:", BytesOf(Drawn<uint64_t>(4000))), HasSubstr("64-bit ids"));
  EXPECT_THAT(Says("tokens32:", BytesOf(Drawn<uint64_t>(4000))), HasSubstr("64-bit ids"));
  // Only in the middle of a file that begins with padding.
  std::vector<uint32_t> padded(50'000, 0);
  const std::vector<uint32_t> ids = Drawn<uint32_t>(100'000);
  padded.insert(padded.end(), ids.begin(), ids.end());
  EXPECT_THAT(Says("tokens:", BytesOf(padded)), EndsWith("want tokens32:"));
}

TEST_F(CorpusFormat, AnIdBeyondVocabSaysWhatWouldFit) {
  const std::string narrow = BytesOf(Drawn<uint16_t>(4000));
  EXPECT_THAT(Says("tokens32:", narrow), EndsWith("all are below it as uint16: want tokens:"));
  std::string swapped = BytesOf(Drawn<uint16_t>(4000, 300));
  for (size_t i = 0; i < swapped.size(); i += 2) std::swap(swapped[i], swapped[i + 1]);
  EXPECT_THAT(Says("tokens:", swapped, "big.bin", 300), EndsWith("swap the bytes of each"));
  EXPECT_THAT(Says("tokens:", narrow, "ids.bin", 40'000),
              AllOf(HasSubstr("but vocab is 40000"), Not(HasSubstr("all are below"))));
}

TEST_F(CorpusFormat, TextAndTokensAreNotTakenForOneAnother) {
  EXPECT_THAT(Says("tokens:", Prose(4000), "a.txt", 65536), EndsWith("want text:"));
  EXPECT_THAT(Says("tokens32:", Prose(4000), "a.txt", 1 << 30), EndsWith("want text:"));
  EXPECT_THAT(Says("text:", BytesOf(Drawn<uint16_t>(4000))), EndsWith("want tokens:"));
  EXPECT_THAT(Says("text:", BytesOf(Drawn<uint32_t>(4000))), EndsWith("want tokens32:"));
  std::string utf16 = "\xff\xfe";
  for (const char c : Prose(4000)) utf16 += {c, '\0'};
  EXPECT_THAT(Says("text:", utf16), HasSubstr("UTF-16"));
}

TEST_F(CorpusFormat, HeadersOfOtherProgramsAreKnown) {
  const std::string ids = BytesOf(Drawn<uint16_t>(4000));
  const auto npy = [&](const std::string& type) {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (4000,), }";
    header.resize(117, ' ');
    return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + ids;
  };
  for (const std::string word : {"tokens:", "tokens32:", "text:"}) {
    EXPECT_THAT(Says(word, npy("<u2")),
                AllOf(HasSubstr(".npy of <u2)"), HasSubstr("`longhaul import ids FILE")));
    EXPECT_THAT(Says(word, npy("<i8")), HasSubstr(".npy of <i8)"));
    EXPECT_THAT(Says(word, "PAR1" + ids), HasSubstr("`longhaul import ids FILE"));
    EXPECT_THAT(Says(word, "\x1f\x8b\x08" + ids), HasSubstr("gzip"));
    EXPECT_THAT(Says(word, "PK\x03\x04" + ids), HasSubstr("zip"));
    EXPECT_THAT(Says(word, "\x28\xb5\x2f\xfd" + ids), HasSubstr("zstd"));
    EXPECT_THAT(Says(word, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
                HasSubstr("git lfs pull"));
    EXPECT_THAT(Says(word, "{\"text\": \"a\"}\n{\"text\": \"b\"}\n" + Prose(4000)),
                AllOf(HasSubstr("JSON lines"), HasSubstr("`longhaul import text")));
    EXPECT_THAT(Says(word, std::string("\x02\0\0\0\0\0\0\0{\"", 10) + ids),
                HasSubstr("safetensors"));
  }
  std::vector<int32_t> header(256, 0);
  header[0] = 20240801, header[1] = 7, header[2] = 2000;
  EXPECT_THAT(Says("tokens:", BytesOf(header) + BytesOf(Drawn<uint32_t>(2000))),
              AllOf(HasSubstr("uint32 by its header"), EndsWith("want tokens32:")));
  header[0] = 20240520, header[1] = 1, header[2] = 4000;
  for (const std::string word : {"text:", "tokens32:"}) {
    EXPECT_THAT(Says(word, BytesOf(header) + ids),
                AllOf(HasSubstr("uint16 by its header"), EndsWith("want tokens:")));
  }
}

// Magic, version 1, the dtype's code, two counts.
std::string MegatronIndex(char code) {
  return std::string("MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17) + code + std::string(16, '\1');
}

TEST_F(CorpusFormat, OfAMegatronDataSetTheIndexSaysTheWidth) {
  const std::string ids = BytesOf(Drawn<uint16_t>(4000)), wide = BytesOf(Drawn<uint32_t>(4000));
  Write("set.idx", MegatronIndex(8));
  EXPECT_EQ(Says("tokens:", ids, "set.bin"), "");
  EXPECT_THAT(Says("tokens32:", ids, "set.bin"),
              AllOf(HasSubstr("Megatron"), HasSubstr("16 bits wide; want tokens:")));
  EXPECT_THAT(Says("text:", ids, "set.bin"), HasSubstr("want tokens:"));
  Write("set.idx", MegatronIndex(4));
  EXPECT_THAT(Says("tokens:", wide, "set.bin"), HasSubstr("32 bits wide; want tokens32:"));
  EXPECT_EQ(Says("tokens32:", wide, "set.bin"), "");
  Write("set.idx", MegatronIndex(5));
  EXPECT_THAT(Says("tokens32:", wide, "set.bin"), HasSubstr("neither 16 nor 32"));
  EXPECT_THAT(Says("tokens:", MegatronIndex(8), "other.idx"),
              AllOf(HasSubstr("the index of a Megatron"), HasSubstr("want tokens:FILE.bin")));
  Write("set.idx", "an index of something else");
  EXPECT_EQ(Says("tokens:", ids, "set.bin"), "");
}

TEST_F(CorpusFormat, HeldOutWindowsInTheTrainingTextAreCounted) {
  constexpr int64_t kContext = 10;
  const std::vector<uint16_t> all = Drawn<uint16_t>(6400);
  const auto count = [](const std::string& source, const std::string& held_out) {
    const auto corpus = Corpus::Open(source, 50257, held_out);
    EXPECT_TRUE(corpus.ok()) << corpus.status();
    const int64_t rows = (*corpus)->held_out_rows(kContext);
    return std::pair((*corpus)->HeldOutRowsInTraining(rows, kContext), rows);
  };
  const std::string a = "tokens:" + Write("a.bin", BytesOf(all));
  EXPECT_EQ(count(a, ""), std::pair(int64_t{0}, int64_t{9}));  // 100 of 6400 ids held out
  // The file twice: its end is in its first copy. Evaluated on what it trains.
  EXPECT_EQ(count(a + "," + a.substr(7), ""), std::pair(int64_t{19}, int64_t{19}));
  EXPECT_EQ(count(a, a), std::pair(int64_t{639}, int64_t{639}));
  // Evaluated on ids 6000 to 6400 of it and 400 others: windows 0 to 38 are whole in it, window 39
  // has the first of the others.
  std::vector<uint16_t> half(all.begin() + 6000, all.end());
  for (int i = 0; i < 400; ++i) half.push_back(50256);
  EXPECT_EQ(count(a, "tokens:" + Write("half.bin", BytesOf(half))),
            std::pair(int64_t{39}, int64_t{79}));
  // A shard begins with what the other ended with, so that windows lie across the border of files.
  const std::string first = Write("s1.bin", BytesOf(std::vector(all.begin(), all.begin() + 3005)));
  const std::string second = Write("s2.bin", BytesOf(std::vector(all.begin() + 3005, all.end())));
  const std::string middle =
      "tokens:" + Write("mid.bin", BytesOf(std::vector(all.begin() + 3000, all.begin() + 3011)));
  EXPECT_EQ(count("tokens:" + first + "," + second, middle), std::pair(int64_t{1}, int64_t{1}));
}

TEST_F(CorpusFormat, TextIsNotEvaluatedOnTokensNorTokensOnText) {
  const std::string text = "text:" + Write("a.txt", Prose(4000));
  const std::string ids = "tokens:" + Write("a.bin", BytesOf(Drawn<uint16_t>(4000)));
  const std::string wide = "tokens32:" + Write("b.bin", BytesOf(Drawn<uint32_t>(4000)));
  for (const auto& [source, held_out] : {std::pair{text, ids}, {ids, text}, {wide, text}}) {
    EXPECT_THAT(std::string(Corpus::Open(source, 50257, held_out).status().message()),
                HasSubstr("one is text and the other token ids"));
  }
  EXPECT_TRUE(Corpus::Open(ids, 50257, wide).ok());
  EXPECT_TRUE(Corpus::Open(text, 50257, text).ok());
}

TEST_F(CorpusFormat, OnlyTheRowsThatAreEvaluatedCount) {
  const std::vector<uint16_t> all = Drawn<uint16_t>(6400);
  const std::string a = "tokens:" + Write("a.bin", BytesOf(all));
  const auto corpus = Corpus::Open(a, 50257, a);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ((*corpus)->HeldOutRowsInTraining(8, 10), 8);
  EXPECT_EQ((*corpus)->HeldOutRowsInTraining(0, 10), 0);
}

}  // namespace
}  // namespace longhaul
