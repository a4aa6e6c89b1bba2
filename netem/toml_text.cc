#include "netem/toml_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace longhaul {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kFence = 3;       // quotes around a string of several lines
constexpr size_t kMostQuotes = 5;  // two of its own at its end and the fence

// Walks over a text as TOML's grammar does, as far as that tells strings and comments from the
// rest. A text that breaks the grammar may leave it in another place than toml++, but only after
// the error at which toml++ stops.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
      at_ = start_ = kByteOrderMark.size();
    }
  }

  // The place of the first character outside ASCII that toml++ would look at; npos: none.
  size_t Find() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (IsForeign(c)) return at_;
      if (lost_) {
        ++at_;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        if (!MayOpen()) {
          lost_ = true;
          continue;
        }
        SkipString(c);
        if (foreign_ != std::string_view::npos) return foreign_;
      } else {
        ++at_;
      }
    }
    return std::string_view::npos;
  }

 private:
  static bool IsForeign(char c) { return static_cast<unsigned char>(c) >= 0x80; }

  // Elsewhere a quote is a part of a key after a dot or, in a text that breaks the grammar, of a
  // number, which toml++ reads on to its end before it complains.
  bool MayOpen() const {
    return at_ == start_ ||
           std::string_view(" \t\r\n=[{,").find(text_[at_ - 1]) != std::string_view::npos;
  }

  size_t Quotes(char quote) const {
    size_t end = at_;
    while (end < text_.size() && text_[end] == quote) ++end;
    return end - at_;
  }

  void SkipString(char quote) {
    const size_t opening = Quotes(quote);
    const bool several_lines = opening >= kFence;
    at_ += several_lines ? kFence : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == quote) {
        const size_t run = several_lines ? Quotes(quote) : 1;
        at_ += std::min(run, kMostQuotes);
        if (!several_lines || run >= kFence) return;
      } else if (c == '\n' && !several_lines) {
        return;
      } else if (c == '\\' && quote == '"') {
        SkipEscape(several_lines);
        if (foreign_ != std::string_view::npos) return;
      } else {
        ++at_;
      }
    }
  }

  // A backslash at the end of a line swallows the white space after it, so toml++ looks for it.
  void SkipEscape(bool several_lines) {
    ++at_;
    const auto is_space = [&] {
      return at_ < text_.size() &&
             std::string_view(" \t\r\n\v\f").find(text_[at_]) != std::string_view::npos;
    };
    if (several_lines && is_space()) {
      while (is_space()) ++at_;
    } else if (at_ < text_.size() && !IsForeign(text_[at_])) {
      ++at_;
      return;
    }
    if (at_ < text_.size() && IsForeign(text_[at_])) foreign_ = at_;
  }

  std::string_view text_;
  size_t start_ = 0, at_ = 0;
  bool lost_ = false;  // what follows a quote that may not open a string is not understood here
  size_t foreign_ = std::string_view::npos;
};

}  // namespace

absl::Status CheckTomlText(std::string_view text, const std::string& where) {
  const size_t at = Scanner(text).Find();
  if (at == std::string_view::npos) return absl::OkStatus();
  const auto line = std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n') + 1;
  return absl::InvalidArgumentError(fmt::format(
      "{}:{}: a character that is not ASCII outside of strings, quoted keys and comments "
      "(or right after a backslash, or after a dot and a quote)",
      where, line));
}

}  // namespace longhaul
