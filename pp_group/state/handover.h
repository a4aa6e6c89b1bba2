#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/status.h"
#include "pp_group/local_rank.h"

namespace longhaul {

// What a group that joins takes over, right after an outer step: the outer step's start, which the
// parameters equal then, and its momentum, both the same on every member, and AdamW's moments, of
// which each member has its own. What codecs remember starts anew.
//
// From one member:
void CopyState(const RankState& from, RankState* to);
// The same between processes; `to` and `from` hold the two ranks of one stage.
absl::Status SendState(const RankState& state, c10d::Backend& to, int peer);
absl::Status ReceiveState(RankState* state, c10d::Backend& from, int peer);

// From all n members of the outer step, by group number: what is the same comes from any of them,
// and of the moments, [N] each, the elements [k N / n, (k + 1) N / n) are those of member k. AdamW
// takes each element by itself, so that a moment has one history whosever it is. null: a member
// that was lost before the joiner had all; its elements of the moments start anew, with 0.
// False: all are null.
// Of the two copies of a tied head's matrix the elements lie elsewhere in [N]: the trainer makes
// the last stage's moments those of the first (TiedHead::BeginCopy).
bool CopyStateOfAll(const std::vector<const RankState*>& givers, RankState* to);

// The same through files of raw f32, little-endian, which the givers write and the joiner has
// fetched from them: FOLDER/state/{momentum,outer_start}.f32 of any giver, FOLDER/moments-K/
// {first,second}.f32 of giver K, which has its own elements alone; none where compute is injected.
inline constexpr char kStatePart[] = "state";
std::string MomentsPart(int place);  // "moments-3"
// Makes the folders. ResourceExhausted, FailedPrecondition with the path.
absl::Status WriteState(const RankState& state, int place, int givers, const std::string& folder);
// `lost`: by place, who is null above. DataLoss: a file is not there or of another length; the
// state is then spent.
absl::Status ReadState(const std::string& folder, const std::vector<bool>& lost, RankState* state);

}  // namespace longhaul
