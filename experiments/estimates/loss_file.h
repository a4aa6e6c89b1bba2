#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace longhaul {

// A losses.csv as reports write it: every final loss of a campaign, by arm and seed.
struct LossFile {
  using ArmAndSeed = std::pair<std::string, int64_t>;
  struct Row {
    int line;
    std::string role, codecs;
    int64_t stages, train_tokens;
    double budget;  // of D0
    double off;     // nat, held out
    std::optional<double> on;
  };
  std::string path, sha256;
  std::map<ArmAndSeed, Row> rows;
};

// NotFound: it cannot be read. InvalidArgument, with file and line: not such a file, an arm and seed
// twice.
absl::StatusOr<LossFile> ReadLossFile(const std::string& path);

}  // namespace longhaul
