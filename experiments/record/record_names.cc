// The words of the record's columns.
#include <array>

#include "experiments/record/record_rows.h"

namespace longhaul {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"reference", "control", "arm", "single"};
constexpr std::array<std::string_view, 8> kStatuses = {
    "running", "ok", "partial", "failed", "diverged", "invalid", "interrupted", "died"};
constexpr std::array<std::string_view, 5> kDirections = {"forward", "backward", "outer", "tied",
                                                         "other"};

}  // namespace

std::string_view ToString(Role role) { return kRoles[static_cast<size_t>(role)]; }
std::string_view ToString(RunStatus status) { return kStatuses[static_cast<size_t>(status)]; }
std::string_view ToString(Direction direction) {
  return kDirections[static_cast<size_t>(direction)];
}
std::string_view ToString(LinkPhase phase) {
  return phase == LinkPhase::kBefore ? "before" : "after";
}
std::string_view ToString(EvalCodec codec) { return codec == EvalCodec::kOn ? "on" : "off"; }

}  // namespace longhaul
