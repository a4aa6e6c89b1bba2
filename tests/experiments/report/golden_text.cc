#include "tests/experiments/report/golden_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

namespace longhaul {
namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f'); }
bool IsWordPart(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// A number, a hash, or all the text between two of them.
struct Piece {
  enum Kind { kText, kNumber, kHash } kind;
  std::string text;
};

size_t HashEnd(const std::string& s, size_t at) {
  size_t end = at;
  bool digit = false;
  for (; end < s.size() && IsHex(s[end]); ++end) digit |= IsDigit(s[end]);
  const bool whole = end == s.size() || !IsWordPart(s[end]);
  return digit && whole && end - at >= 8 &&
                 s.substr(at, end - at).find_first_of("abcdef") != std::string::npos
             ? end
             : at;
}

size_t NumberEnd(const std::string& s, size_t at) {
  size_t end = at;
  while (end < s.size() && IsDigit(s[end])) ++end;
  if (end + 1 < s.size() && s[end] == '.' && IsDigit(s[end + 1])) {
    for (++end; end < s.size() && IsDigit(s[end]); ++end) continue;
  }
  size_t power = end;
  if (power < s.size() && s[power] == 'e') {
    ++power;
    if (power < s.size() && (s[power] == '-' || s[power] == '+')) ++power;
    if (power < s.size() && IsDigit(s[power])) {
      for (end = power; end < s.size() && IsDigit(s[end]); ++end) continue;
    }
  }
  return end;
}

std::vector<Piece> Split(const std::string& s) {
  std::vector<Piece> out;
  std::string text;
  const auto flush = [&] {
    if (!text.empty()) out.push_back({Piece::kText, text});
    text.clear();
  };
  for (size_t at = 0; at < s.size();) {
    const bool starts = at == 0 || !IsWordPart(s[at - 1]);
    const size_t hash = starts ? HashEnd(s, at) : at;
    if (hash > at) {
      flush();
      out.push_back({Piece::kHash, s.substr(at, hash - at)});
      at = hash;
    } else if (starts && IsDigit(s[at])) {
      flush();
      const size_t end = NumberEnd(s, at);
      out.push_back({Piece::kNumber, s.substr(at, end - at)});
      at = end;
    } else {
      text += s[at++];
    }
  }
  flush();
  return out;
}

double UnitOfLastDigit(const std::string& number) {
  const size_t power = number.find('e'), point = number.find('.');
  const double scale = power == std::string::npos ? 1 : std::pow(10, std::atof(&number[power + 1]));
  if (point == std::string::npos) return 0;  // a whole number is a count
  const size_t digits = (power == std::string::npos ? number.size() : power) - point - 1;
  return scale * std::pow(10, -static_cast<double>(digits));
}

bool Same(const Piece& a, const Piece& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Piece::kHash) return true;
  if (a.kind == Piece::kText || a.text == b.text) return a.text == b.text;
  const double x = std::atof(a.text.c_str()), y = std::atof(b.text.c_str());
  const double within = std::max(
      {1.01 * UnitOfLastDigit(a.text), 1.01 * UnitOfLastDigit(b.text), 1e-5 * std::abs(y)});
  const bool counts = a.text.find_first_of(".e") == std::string::npos &&
                      b.text.find_first_of(".e") == std::string::npos;
  return !counts && std::abs(x - y) <= within;
}

}  // namespace

void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = LONGHAUL_GOLDEN_TABLES "/" + name;
  if (std::getenv("LONGHAUL_WRITE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    FAIL() << path << " was written, not tested";
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path;
  std::ostringstream read;
  read << file.rdbuf();
  const std::vector<Piece> want = Split(read.str()), have = Split(text);
  std::string before;
  for (size_t i = 0; i < std::min(want.size(), have.size()); ++i) {
    ASSERT_TRUE(Same(have[i], want[i]))
        << name << ": '" << have[i].text << "' where '" << want[i].text
        << "' is wanted, behind\n..."
        << before.substr(before.size() - std::min<size_t>(before.size(), 300));
    before += have[i].text;
  }
  EXPECT_EQ(have.size(), want.size()) << name << " is longer or shorter than it was";
}

}  // namespace longhaul
