#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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

// Some room of a disk, kept in a file without a name so that it goes with its process. Given up
// when the disk is full, it lets a record's last words be written: how a run ended.
class DiskReserve {
 public:
  DiskReserve() = default;
  DiskReserve(DiskReserve&& other) noexcept;
  DiskReserve& operator=(DiskReserve&& other) noexcept;
  ~DiskReserve();

  // Takes `bytes` on the disk of `folder`, unless it is held already. ResourceExhausted: the disk
  // has no such room. OK without a reserve where the file system cannot keep one.
  absl::Status Take(const std::string& folder, int64_t bytes);

  // Gives the room back to the disk, also while other processes have inherited the file. False:
  // there was none.
  bool Release();

 private:
  int fd_ = -1;
};

constexpr char kRecordFile[] = "longhaul.sqlite";

// Of plan_text and, where there is one, of the list of named files in its facts.
std::string PlanSha256(const ExperimentRow& experiment);

// Who trains a planned run.
struct Claim {
  enum class Outcome {
    kMine,       // the caller: `run` has been begun for it
    kFinished,   // nobody: `run` ended ok or diverged
    kElsewhere,  // a living process, described in `who`, trains it as `run`
  } outcome;
  int64_t run;
  std::string who;
};

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
  // So a second `measure` of the same plan goes on where the first one stopped. Facts that an
  // experiment has already stay as they were. FailedPrecondition with both hashes: the record has
  // runs of this plan for which a file that it names held something else.
  absl::StatusOr<int64_t> BeginExperiment(const ExperimentRow& experiment);

  // Adds a run as "running", with its facts, and takes its lock. Fills id, pid and begun_utc. Some
  // room of the disk is kept from here on, so that FinishRun succeeds on a full one.
  absl::StatusOr<int64_t> BeginRun(const RunRow& run);
  // BeginRun, unless the run of this experiment, arm and seed has ended ok or diverged, or a living
  // process is at it. Of many processes that ask at once one gets it.
  absl::StatusOr<Claim> ClaimRun(const RunRow& run);
  // What ClaimRun would find, without claiming; kMine with run 0: nobody is at it.
  absl::StatusOr<Claim> LookUpClaim(int64_t experiment, const std::string& arm, int64_t seed) const;
  // What only the lab knows, once it is built.
  absl::Status SetLab(int64_t run, const std::string& emulator,
                      const std::string& congestion_control);
  absl::Status AddFacts(int64_t run, const std::map<std::string, std::string>& facts);
  // Rows of a run (StepRow, LinkRow, ...: LONGHAUL_FOR_EACH_RUN_ROW), which replace rows of the same
  // key: a run that was resumed from a checkpoint repeats its last steps.
  template <typename Row>
  absl::Status Add(int64_t run, std::span<const Row> rows);
  template <typename Row>
  absl::Status Add(int64_t run, const std::vector<Row>& rows) {
    return Add(run, std::span<const Row>(rows));
  }
  // What the crossings had counted in all steps up to `step`, after which a checkpoint was written.
  absl::Status AddCheckpointCrossings(int64_t run, int64_t step,
                                      std::span<const CrossingRow> crossings);
  // `status` is none of kRunning and kDied. Only a running run can finish. Drops its lock.
  absl::Status FinishRun(int64_t run, RunStatus status, const std::string& reason);

  // Takes over a run that died, was interrupted, failed or is invalid, to go on from its
  // checkpoint: status "running", lock taken. FailedPrecondition when another process is at it, or
  // when it has ended otherwise.
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
  // RowsOf<StepRow>(run), in the order of their table (row_fields.h); none where the record is older
  // than the table.
  template <typename Row>
  absl::StatusOr<std::vector<Row>> RowsOf(int64_t run) const;
  absl::StatusOr<StepCoverage> Coverage(int64_t run, int64_t from, int64_t to) const;
  // The newest run with this fact.
  absl::StatusOr<std::optional<int64_t>> RunWithFact(const std::string& key,
                                                     const std::string& value) const;
  absl::StatusOr<std::vector<CrossingRow>> CheckpointCrossings(int64_t run, int64_t step) const;
  absl::StatusOr<std::vector<EstimateRow>> Estimates(int64_t experiment) const;

  // Copies what another record has and this one has not: experiments by kind, name and plan, their
  // facts, and runs that have ended (ok, partial, diverged, failed, invalid) with all their rows.
  // FailedPrecondition: a record of another schema version; both stay as they were.
  struct Taken {
    int64_t runs = 0;
    int64_t known = 0;  // here already, by the run's own id
    int64_t again = 0;  // another run of an arm and seed that has ended ok or diverged here
    int64_t open = 0;   // still running, interrupted or died: left out
  };
  absl::StatusOr<Taken> TakeFrom(const Record& other);

  // Any query, as text: CSV export. First row: the column names.
  absl::StatusOr<std::vector<std::vector<std::string>>> Rows(const std::string& sql) const;

  const std::string& folder() const { return folder_; }

 private:
  Record(std::string folder, SqliteHandle db, int lock_fd);
  absl::StatusOr<std::optional<int64_t>> FindPlan(const ExperimentRow& experiment) const;
  absl::StatusOr<int64_t> AddPlan(const ExperimentRow& experiment);
  absl::StatusOr<std::vector<RunRow>> RunsWhere(const std::string& column, int64_t value) const;
  bool SomeoneWrites(int64_t run) const;
  absl::Status Lock(int64_t run);
  void Unlock(int64_t run);
  // Both inside the caller's transaction.
  absl::StatusOr<int64_t> InsertRun(const RunRow& run);
  absl::StatusOr<int64_t> Attempt(int64_t run) const;
  absl::Status InsertFacts(int64_t run, const std::map<std::string, std::string>& facts);

  std::string folder_;
  SqliteHandle db_;
  int lock_fd_;               // -1: no lock file (read mode, nobody ever wrote)
  std::set<int64_t> locked_;  // runs that this object writes
  DiskReserve reserve_;
};

// Now, "2026-03-01T12:34:56.789Z": for records, never for durations.
std::string UtcNow();

// Where runs go: the record of `folder`, made where there is none, its dead runs settled, and the
// experiment in it, found or begun.
struct OpenedExperiment {
  Record record;
  int64_t id;
};
absl::StatusOr<OpenedExperiment> OpenExperiment(const std::string& folder,
                                                const ExperimentRow& experiment);

}  // namespace longhaul
