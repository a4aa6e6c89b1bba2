#include "experiments/run/link_evidence.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "absl/strings/str_join.h"
#include "experiments/record/record_rows.h"
#include "experiments/spec/plans_of_spec.h"

namespace longhaul {

void EmitFact(EventSink& sink, const std::string& key, const std::string& value) {
  sink.Emit({{"event", "fact"}, {"key", key}, {"value", value}});
}

std::vector<std::pair<int, int>> UsedPairs(const RunSpec& spec) {
  const std::vector<int> rank_of_stage = RanksOfStages(spec);
  const int ranks = static_cast<int>(spec.ranks());
  const int groups = static_cast<int>(spec.outer.groups);
  std::vector<std::pair<int, int>> pairs;
  std::set<std::pair<int, int>> seen;
  const auto both = [&](int a, int b) {
    if (a == b || !seen.insert(std::minmax(a, b)).second) return;
    pairs.emplace_back(a, b);
    pairs.emplace_back(b, a);
  };
  for (int g = 0; g < groups; ++g) {
    const int first = g * ranks;
    for (size_t s = 0; s + 1 < rank_of_stage.size(); ++s) {
      both(first + rank_of_stage[s], first + rank_of_stage[s + 1]);
    }
    if (spec.model.tied_head) both(first + rank_of_stage.front(), first + rank_of_stage.back());
  }
  for (int r = 0; r < ranks; ++r) {
    for (int a = 0; a < groups; ++a) {
      for (int b = a + 1; b < groups; ++b) both(a * ranks + r, b * ranks + r);
    }
  }
  return pairs;
}

absl::Status JudgeLateness(const Lateness& before, const Lateness& after, EventSink& sink) {
  constexpr absl::Duration kStoodStill = absl::Milliseconds(500);
  const int64_t frames = after.frames - before.frames;
  const int64_t late = after.late_frames - before.late_frames;
  if (after.frames == 0) return absl::OkStatus();  // the kernel's netem tells nothing
  EmitFact(sink, "emulator_frames", fmt::format("{}", frames));
  EmitFact(sink, "emulator_frames_late_1ms", fmt::format("{}", late));
  EmitFact(sink, "emulator_latest_ms",
           fmt::format("{:.3f}", absl::ToDoubleMilliseconds(after.max)));
  EmitFact(sink, "emulator_lead_us", fmt::format("{:.0f}", absl::ToDoubleMicroseconds(after.lead)));
  // One in a hundred: the tail is out of its bound.
  EmitFact(sink, kEmulatorPunctualFact, late * 100 <= frames ? "yes" : "no");
  if (after.max <= before.max || after.max < kStoodStill) return absl::OkStatus();
  return absl::AbortedError(
      fmt::format("the emulator stood still: a frame left {:.0f} ms late, bound {:.0f} ms",
                  absl::ToDoubleMilliseconds(after.max), absl::ToDoubleMilliseconds(kStoodStill)));
}

absl::Status JudgeUnread(int64_t before, int64_t after, int64_t frames, EventSink& sink) {
  if (before < 0 || after < 0) return absl::OkStatus();
  const int64_t lost = after - before;
  EmitFact(sink, "emulator_unread_frames", fmt::format("{}", lost));
  if (lost * 1000 <= frames) return absl::OkStatus();
  return absl::AbortedError(fmt::format(
      "{} of {} frames were lost before the emulator could read them: the machine was too busy",
      lost, frames + lost));
}

absl::Status NoEvidence(const std::vector<absl::Status>& judgements) {
  std::vector<std::string> causes;
  absl::StatusCode code = absl::StatusCode::kOk;
  for (const absl::Status& s : judgements) {
    if (s.ok()) continue;
    if (code == absl::StatusCode::kOk) code = s.code();
    causes.emplace_back(s.message());
  }
  if (causes.empty()) return absl::OkStatus();
  return absl::Status(code, fmt::format("trained to the end, but its times are no evidence: {}",
                                        absl::StrJoin(causes, "; ")));
}

}  // namespace longhaul
