#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/record/count_events.h"
#include "experiments/record/record_rows.h"

namespace longhaul {

// Adds what the crossings had counted in the steps before a run was resumed to what they have
// counted since: messages, bytes, times and hashes (a hash is a sum over messages). The
// prediction is for the whole run already and stays. A kernel's count that one part lacks is
// unknown for both.
// Rows that `since` lacks are added to it.
void AddEarlierCounts(std::span<const CrossingRow> earlier, std::vector<CrossingRow>& since);
// The same of one row with the same source, destination and direction.
void AddCounts(const CrossingRow& earlier, CrossingRow& row);

// What the ranks of a run have told of their crossings, as rows. A rank whose group is started anew
// counts from nothing again: what its lives before had told last is added. Of a life that was lost
// that is what had crossed when its last outer step was taken.
class CrossingLedger {
 public:
  // `ranks`: of a group.
  CrossingLedger(int64_t ranks, std::string outer_codec)
      : ranks_(ranks), outer_codec_(std::move(outer_codec)) {}

  void Observe(CrossingCount count);

  // By source, destination and direction; of what the sender saw, but a joiner's state, of which
  // the joiner tells. The receiver's side of the others is no row.
  std::vector<CrossingRow> Rows() const { return Sum(last_); }
  // The same when the checkpoint of this step was written, by all that have told of it.
  std::vector<CrossingRow> RowsAt(int64_t checkpoint) const;
  void Forget(int64_t checkpoint) { at_.erase(checkpoint); }

 private:
  // Rank, life, kind, peer; kind of tensor, stage.
  using Key = std::tuple<int64_t, int64_t, CrossingKind, int64_t, std::string, int64_t>;
  using Counts = std::map<Key, CrossingCount>;

  CrossingRow RowOf(const CrossingCount& count) const;
  std::vector<CrossingRow> Sum(const Counts& counts) const;

  const int64_t ranks_;
  const std::string outer_codec_;
  Counts last_;
  std::map<int64_t, Counts> at_;  // by checkpoint
};

}  // namespace longhaul
