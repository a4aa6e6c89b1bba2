#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/time/time.h"
#include "pp_group/schedule/action.h"

namespace longhaul {

// A piece of a rank's step, between the same two readings of the clock that its report (StepReport)
// is made from.
struct RankSpan {
  enum class Kind {
    kCompute,       // passes, the update
    kSend,          // StepReport::send
    kWait,          // StepReport::wait
    kExchange,      // of StepReport::outer, what is done
    kExchangeWait,  // and what is waited for
  };
  Kind kind;
  absl::Duration begin, end;
  std::optional<Action> action = std::nullopt;  // of the schedule, that it belongs to
  const char* doing = "";                       // beside the action, or alone; a literal
  // Of an exchange: the step after which it was begun (of gradients: in which they cross), and its
  // fragment; else 0.
  int64_t exchange = 0, fragment = 0;
};
// Doing, where the ranks of a group tell each other norms behind an exchange.
inline constexpr char kNormsOfStages[] = "norms of the group's stages";
using SpanWatch = std::function<void(const RankSpan&)>;

// How long it lasted; told to `watch`, which may be empty.
inline absl::Duration Watched(const SpanWatch& watch, const RankSpan& span) {
  if (watch) watch(span);
  return span.end - span.begin;
}

}  // namespace longhaul
