#include "compressors/numbers/spelling.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

namespace longhaul {
namespace {

// Levenshtein's distance of a from the beginning of b that is nearest to it, then from all of b:
// "int5" is nearer to "int4-b64" than to "none".
std::pair<size_t, size_t> Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return {*std::min_element(row.begin(), row.end()), row[b.size()]};
}

}  // namespace

std::optional<uint32_t> ParseNumber(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (text.front() == '0') return std::nullopt;
  return value;
}

std::vector<std::string> Nearest(size_t count, std::string_view name,
                                 std::vector<std::string> known) {
  std::stable_sort(known.begin(), known.end(), [name](const auto& a, const auto& b) {
    return Distance(name, a) < Distance(name, b);
  });
  known.resize(std::min(known.size(), count));
  return known;
}

}  // namespace longhaul
