#include "pp_group/schedule/action.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace longhaul {
namespace {

constexpr char kLetters[] = {'F', 'B', 'I', 'W'};  // by Op

// Reads a number as std::to_string writes it: no sign, no leading zero.
std::optional<int> TakeNumber(std::string_view* text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  const size_t length = static_cast<size_t>(end - text->data());
  const bool plain = length > 0 && text->front() != '-' && (length == 1 || text->front() != '0');
  if (error != std::errc() || !plain) return std::nullopt;
  text->remove_prefix(length);
  return value;
}

}  // namespace

char LetterOf(Op op) { return kLetters[static_cast<int>(op)]; }

std::string ToString(const Action& action) {
  return absl::StrCat(action.stage, std::string(1, LetterOf(action.op)), action.microbatch);
}

std::string ToString(const Program& program) {
  return absl::StrJoin(program, " ", [](std::string* out, const Action& action) {
    absl::StrAppend(out, ToString(action));
  });
}

std::optional<Action> ParseAction(std::string_view text) {
  const std::optional<int> stage = TakeNumber(&text);
  if (!stage || text.empty()) return std::nullopt;
  const char letter = text.front();
  text.remove_prefix(1);
  const std::optional<int> microbatch = TakeNumber(&text);
  if (!microbatch || !text.empty()) return std::nullopt;
  for (Op op : {Op::kForward, Op::kBackward, Op::kInputGradient, Op::kWeightGradient}) {
    if (LetterOf(op) == letter) return Action{*stage, op, *microbatch};
  }
  return std::nullopt;
}

}  // namespace longhaul
