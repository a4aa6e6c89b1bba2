#include "experiments/spec/toml_limits.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace longhaul {
namespace {

// Knows as much of TOML as it takes to tell a dot of a key from a dot inside a string or comment.
// Where a text is no TOML the two may differ, but there the parser stops too.
class Scan {
 public:
  Scan(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}

  absl::Status Run() {
    while (at_ < text_.size() && error_.ok()) Step();
    return error_;
  }

 private:
  void Step() {
    const char c = text_[at_];
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return;
    }
    if (c == '"' || c == '\'') {
      SkipString(c);
      return;
    }
    ++at_;
    if (c == '\n') ++line_;
    if (c == '.') {
      if (++dots_ >= kMaxKeyParts) Fail(fmt::format("a key of more than {} parts", kMaxKeyParts));
    } else if (c == '\n' || c == '=' || c == ',' || c == '[' || c == '{') {
      dots_ = 0;
    }
    if (c == '[' || c == '{') {
      if (++depth_ > kMaxBracketDepth) {
        Fail(fmt::format("brackets more than {} deep", kMaxBracketDepth));
      }
    } else if (c == ']' || c == '}') {
      depth_ = std::max(0, depth_ - 1);
    }
  }

  // From the opening quotes to behind the closing ones, or to where the text ends.
  void SkipString(char quote) {
    const std::string three(3, quote);
    const bool long_form = text_.substr(at_).starts_with(three);
    at_ += long_form ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        if (!long_form) return;  // no string ends like this
        ++line_;
      }
      if (c == quote && (!long_form || text_.substr(at_).starts_with(three))) break;
      const bool escape = c == '\\' && quote == '"' && !text_.substr(at_ + 1).starts_with('\n');
      at_ += escape ? 2 : 1;
    }
    at_ = std::min(at_ + (long_form ? 3 : 1), text_.size());
    // A long string may end with quotes of its own: """a""""" holds a"".
    for (int own = 0; long_form && own < 2 && at_ < text_.size() && text_[at_] == quote; ++own) {
      ++at_;
    }
  }

  void Fail(std::string_view what) {
    error_ = absl::InvalidArgumentError(fmt::format("{}:{}: {}", origin_, line_, what));
  }

  const std::string_view text_, origin_;
  size_t at_ = 0;
  int line_ = 1, dots_ = 0, depth_ = 0;
  absl::Status error_;
};

}  // namespace

absl::Status CheckTomlLimits(std::string_view text, std::string_view origin) {
  if (text.size() > kMaxTomlBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: longer than {} bytes: no spec is", origin, kMaxTomlBytes));
  }
  return Scan(text, origin).Run();
}

}  // namespace longhaul
