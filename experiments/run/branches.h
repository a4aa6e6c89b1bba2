#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "experiments/spec/campaign.h"
#include "experiments/train/branching.h"

namespace longhaul {

// The runs of a campaign with train.schedule = "wsd" that differ in their length alone are the same
// run, bit for bit, until the shorter one's learning rate falls. So the longest of them, the trunk,
// leaves a checkpoint where each other one branches off, and those train their decay alone: what they
// end with has the bits of a run of their own.
//
// Only uncompressed runs of one stage and one group over loopback branch; an A/A control never does.
class Branches {
 public:
  // `folder`: of the record; files go below FOLDER/branches. Borrows `planned`.
  Branches(const std::string& folder, const std::vector<PlannedRun>& planned);

  // The finished steps that a run shares with a longer one; 0: it branches off none.
  int64_t SharedSteps(const PlannedRun& run) const;
  // How many runs branch off another, and their tokens that it trains for them.
  int64_t count() const;
  int64_t SharedTokens() const;
  // The longer run that leaves its state where `run` branches off; nullptr: none.
  const PlannedRun* TrunkOf(const PlannedRun& run) const;
  bool IsTrunk(const PlannedRun& run) const;

  // Whether the state that `run` begins from is there.
  bool Ready(const PlannedRun& run) const;
  // What a process that trains `run` now begins from and leaves.
  Branching Of(const PlannedRun& run) const;
  // Removes the state that `run` began from.
  void Finished(const PlannedRun& run) const;

 private:
  struct Family {  // runs that differ in their length alone
    std::string folder;
    std::vector<const PlannedRun*> runs;  // the longest first
  };
  const Family* FamilyOf(const PlannedRun& run) const;

  std::map<std::string, Family> families_;         // by what they share
  std::map<const PlannedRun*, const Family*> of_;  // of those that have others
};

// Where the reference at D0 of a campaign leaves its weights, below the record's folder, so that boundaries can be priced
// on them; "": nowhere, of any other run, of one without losses and of one that saves its weights for its user.
std::string WeightsFolder(const std::string& record_folder, const PlannedRun& planned);

}  // namespace longhaul
