#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/record/record_rows.h"
#include "experiments/record/sqlite.h"

namespace longhaul {

constexpr char kRecordFile[] = "longhaul.sqlite";

// The record of one results folder: FOLDER/longhaul.sqlite, SQLite in WAL mode. Every Add is one
// transaction: after kill -9 at any moment each row that was added is there and none is half
// there. Several processes may write at the same time (each waits up to 30 s for the others).
// While a process writes a run it holds a kernel lock on the run's byte of FOLDER/longhaul.lock;
// the kernel drops it with the process, so a run that says "running" without a lock has died. That
// works across PID namespaces, where a process id says nothing. Errors: ResourceExhausted (disk
// full), PermissionDenied (read-only), DataLoss (corrupt), FailedPrecondition (written by a newer
// version), NotFound. Not thread safe: one per thread.
class Record {
 public:
  enum class Mode {
    kRead,   // the file must be there; nothing is written, also not into the folder
    kWrite,  // makes folder and file when they are not there
  };
  static absl::StatusOr<Record> Open(const std::string& folder, Mode mode);
  Record(Record&&) noexcept;
  Record& operator=(Record&&) noexcept;
  ~Record();  // a run that was begun here and not finished stays "running" and reads as died

  // Finds the experiment of this kind, name and plan (plan_sha256 is computed here), or adds it.
  // So a second `measure` of the same plan goes on where the first one stopped.
  absl::StatusOr<int64_t> BeginExperiment(const ExperimentRow& experiment);

  // Adds a run as "running", with its facts, and takes its lock. Fills id, pid and begun_utc.
  absl::StatusOr<int64_t> BeginRun(const RunRow& run);
  // What only the lab knows, once it is built.
  absl::Status SetLab(int64_t run, const std::string& emulator,
                      const std::string& congestion_control);
  absl::Status AddFacts(int64_t run, const std::map<std::string, std::string>& facts);
  // Steps, links, crossings and evaluations of a run replace rows of the same key: a run that was
  // resumed from a checkpoint repeats its last steps.
  absl::Status AddSteps(int64_t run, std::span<const StepRow> steps);
  absl::Status AddLinks(int64_t run, std::span<const LinkRow> links);
  absl::Status AddCrossings(int64_t run, std::span<const CrossingRow> crossings);
  absl::Status AddEvaluation(int64_t run, const EvaluationRow& evaluation);
  // `status` is none of kRunning and kDied. Only a running run can finish. Drops its lock.
  absl::Status FinishRun(int64_t run, RunStatus status, const std::string& reason);

  // Takes over a run that died or was interrupted, to go on from its checkpoint: status "running",
  // lock taken. FailedPrecondition when another process is at it, or when it has ended.
  absl::Status ResumeRun(int64_t run);
  // Writes "interrupted" over every run that has died. Returns how many.
  absl::StatusOr<int> SettleDeadRuns();

  // Replaces all estimates of the experiment.
  absl::Status SetEstimates(int64_t experiment, std::span<const EstimateRow> estimates);

  absl::StatusOr<std::vector<ExperimentRow>> Experiments() const;
  // In the order they were begun; died ones with status kDied.
  absl::StatusOr<std::vector<RunRow>> Runs(int64_t experiment) const;
  absl::StatusOr<RunRow> Run(int64_t run) const;  // NotFound
  // (arm, seed) that need no further run: ended ok or diverged (an outcome, never repeated).
  absl::StatusOr<std::set<std::pair<std::string, int64_t>>> Finished(int64_t experiment) const;
  absl::StatusOr<std::vector<StepRow>> Steps(int64_t run) const;
  absl::StatusOr<std::vector<LinkRow>> Links(int64_t run) const;
  absl::StatusOr<std::vector<CrossingRow>> Crossings(int64_t run) const;
  absl::StatusOr<std::vector<EvaluationRow>> Evaluations(int64_t run) const;
  absl::StatusOr<std::vector<EstimateRow>> Estimates(int64_t experiment) const;

  // Any query, as text: CSV export. First row: the column names.
  absl::StatusOr<std::vector<std::vector<std::string>>> Rows(const std::string& sql) const;

  const std::string& folder() const { return folder_; }

 private:
  Record(std::string folder, SqliteHandle db, int lock_fd);
  absl::StatusOr<std::vector<RunRow>> RunsWhere(const std::string& column, int64_t value) const;
  bool SomeoneWrites(int64_t run) const;
  absl::Status Lock(int64_t run);
  void Unlock(int64_t run);

  std::string folder_;
  SqliteHandle db_;
  int lock_fd_;               // -1: no lock file (read mode, nobody ever wrote)
  std::set<int64_t> locked_;  // runs that this object writes
};

}  // namespace longhaul
