#include "experiments/launch/program_verdict.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"

namespace longhaul {
namespace {

// Largest that this process has been. The kernel counts a program's peak from before its exec, when
// it was a copy of us.
int64_t OwnPeakBytes() {
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  return int64_t{own.ru_maxrss} << 10;
}

// Tokens are rounded to whole steps: a program's figure may differ from what it was given by so much.
constexpr double kTokenTolerance = 0.1;

absl::Status JudgeEnds(const RunSpec& spec, const ProgramRun& run) {
  if (run.ended.status == 0) return absl::OkStatus();
  if (run.ended.status == kTimedOut) {
    std::vector<size_t> late, over;
    for (size_t rank = 0; rank < run.ended.ranks.size(); ++rank) {
      (run.ended.ranks[rank].wall_s < spec.program->timeout_s ? over : late).push_back(rank);
    }
    if (!late.empty()) {
      return absl::UnavailableError(fmt::format(
          "after program.timeout_s = {:g} s rank{} {} of {} had to be ended{}; the last line of rank "
          "{}: {}",
          spec.program->timeout_s, late.size() == 1 ? "" : "s", fmt::join(late, ", "),
          run.ended.ranks.size(),
          over.empty() ? "" : fmt::format(", rank {} had ended before", fmt::join(over, ", ")),
          late[0], run.last_lines[late[0]]));
    }
  }
  if (!run.ended.first_to_fail && run.ended.status > 128) {
    return absl::UnavailableError(
        fmt::format("ended by {} before any rank failed", EndText(run.ended.status)));
  }
  const size_t rank = run.ended.first_to_fail.value_or(0);
  const std::string& line = run.last_lines[rank];
  return absl::UnavailableError(
      fmt::format("rank {} ended with {}; {}", rank, EndText(run.ended.ranks[rank].status),
                  line.empty() ? "it printed nothing" : "its last line: " + line));
}

absl::Status JudgeLoss(const ProgramRun& run) {
  for (size_t rank = 0; rank < run.logs.size(); ++rank) {
    const ProgramLog& log = run.logs[rank];
    if (log.bad_lines == 0) continue;
    return absl::AbortedError(
        fmt::format("rank {} wrote {} lines to $LONGHAUL_LOG that are none of longhaul.log's; {}",
                    rank, log.bad_lines, log.first_bad));
  }
  std::optional<size_t> teller;
  for (size_t rank = 0; rank < run.logs.size(); ++rank) {
    const std::optional<double>& loss = run.logs[rank].final_nat;
    if (!loss) continue;
    const bool differs = teller && *loss != *run.logs[*teller].final_nat && !std::isnan(*loss);
    if (differs) {
      return absl::AbortedError(fmt::format(
          "ranks {} and {} told different losses, {} and {}: tell the mean, on one rank or on all",
          *teller, rank, *run.logs[*teller].final_nat, *loss));
    }
    if (!teller || std::isnan(*loss)) teller = rank;
  }
  if (!teller) {
    return absl::AbortedError(
        FinalOnOf(run.logs)
            ? "it told final_on= and no final=: the held-out loss with exact boundaries is what the "
              "price is of"
            : "it never told its loss: no rank called longhaul.log(final=...)");
  }
  if (!std::isnan(*run.logs[*teller].final_nat)) return absl::OkStatus();
  return absl::OutOfRangeError(
      fmt::format("diverged: rank {} told a final loss that is no finite number", *teller));
}

// Ranks of a pipeline may all tell the same tokens, those of data parallel groups each its own.
absl::Status JudgeTokens(const RunSpec& spec, const ProgramRun& run) {
  int64_t sum = 0, most = 0;
  for (const ProgramLog& log : run.logs) {
    int64_t own = 0;
    for (const auto& [number, step] : log.steps) own += step.tokens;
    sum += own;
    most = std::max(most, own);
  }
  const auto given = static_cast<double>(spec.train.tokens.value_or(0));
  const auto near = [&](int64_t tokens) {
    return std::abs(static_cast<double>(tokens) - given) <= kTokenTolerance * given;
  };
  const int64_t a_group = sum / spec.schedule.stages;
  if (sum == 0 || near(sum) || near(most) || near(a_group)) return absl::OkStatus();
  return absl::AbortedError(
      fmt::format("program reported {} tokens but was given a budget of {}; stop at "
                  "$LONGHAUL_TOKENS (tolerance {:g} %)",
                  sum, *spec.train.tokens, 100 * kTokenTolerance));
}

// Codecs that the ranks' groups counted bytes of, in one direction of a boundary or anywhere.
std::set<std::string> CodecsSeen(const ProgramRun& run, std::optional<Direction> direction) {
  std::set<std::string> seen;
  for (const ProgramLog& log : run.logs) {
    for (const auto& [where, bytes] : log.payload_by_codec) {
      if (direction && where.first != *direction) continue;
      if (bytes > 0 && where.second != "none") seen.insert(where.second);
    }
  }
  return seen;
}

absl::Status JudgeCodecs(const RunSpec& spec, const ProgramRun& run) {
  struct Wanted {
    const char *key, *variable;
    const std::string& codec;
    std::optional<Direction> direction;
  };
  for (const Wanted& want :
       {Wanted{"boundary.forward", "LONGHAUL_FORWARD", spec.boundary.forward, Direction::kForward},
        {"boundary.backward", "LONGHAUL_BACKWARD", spec.boundary.backward, Direction::kBackward},
        {"outer.codec", "LONGHAUL_OUTER_CODEC", spec.outer.codec, std::nullopt}}) {
    std::set<std::string> seen = CodecsSeen(run, want.direction);
    if (want.direction) seen.erase(spec.outer.codec);
    if (want.codec != "none" && !seen.contains(want.codec)) {
      return absl::AbortedError(fmt::format(
          "it sent no bytes through the codec {} ({}), only through {}: it must take it from "
          "${}, as init_process_group(\"longhaul\") does where it is given no options",
          want.codec, want.key,
          seen.empty() ? "no other" : fmt::format("{}", fmt::join(seen, ", ")), want.variable));
    }
    if (!want.direction) continue;
    seen.erase(want.codec);
    if (seen.empty()) continue;
    return absl::AbortedError(fmt::format(
        "it sent bytes through {}, and {} of its arm is {}: it must take its codecs from "
        "${}",
        fmt::join(seen, ", "), want.key, want.codec, want.variable));
  }
  return absl::OkStatus();
}

std::optional<double> FirstOf(const std::vector<ProgramLog>& logs,
                              std::optional<double> ProgramLog::*loss) {
  for (const ProgramLog& one : logs) {
    if (one.*loss) return one.*loss;
  }
  return std::nullopt;
}

}  // namespace

double Seconds(absl::Time monotonic) {
  return absl::ToDoubleSeconds(monotonic - absl::UnixEpoch());
}

RanksEnded EndsOfRanks(const std::vector<StartedProgram>& started,
                       const std::vector<ProgramEnd>& ends, int status, absl::Time began) {
  RanksEnded all{.ranks = std::vector<RankEnd>(started.size()), .status = status};
  const int64_t own = OwnPeakBytes();
  for (const ProgramEnd& end : ends) {
    const auto at = std::find_if(started.begin(), started.end(),
                                 [&](const StartedProgram& one) { return one.pid == end.pid; });
    const auto rank = static_cast<size_t>(at - started.begin());
    if (rank == started.size()) continue;
    all.ranks[rank] = {.status = end.status,
                       .cpu_s = end.cpu_s,
                       .wall_s = absl::ToDoubleSeconds(end.at - began),
                       .peak_bytes = end.peak_bytes,
                       .peak_is_bound = end.peak_bytes <= own};
    if (!all.first_to_fail && end.status != 0 && end.status == status) all.first_to_fail = rank;
  }
  return all;
}

std::string EndText(int status) {
  return status > 128 ? fmt::format("signal {}", status - 128)
                      : fmt::format("exit status {}", status);
}

std::map<std::string, std::string> FactsOf(const std::vector<RankEnd>& ends) {
  std::map<std::string, std::string> facts;
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    facts[fmt::format("exit_status_of_rank_{}", rank)] = std::to_string(ends[rank].status);
    facts[fmt::format("cpu_s_of_rank_{}", rank)] = fmt::format("{:.2f}", ends[rank].cpu_s);
    facts[fmt::format("wall_s_of_rank_{}", rank)] = fmt::format("{:.2f}", ends[rank].wall_s);
    facts[fmt::format("peak_bytes_of_rank_{}", rank)] =
        fmt::format("{}{}", ends[rank].peak_is_bound ? "<= " : "", ends[rank].peak_bytes);
  }
  return facts;
}

std::optional<double> FinalOf(const std::vector<ProgramLog>& logs) {
  return FirstOf(logs, &ProgramLog::final_nat);
}

std::optional<double> FinalOnOf(const std::vector<ProgramLog>& logs) {
  return FirstOf(logs, &ProgramLog::final_on_nat);
}

absl::Status Judge(const RunSpec& spec, const ProgramRun& run) {
  RETURN_IF_ERROR(JudgeEnds(spec, run));
  RETURN_IF_ERROR(JudgeLoss(run));
  RETURN_IF_ERROR(JudgeTokens(spec, run));
  return JudgeCodecs(spec, run);
}

}  // namespace longhaul
