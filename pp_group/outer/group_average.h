#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compressors/codec.h"
#include "pp_group/c10d_status.h"
#include "pp_group/outer/outer_plan.h"
#include "pp_group/stage_layout.h"

namespace longhaul {

// InvalidArgument for a codec whose frames decode only with a state at the receiving end (+ef21,
// aqsgd*): a rank decodes the frames of all its peers, and keeps a state for none.
absl::Status CheckOuterCodec(const Codec& codec);

// The mean of one [N] of each member, groups of a stage that meet, with a codec on the way:
//   average = sum over the members g, ascending, of decode(encode(x_g)) / members
// Every process decodes every frame, its own included, so that all groups get equal bits. Outer deltas
// (diloco.h) and the gradients of synchronous data parallel training are averaged so.
//
// Steps and bytes: one round, one send and receive per other member; a rank sends each of them
// frame + 8 bytes: first the frame's length (one int64, because a codec's frames may vary in
// length), then the frame (uint8). Length 0 says that the values are not finite. Of several parts
// (FrameParts) there are as many lengths, and their frames make one message, each at a multiple of
// kFrameAlignment bytes. The calls are apart so that one thread can drive several ranks: all send,
// then all receive, then all average.
//
// What one group of a process has decoded and added up, another of its groups takes over where it
// has the same frames, byte by byte (SharedSums).
class GroupAverage;

// Of one stage, of the groups of one process: by fragment the sum that one of them has, and the frames
// that it is of. Not thread safe.
class SharedSums {
 private:
  friend class GroupAverage;
  struct Sum {
    const GroupAverage* of = nullptr;  // whose average it is; null: none
    std::vector<int> members;
    std::vector<bool> left_out;
    std::vector<at::Tensor> frames, lengths;  // by place in members
    std::vector<double> squared_norms;
  };
  std::map<int64_t, Sum> by_fragment_;
};

class GroupAverage {
 public:
  struct Place {
    int group, groups, stage;
    uint64_t seed;                            // of the codec's noise
    c10::intrusive_ptr<c10d::Backend> peers;  // all groups, by number; null when groups == 1
    std::vector<FramePart> parts = {};        // of the [N], ascending; empty: one of all
    int64_t fragment = 0;                     // of several that a rank has under way: noise and tag
    bool over_senders = false;                // an element's mean is over whose value is not 0
    int noise_group = -1;                     // keys the noise in place of `group`; -1: that
    std::vector<CodecUntil> earlier = {};     // codecs that come before, by step
    std::shared_ptr<SharedSums> sums = {};  // of this process; null: it has one group of the stage
  };
  ~GroupAverage();

  // What a codec remembers of a part; null: nothing.
  struct PartState {
    std::shared_ptr<const Codec> codec;
    std::unique_ptr<CodecState> state;
  };
  using CodecStates = std::vector<PartState>;  // of each part

  // NotFound, InvalidArgument: the codec. `elements`: N; 0: nothing crosses, all calls stand.
  static absl::StatusOr<std::unique_ptr<GroupAverage>> Create(const std::string& codec, Place place,
                                                              int64_t elements);

  // Who meets from now on: ascending group numbers, the own among them; `peers` has one rank for
  // each, in that order. At first: all groups.
  void SetMembers(std::vector<int> members, c10::intrusive_ptr<c10d::Backend> peers);
  // The same among the groups that were there at first, which `peers` has by number.
  void Meet(std::vector<int> members);
  const std::vector<int>& members() const { return members_; }

  // Encodes `own` ([N] f32, contiguous); `step` (1-based inner step) keys the codec's noise.
  absl::Status Encode(int64_t step, const at::Tensor& own);
  // Sends what was encoded to the other members and posts the receives of theirs. May be called
  // again with other members when the round could not be finished: the same bytes go out. Throws
  // what c10d does.
  void Send();
  absl::Status Begin(int64_t step, const at::Tensor& own);  // Encode and Send
  // Posts the receives of frames whose lengths have come; never waits. DataLoss as Receive.
  absl::Status Advance();
  // Waits for everybody's frame. DataLoss: a length that cannot be.
  absl::Status Receive();
  // Norms squared of the members' decoded values, by place in members(); infinite: not finite.
  // `scratch`: [N] f32, overwritten. Adds up the average on the way.
  absl::StatusOr<std::vector<double>> SquaredNorms(const at::Tensor& scratch);
  // The mean over the members but those that `left_out` (by place in members()) names, [N]; valid
  // until the next Encode. After SquaredNorms. NaN where nobody is left or a frame that counts is
  // not finite: OuterRound and Trainer end the step then.
  absl::StatusOr<at::Tensor> Average(const at::Tensor& scratch, const std::vector<bool>& left_out);
  // Receive, SquaredNorms and Average of all.
  absl::StatusOr<at::Tensor> Finish(const at::Tensor& scratch);

  // The average against that of the exchange at which this was last called; no training looks at it. A
  // tied matrix's copy counts nowhere.
  struct Turn {
    double squared_norm = 0;
    std::optional<double> last_squared_norm = std::nullopt, dot = std::nullopt;  // unset: the first
  };
  Turn TurnOfAverage();
  void ForgetLast() { last_.reset(); }

  // What Average has returned, or what a checkpoint left of it; [N].
  const at::Tensor& average() const { return average_; }
  int64_t bytes_sent() const { return bytes_sent_; }          // of frames, by the last Begin
  int64_t frames_decoded() const { return frames_decoded_; }  // so far

  // For checkpoints: the codec's state as in compressors/saved_state.h; of several parts each behind
  // its length (8 bytes, little-endian); empty: it keeps none.
  std::vector<std::byte> SaveCodecState() const;
  // DataLoss, InvalidArgument: not what SaveCodecState writes for this codec and these parts.
  absl::StatusOr<CodecStates> ParseCodecState(std::span<const std::byte> saved) const;
  void SetCodecState(CodecStates states);
  void ForgetCodecState();

 private:
  GroupAverage() = default;
  absl::Status ReceiveFrame(size_t member);
  void Divide(int64_t members);
  int tag() const { return static_cast<int>(place_.fragment); }
  absl::Status Sum(const at::Tensor& scratch, const std::vector<bool>& left_out,
                   std::vector<double>* squared_norms);
  void ForgetSum();  // of SharedSums, if it is this one's
  // Takes the sum of another group of this process, if there is one of the same.
  bool TakeSum(const std::vector<bool>& left_out, std::vector<double>* squared_norms);
  absl::Status AddMember(size_t member, const at::Tensor& scratch, double* squared_norm);
  absl::StatusOr<PartState> ParseState(const FramePart& part,
                                       std::span<const std::byte> saved) const;
  void TakeCodecOf(int64_t step);

  Place place_ = {};
  std::vector<std::shared_ptr<const Codec>> codecs_;  // of place_.earlier, and the one after them
  std::shared_ptr<const Codec> codec_;                // of the step
  CodecStates states_;
  at::Tensor average_;  // [N]; a sum until Average has divided it
  bool divided_ = false;
  at::Tensor last_;     // [N], of TurnOfAverage; undefined: none
  at::Tensor senders_;  // [N]; of each element
  std::vector<int> members_;
  std::vector<int> peer_ranks_;               // of the members, in place_.peers
  at::Tensor own_frame_, own_lengths_;        // as those of all:
  std::vector<at::Tensor> frames_, lengths_;  // uint8 [bytes], int64 [parts]; by place in members_
  std::vector<WorkPtr> received_, sent_;      // received_: lengths, then the frame
  std::vector<bool> frame_posted_;            // by place in members_
  int64_t bytes_sent_ = 0, frames_decoded_ = 0;
};

}  // namespace longhaul
