#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// What a rank of a pipeline does, as data: no tensors, no threads, no clock. Letters as in
// pp_group/README.md: S stages (model chunks), P ranks, M micro-batches.
enum class Op {
  kForward,         // F
  kBackward,        // B: both gradients, in one go
  kInputGradient,   // I: the gradient of the stage's input, which the stage before waits for
  kWeightGradient,  // W: the gradient of its parameters, some time after I
};
constexpr bool MakesInputGradient(Op op) { return op == Op::kBackward || op == Op::kInputGradient; }
constexpr bool MakesWeightGradient(Op op) {
  return op == Op::kBackward || op == Op::kWeightGradient;
}

struct Action {
  int stage;
  Op op;
  int microbatch;
  friend bool operator==(const Action&, const Action&) = default;
};

using Program = std::vector<Action>;  // what one rank does, in order

char LetterOf(Op op);
std::string ToString(const Action& action);    // "2F0"
std::string ToString(const Program& program);  // "0F0 0F1 0B0 0B1"
// The whole text, which is as ToString writes it; nullopt: it is no action.
std::optional<Action> ParseAction(std::string_view text);

}  // namespace longhaul
