// Which experiment a plan is: what it promises, and what the files held that it names.
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "compressors/numbers/sha256.h"
#include "experiments/record/file_contents.h"
#include "experiments/record/record.h"
#include "experiments/record/utc.h"

namespace longhaul {
namespace {

std::string KindText(ExperimentKind kind) {
  return kind == ExperimentKind::kRun ? "run" : "campaign";
}

std::string NamedFiles(const ExperimentRow& e) {
  const auto found = e.facts.find(kNamedFilesFact);
  return found == e.facts.end() ? "" : found->second;
}

std::vector<FileContent> AllContents(const std::string& plan_text, const std::string& named_files) {
  std::vector<FileContent> contents = ReadContents(named_files);
  for (FileContent& frozen : FrozenContents(plan_text)) contents.push_back(std::move(frozen));
  return contents;
}

}  // namespace

std::string PlanSha256(const ExperimentRow& e) {
  const std::string files = NamedFiles(e);
  return Sha256Hex(files.empty() ? e.plan_text : e.plan_text + "\n[files]\n" + files);
}

// An older experiment of this plan, which has no list of files, is gone on with.
absl::StatusOr<std::optional<int64_t>> Record::FindPlan(const ExperimentRow& e) const {
  if (e.plan_text.empty()) return std::optional<int64_t>();
  const std::string promise = PlanWithoutFrozen(e.plan_text), files = NamedFiles(e);
  const std::vector<FileContent> here = AllContents(e.plan_text, files);
  SqliteStatement query(
      db_.get(),
      "SELECT e.id, e.plan_text, COALESCE(f.value, ''),"
      " (SELECT COUNT(*) FROM runs AS r WHERE r.experiment_id = e.id) FROM experiments AS e"
      " LEFT JOIN experiment_facts AS f ON f.experiment_id = e.id AND f.key = ?"
      " WHERE e.kind = ? AND e.name = ? ORDER BY e.id");
  query.Bind(std::string(kNamedFilesFact)).Bind(KindText(e.kind)).Bind(e.name);
  std::optional<int64_t> same;
  absl::StatusOr<bool> row = query.Step();
  for (; row.ok() && *row; row = query.Step()) {
    const std::string plan = query.Text(1), theirs = query.Text(2);
    if (PlanWithoutFrozen(plan) != promise) continue;
    const std::string conflict = ContentConflict(AllContents(plan, theirs), here);
    if (!conflict.empty() && query.Integer(3) > 0) {
      return absl::FailedPreconditionError(fmt::format(
          "{}/{} has {} runs of this plan ('{}') with another content of {}; runs of other files "
          "are not mixed: put the files back, or name another folder for the record",
          folder_, kRecordFile, query.Integer(3), e.name, conflict));
    }
    const bool one_list = theirs == files || theirs.empty() || files.empty();
    if (conflict.empty() && plan == e.plan_text && one_list) same = query.Integer(0);
  }
  if (!row.ok()) return row.status();
  return same;
}

absl::StatusOr<int64_t> Record::AddPlan(const ExperimentRow& e) {
  const std::string kind = KindText(e.kind), hash = PlanSha256(e);
  SqliteStatement insert(db_.get(),
                         "INSERT INTO experiments (kind, name, question, plan_text, plan_sha256,"
                         " d0_tokens, begun_utc) VALUES (?,?,?,?,?,?,?)"
                         " ON CONFLICT (kind, plan_sha256, name) DO NOTHING");
  insert.Bind(kind).Bind(e.name).Bind(e.question).Bind(e.plan_text).Bind(hash).Bind(e.d0_tokens);
  if (absl::Status s = insert.Bind(UtcNow()).Done(); !s.ok()) return s;
  SqliteStatement find(
      db_.get(), "SELECT id FROM experiments WHERE kind = ? AND plan_sha256 = ? AND name = ?");
  absl::StatusOr<bool> row = find.Bind(kind).Bind(hash).Bind(e.name).Step();
  if (!row.ok()) return row.status();
  return find.Integer(0);
}

absl::StatusOr<int64_t> Record::BeginExperiment(const ExperimentRow& e) {
  const absl::StatusOr<std::optional<int64_t>> found = FindPlan(e);
  if (!found.ok()) return found.status();
  const absl::StatusOr<int64_t> id = *found ? absl::StatusOr<int64_t>(**found) : AddPlan(e);
  if (!id.ok()) return id.status();
  for (const auto& [key, value] : e.facts) {
    if (*found && key == kNamedFilesFact) continue;  // of the plan's hash: as they were
    SqliteStatement fact(db_.get(),
                         "INSERT OR IGNORE INTO experiment_facts (experiment_id, key, value)"
                         " VALUES (?,?,?)");
    if (absl::Status s = fact.Bind(*id).Bind(key).Bind(value).Done(); !s.ok()) return s;
  }
  return *id;
}

}  // namespace longhaul
