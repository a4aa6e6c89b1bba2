#include "experiments/estimates/loss_file.h"

#include <cmath>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "compressors/numbers/sha256.h"
#include "netem/topology/text_file.h"

namespace longhaul {
namespace {

constexpr std::string_view kHead =
    "arm,role,codecs,stages,crossings,seed,budget,train_tokens,loss_off_nat,loss_on_nat";
enum LossColumn { kArm, kRole, kCodecs, kStages, kCrossings, kSeed, kBudget, kTokens, kOff, kOn };

}  // namespace

absl::StatusOr<LossFile> ReadLossFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  LossFile out{path, Sha256Hex(*text), {}};
  int line = 0;
  std::istringstream lines(*text);
  for (std::string row; std::getline(lines, row);) {
    ++line;
    if (row.ends_with('\r')) row.pop_back();
    const auto wrong = [&](std::string_view what) {
      return absl::InvalidArgumentError(fmt::format("{}:{}: {}", path, line, what));
    };
    if (line == 1) {
      if (row.starts_with("\xef\xbb\xbf")) row.erase(0, 3);  // as some editors begin a file
      if (row != kHead)
        return wrong(fmt::format("not a losses.csv; its first line is '{}'", kHead));
      continue;
    }
    if (row.empty()) continue;
    const std::vector<std::string> cells = absl::StrSplit(row, ',');
    LossFile::Row loss{line, "", "", 0, 0, 0, 0, std::nullopt};
    int64_t seed = 0;
    double on = 0;
    if (cells.size() != kOn + 1) return wrong(fmt::format("{} cells, not 10", cells.size()));
    loss.role = cells[kRole];
    loss.codecs = cells[kCodecs];
    const bool read_on = cells[kOn].empty() || absl::SimpleAtod(cells[kOn], &on);
    if (!absl::SimpleAtoi(cells[kStages], &loss.stages) || !absl::SimpleAtoi(cells[kSeed], &seed) ||
        !absl::SimpleAtoi(cells[kTokens], &loss.train_tokens) ||
        !absl::SimpleAtod(cells[kBudget], &loss.budget) ||
        !absl::SimpleAtod(cells[kOff], &loss.off) || !read_on || !std::isfinite(loss.budget) ||
        !std::isfinite(loss.off) || !std::isfinite(on)) {
      return wrong("stages, seed, budget, train_tokens and losses are finite numbers");
    }
    if (!cells[kOn].empty()) loss.on = on;
    if (!out.rows.emplace(LossFile::ArmAndSeed(cells[kArm], seed), loss).second) {
      return wrong(fmt::format("arm '{}', seed {} stands there twice", cells[kArm], seed));
    }
  }
  return out;
}

}  // namespace longhaul
