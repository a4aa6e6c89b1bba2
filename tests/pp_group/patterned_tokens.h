#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "compressors/numbers/noise.h"
#include "gtest/gtest.h"
#include "pp_group/data/corpus.h"

namespace longhaul {

// A file of tokens below 64 that a small model learns: each three in a row count upwards.
inline std::shared_ptr<const Corpus> PatternedTokens(size_t tokens) {
  const std::string path = testing::TempDir() + "/patterned_" + std::to_string(getpid()) + ".bin";
  std::vector<uint16_t> ids(tokens);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<uint16_t>((SplitMix64(i / 3) + i % 3) % 64);
  }
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()),
             static_cast<std::streamsize>(2 * ids.size()));
  auto corpus = Corpus::Open("tokens:" + path, 64);
  std::filesystem::remove(path);
  EXPECT_TRUE(corpus.ok()) << corpus.status();
  return *corpus;
}

}  // namespace longhaul
