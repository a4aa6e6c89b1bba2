#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longhaul {

// Which life of a group: 0 at first, one more with every start anew.
using Lives = std::map<int, int>;  // by group
// "0:0 2:1", and back; DataLoss: another text.
std::string LivesText(const Lives& lives);
absl::StatusOr<Lives> LivesFrom(const std::string& text);

// What groups tell each other about rounds, through the c10d store that the run has anyway. A
// question is settled by the first answer (compare_set): the store is the only arbiter, and who
// loses it cannot go on.
//
//   down/G/LIFE            that life is over (the launcher says so, or one that leaves)
//   losses                 how often the launcher said that
//   gone/G/LIFE            and no other will come, unless the script lets the group join
//   rR/coming/G            G joins in round R: it is waited for
//   join/G/LIFE/S          stage S of that life is there and waits for a state
//   rR/aA/done/G/S         stage S of G has finished round R and asks who meets, the A-th time
//   rR/aA/who              the answer: "members|joiners", each as LivesText
//   rR/aA/have/G/S         it has every frame
//   rR/aA/outcome          "go" or "again"
//   welcome/G/LIFE/S       "STEP|LIVES|GIVERS": a state is handed over to that life; who is there
//                          now; the members that give, where all do (state_swarm.h)
//   taken/G/LIFE/S         it has the state
//   over                   the run has ended
//   starts/G               where groups have launchers of their own: how often G was started
//   attempt, spec          there, too: a number for this run, and what it trains
//
// Every call may throw what the store does: the store is lost.
inline constexpr char kLossesKey[] = "losses";
class RoundStore {
 public:
  RoundStore(c10::intrusive_ptr<c10d::Store> store, int stages, int groups)
      : store_(std::move(store)), stages_(stages), groups_(groups) {}

  c10d::Store& store() { return *store_; }
  void Set(const std::string& key, const std::string& value);
  bool Has(const std::string& key);
  std::string Get(const std::string& key);  // waits for it
  // The first answer: `value`, or what is there already.
  std::string Settle(const std::string& key, const std::string& value);
  // Blocks until the key is there, at most so long. True: it is.
  bool Await(const std::string& key, absl::Duration at_most);

  // Of all these keys: as Await and Get.
  bool AwaitAll(const std::vector<std::string>& keys, absl::Duration at_most);
  std::vector<std::string> GetAll(const std::vector<std::string>& keys);

  // How many lives the launcher has said to be over; one that left is not counted.
  int64_t Losses();
  bool Down(int group, int life);
  bool Gone(int group, int life);
  // All stages have set PREFIX/S.
  bool AllStages(const std::string& prefix);
  // The life after `life` (or a later one) that waits for a state with all its stages.
  std::optional<int> Waiting(int group, int after_life);
  // Some group that is not down had the state from the start, or has taken it.
  bool AnyHolds();
  // That life waits for a state still, and nobody has said that it gets one.
  bool StillWaits(int group, int life);

  int groups() const { return groups_; }
  int stages() const { return stages_; }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
  const int stages_, groups_;
};

struct Decision {
  Lives members, joiners;
};
std::string DecisionText(const Decision& decision);
absl::StatusOr<Decision> DecisionFrom(const std::string& text);

struct Question {
  std::string round;           // "r3/"
  int64_t attempt;             // from 1
  Lives expected;              // who was to train this round
  Lives known;                 // the last life of every group that was ever heard of
  bool last;                   // after this round nobody needs a state any more
  bool died_waiting;           // one that is done may be lost since: it waited for a joiner's state
  absl::Duration deadline;     // of the monotonic clock
  std::string prefix() const;  // "r3/a1/"
};

// Who meets: everybody of `expected` who is done; those who are down are waited for until they are
// back as joiners, and so are those who are coming; those who are late until the deadline. A joiner
// of the round before whose giver was lost before it welcomed it joins again. Where an
// exchange was taken again kMostExchanges times, the highest group of those that never had all its
// frames is left out: two of them cannot reach each other.
inline constexpr int64_t kMostExchanges = 3;
Decision WhoMeets(RoundStore& store, const Question& question);

// What the exchange of `prefix` has come to between these members: "go" when all stages of each
// have every frame; "again" when one that lacks some is down, or where it is `late`; nullopt: not
// known yet.
std::optional<std::string> OutcomeOf(RoundStore& store, const std::string& prefix,
                                     const Lives& members, bool late);

// Until when the A-th question of a round waits for those who are late: the first one from when this
// rank had finished the round, each later one from now on.
absl::Duration MeetingDeadline(int64_t attempt, absl::Duration met_at, absl::Duration now,
                               absl::Duration round_deadline);
// Until when an exchange that began now is waited for: a lost peer is seen after its deadline, on
// either side, and others may be as late as they were at the meeting.
absl::Duration ExchangeDeadline(absl::Duration now, absl::Duration peer_deadline,
                                absl::Duration round_deadline);

// "" where so many members may take an outer step, else why not. At least one must be.
std::string TooFewMembers(int64_t round, int64_t step, int64_t members, int64_t groups,
                          int64_t min_groups);

}  // namespace longhaul
