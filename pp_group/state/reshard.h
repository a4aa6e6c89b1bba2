#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pp_group/local_rank.h"
#include "pp_group/state/checkpoint.h"
#include "pp_group/trainer.h"

namespace longhaul {

// The checkpoints of one step that another run of the same model and data left, whatever its S, G,
// cuts and schedule were: values are found by group and by the parameter's name. Reads a file when
// it is first asked for. One thread.
//
// What is taken over, by group:
//   - as many groups as there were: group g has what group g had;
//   - another number of groups: only right after an outer step (or of groups that always agree:
//     data parallel, one group without outer steps), when all hold equal parameters. Group g has
//     what group g had, new groups have what group 0 had, as a group that joins does;
//   - experts that are spread over the groups, or were: from the files of the groups that had them.
class LeftCheckpoints {
 public:
  // `spec`, `text`: of the run that goes on (CanonicalText). InvalidArgument: of another model or
  // other data, with both; of a later step than the run's last. FailedPrecondition: groups would
  // differ. NotFound, DataLoss: as ReadCheckpoint.
  static absl::StatusOr<LeftCheckpoints> Open(const std::string& directory, int64_t step,
                                              const TrainSpec& spec, const std::string& text);

  // Fills `flat` ([layout.flat_elements], zeroed) from a section that holds a stage's flat buffer,
  // for `group` of the run that goes on. DataLoss, NotFound: of the files.
  absl::Status Fill(const std::string& section, int group, const StageLayout& layout,
                    std::span<float> flat);
  bool has_outer() const { return outer_; }
  int groups() const { return groups_; }  // as they were
  // The file of that very rank, where stages and cuts are what they were and there was such a
  // group: its codec state may be taken over. nullptr: none.
  absl::StatusOr<const Checkpoint*> SameRank(int group, int stage);
  // "stages=2 > 4, groups=1 > 3": lines of the text in which the runs differ; "": none.
  const std::string& changes() const { return changes_; }

 private:
  absl::StatusOr<const Checkpoint*> File(int group, int stage);
  // A section of that file which holds a buffer of this layout.
  absl::StatusOr<std::span<const std::byte>> Values(const std::string& section, int group,
                                                    int stage, const StageLayout& layout);

  std::string directory_;
  int64_t step_ = 0;
  std::string left_text_, changes_;
  int stages_ = 1, groups_ = 1;  // as they were
  bool outer_ = false, same_stages_ = false;
  // As they were, [holder][stage]: of the groups over which experts were spread; one where they
  // were not.
  std::vector<std::vector<StageLayout>> layouts_;
  std::vector<std::vector<std::unique_ptr<Checkpoint>>> files_;  // [group][stage]; null: not read
};

// Loads all local ranks from the newest step in `directory` that every rank can start from;
// collective over all S*G ranks, all or none. Errors and throws as Trainer::RestoreFrom.
absl::StatusOr<Restored> RestoreRanks(std::span<const std::unique_ptr<RankState>> ranks,
                                      const std::string& directory, const TrainSpec& spec,
                                      const std::string& text);

// Whether a run could start from `directory`, by what its newest files of group 0 say; changes
// nothing. Errors as RestoreRanks.
absl::Status CheckRestorable(const std::string& directory, const TrainSpec& spec,
                             const std::string& text);

}  // namespace longhaul
