#include "experiments/run/compare_runs.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/record/file_contents.h"

namespace longhaul {
namespace {

bool SameBits(const std::optional<double>& a, const std::optional<double>& b) {
  if (a.has_value() != b.has_value()) return false;
  return !a || std::bit_cast<uint64_t>(*a) == std::bit_cast<uint64_t>(*b);
}

std::string Show(const std::optional<double>& x) { return x ? fmt::format("{}", *x) : "none"; }

// Of steps: what was there in both, and equal.
struct StepsCompared {
  bool hashes_comparable;
  int64_t losses = 0, hashes = 0;
};

std::string FirstStepDifference(const std::vector<StepRow>& a, const std::vector<StepRow>& b,
                                StepsCompared* compared) {
  std::map<std::tuple<int64_t, int64_t, int64_t>, const StepRow*> of_b;
  for (const StepRow& row : b) of_b[{row.step, row.group_index, row.stage}] = &row;
  for (const StepRow& row : a) {
    const auto it = of_b.find({row.step, row.group_index, row.stage});
    const std::string where =
        fmt::format("step {}, group {}, stage {}", row.step, row.group_index, row.stage);
    if (it == of_b.end()) return where + ": only one of the runs has it";
    const StepRow& other = *it->second;
    if (!SameBits(row.loss_nat, other.loss_nat)) {
      return fmt::format("{}: loss {} against {}", where, Show(row.loss_nat), Show(other.loss_nat));
    }
    compared->losses += row.loss_nat.has_value();
    if (!compared->hashes_comparable || !row.parameter_hash || !other.parameter_hash) continue;
    ++compared->hashes;
    if (*row.parameter_hash != *other.parameter_hash) {
      return fmt::format("{}: parameters {:016x} against {:016x}", where, *row.parameter_hash,
                         *other.parameter_hash);
    }
  }
  return "";
}

// `resumed`: the outer and tied channels of one of them began again at message 1, and a message's
// number is in its hash. Boundary channels go on counting, so that their hashes are those of a whole run.
std::string FirstCrossingDifference(const std::vector<CrossingRow>& a,
                                    const std::vector<CrossingRow>& b, bool resumed) {
  if (a.size() != b.size()) return fmt::format("{} crossings against {}", a.size(), b.size());
  std::map<std::tuple<int64_t, int64_t, Direction>, const CrossingRow*> of_b;
  for (const CrossingRow& row : b) of_b[{row.src_rank, row.dst_rank, row.direction}] = &row;
  for (const CrossingRow& row : a) {
    const auto it = of_b.find({row.src_rank, row.dst_rank, row.direction});
    const std::string where =
        fmt::format("crossing {} > {} ({})", row.src_rank, row.dst_rank, ToString(row.direction));
    if (it == of_b.end()) return where + ": only one of the runs has it";
    const CrossingRow& other = *it->second;
    const bool hashed =
        !resumed || row.direction == Direction::kForward || row.direction == Direction::kBackward;
    if (row.payload_bytes != other.payload_bytes ||
        (hashed && row.payload_hash != other.payload_hash)) {
      return fmt::format("{}: {} encoded bytes ({:016x}) against {} ({:016x})", where,
                         row.payload_bytes, row.payload_hash, other.payload_bytes,
                         other.payload_hash);
    }
  }
  return "";
}

// A shorter run ends before the other is evaluated: `b` may have evaluations that `a` lacks.
std::string FirstEvaluationDifference(const std::vector<EvaluationRow>& a,
                                      const std::vector<EvaluationRow>& b, bool equally_long) {
  std::map<std::pair<int64_t, EvalCodec>, double> of_b;
  for (const EvaluationRow& row : b) of_b[{row.step, row.codec}] = row.loss_nat;
  if (equally_long && a.size() != b.size()) {
    return fmt::format("{} held-out losses against {}", a.size(), b.size());
  }
  for (const EvaluationRow& row : a) {
    const auto it = of_b.find({row.step, row.codec});
    const std::string where =
        fmt::format("held-out loss, codec {}, step {}", ToString(row.codec), row.step);
    if (it == of_b.end()) {
      if (equally_long) return where + ": only one of the runs has it";
      continue;
    }
    if (SameBits(row.loss_nat, it->second)) continue;
    return fmt::format("{}: {} against {}", where, row.loss_nat, it->second);
  }
  return "";
}

int64_t CommonEvaluations(const std::vector<EvaluationRow>& a,
                          const std::vector<EvaluationRow>& b) {
  return std::count_if(a.begin(), a.end(), [&](const EvaluationRow& row) {
    return std::any_of(b.begin(), b.end(), [&](const EvaluationRow& other) {
      return other.step == row.step && other.codec == row.codec;
    });
  });
}

struct Compared {
  bool whole;    // both trained the same steps, so that bytes could be compared
  bool resumed;  // hashes of outer frames could not be
};

// Claims no more than was there to compare: rows without a loss or a hash count as what they are.
std::string WhatIsEqual(int64_t a, int64_t b, const std::vector<StepRow>& steps,
                        const StepsCompared& of_steps, const std::vector<CrossingRow>& crossings,
                        int64_t evaluations, Compared compared) {
  std::string text = fmt::format(
      "runs {} and {} are bit-identical{}: {} training losses, {} parameter hashes", a, b,
      compared.whole ? "" : fmt::format(" in the {} step rows that run {} has", steps.size(), a),
      of_steps.losses, of_steps.hashes);
  if (compared.whole) text += fmt::format(", the encoded bytes of {} crossings", crossings.size());
  text += fmt::format(", {} held-out losses", evaluations);
  std::vector<std::string> not_compared;
  if (!of_steps.hashes_comparable) {
    not_compared.emplace_back("parameter hashes (the runs have them of two kinds)");
  }
  if (!compared.whole) not_compared.emplace_back("encoded bytes (one run is shorter)");
  if (compared.whole && compared.resumed) {
    not_compared.emplace_back(
        "the contents of outer frames (one run was resumed; their sizes were)");
  }
  if (evaluations == 0)
    not_compared.emplace_back("held-out losses (no step has them in both runs)");
  not_compared.emplace_back("times, links");
  return text + fmt::format("; not compared: {}", fmt::join(not_compared, "; "));
}

absl::StatusOr<bool> WasResumed(const Record& record, int64_t run) {
  const auto rows = record.Rows(fmt::format(
      "SELECT value FROM run_facts WHERE key = 'resumed_from_step' AND run_id = {}", run));
  if (!rows.ok()) return rows.status();
  return rows->size() > 1;
}

absl::StatusOr<bool> HashesComparable(const Record& record, int64_t a, int64_t b) {
  const auto run_a = record.Run(a), run_b = record.Run(b);
  if (!run_a.ok()) return run_a.status();
  if (!run_b.ok()) return run_b.status();
  return SameHashes(*run_a, *run_b);
}

// What a bit of training hangs on; links are not of it.
bool BearsOnBits(const FileContent& content) {
  return content.key.starts_with("data.") || content.key == "model.init" ||
         content.key == "init_hash" || content.key == "data_hash" || content.key == "eval_hash";
}

// Runs of other data or weights have no bits to compare, whatever their files are called.
absl::Status SameContents(const Record& record, int64_t a, int64_t b) {
  const auto run_a = record.Run(a), run_b = record.Run(b);
  if (!run_a.ok()) return run_a.status();
  if (!run_b.ok()) return run_b.status();
  std::vector<FileContent> of_a = ContentsOf(*run_a), of_b = ContentsOf(*run_b);
  for (auto* contents : {&of_a, &of_b}) {
    std::erase_if(*contents, [](const FileContent& c) { return !BearsOnBits(c); });
    for (FileContent& c : *contents) c.value.clear();
  }
  const std::string conflict = ContentConflict(of_a, of_b);
  if (conflict.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "runs {} and {} trained on other files, so that no bit of them need agree: {}, run {} being "
      "there and run {} here",
      a, b, conflict, a, b));
}

}  // namespace

absl::StatusOr<RunComparison> CompareRuns(const Record& record, int64_t a, int64_t b) {
  if (absl::Status s = SameContents(record, a, b); !s.ok()) return s;
  const auto steps_a = record.Steps(a), steps_b = record.Steps(b);
  const auto crossings_a = record.Crossings(a), crossings_b = record.Crossings(b);
  const auto evaluations_a = record.Evaluations(a), evaluations_b = record.Evaluations(b);
  for (const absl::Status& s :
       {steps_a.status(), steps_b.status(), crossings_a.status(), crossings_b.status(),
        evaluations_a.status(), evaluations_b.status()}) {
    if (!s.ok()) return s;
  }
  if (steps_a->empty() || steps_a->size() > steps_b->size()) {
    return absl::InvalidArgumentError(
        fmt::format("run {} has {} step rows, run {} has {}: nothing to compare, or run {} is "
                    "the shorter one (name it first)",
                    a, steps_a->size(), b, steps_b->size(), b));
  }
  const auto resumed_a = WasResumed(record, a), resumed_b = WasResumed(record, b);
  if (!resumed_a.ok()) return resumed_a.status();
  if (!resumed_b.ok()) return resumed_b.status();
  const bool resumed = *resumed_a || *resumed_b;
  const bool equally_long = steps_a->size() == steps_b->size();
  const absl::StatusOr<bool> comparable = HashesComparable(record, a, b);
  if (!comparable.ok()) return comparable.status();
  StepsCompared of_steps{.hashes_comparable = *comparable};
  for (const std::string& difference :
       {FirstStepDifference(*steps_a, *steps_b, &of_steps),
        equally_long ? FirstCrossingDifference(*crossings_a, *crossings_b, resumed) : std::string(),
        FirstEvaluationDifference(*evaluations_a, *evaluations_b, equally_long)}) {
    if (difference.empty()) continue;
    return RunComparison{false,
                         fmt::format("runs {} and {} differ, first at {}", a, b, difference)};
  }
  return RunComparison{true, WhatIsEqual(a, b, *steps_a, of_steps, *crossings_a,
                                         CommonEvaluations(*evaluations_a, *evaluations_b),
                                         {.whole = equally_long, .resumed = resumed})};
}

}  // namespace longhaul
