#include "planning/simulator/size_law.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "absl/status/status.h"
#include "absl/strings/numbers.h"

namespace longhaul::simulator {
namespace {

constexpr std::string_view kHead = "arm,quantity,points,term,value,low,high,note";
constexpr size_t kMostLawBytes = 1 << 20;

// Fields of one line; a quoted one may hold commas. The report writes no line breaks within fields.
std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      out.emplace_back();
    } else if (c != '\r') {
      out.back() += c;
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<SizeLaw> ParseSizeLaw(const std::string& text, const std::string& arm,
                                     const std::string& where) {
  const auto wrong = [&where](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", where, what));
  };
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || fmt::format("{}", fmt::join(Fields(line), ",")) != kHead) {
    return wrong(fmt::format(
        "not a law_terms.csv of `longhaul report --law`; want a first line '{}'", kHead));
  }
  std::map<std::string, Measured> found;
  while (std::getline(lines, line)) {
    const std::vector<std::string> f = Fields(line);
    if (f.size() != 8) return wrong(fmt::format("'{}' has {} fields; want 8", line, f.size()));
    if (f[1] != "-ln eta" || f[3] != "exponent in N") continue;
    Measured m{};
    if (!absl::SimpleAtod(f[4], &m.value) || !absl::SimpleAtod(f[5], &m.low) ||
        !absl::SimpleAtod(f[6], &m.high) || !(std::isfinite(m.low) && std::isfinite(m.high)) ||
        !(m.low <= m.value && m.value <= m.high)) {
      return wrong(
          fmt::format("the exponent in N of '{}' is {} in [{}, {}]; want a number in its interval",
                      f[0], f[4], f[5], f[6]));
    }
    found[f[0]] = m;
  }
  std::vector<std::string> names;
  for (const auto& [name, m] : found) names.push_back(name);
  if (found.empty()) return wrong("no exponent of -ln eta in N: its campaigns are of one size");
  if (arm.empty() && found.size() > 1) {
    return wrong(fmt::format("has {} arms; name one with --law-arm: {}", found.size(),
                             fmt::join(names, "; ")));
  }
  const auto at = arm.empty() ? found.begin() : found.find(arm);
  if (at == found.end()) {
    return wrong(fmt::format("no arm '{}'; it has: {}", arm, fmt::join(names, "; ")));
  }
  return SizeLaw{at->first, at->second};
}

absl::StatusOr<SizeLaw> ReadSizeLaw(const std::string& path, const std::string& arm) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMostLawBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.gcount() <= 0) {
    return absl::InvalidArgumentError(fmt::format("cannot read the law {}, or it is empty", path));
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMostLawBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: above {} bytes, no law_terms.csv", path, kMostLawBytes));
  }
  return ParseSizeLaw(text, arm, path);
}

}  // namespace longhaul::simulator
