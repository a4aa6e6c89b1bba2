#include <poll.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "experiments/train/state_swarm.h"
#include "plugin/core/clock.h"
#include "plugin/swarm/file_digest.h"
#include "plugin/swarm/swarm.h"
#include "pp_group/handover.h"

namespace longhaul {
namespace {

// Whether a giver is still there is asked this often.
constexpr absl::Duration kLookEvery = absl::Milliseconds(500);
// For a fault that strikes in the middle.
constexpr absl::Duration kProgressEvery = absl::Milliseconds(20);

// What a giver says of a part in the store.
struct Offer {
  std::string digest;
  SwarmAddress address;
};

class Taker {
 public:
  Taker(const SharedState& state, int group, int life, absl::Duration patience, RoundStore& store)
      : state_(state), group_(group), life_(life), patience_(patience), store_(store) {
    for (const auto& [member, its_life] : state.members) members_.push_back({member, its_life});
    taken_.lost.resize(members_.size());
  }

  absl::StatusOr<StateTaken> Take();

 private:
  struct Member {
    int group, life;
    std::string ip = {};
  };

  absl::StatusOr<Offer> Await(const Member& member, const std::string& part);
  absl::Status StartState();
  void StartMoments(size_t place);
  absl::StatusOr<std::unique_ptr<Fetch>> Start(const std::string& digest, const std::string& part,
                                               std::vector<SwarmAddress> sources);
  absl::StatusOr<Manifest> ManifestOf(const std::string& digest);
  absl::Status AwaitFetches();
  absl::Status Ended(const std::string& part, Fetch& fetch);
  void LoseTheDown();
  absl::Status AgreeOnTheLost();
  void Lose(size_t place, const std::string& why);
  void Say(const std::string& line) {
    const std::lock_guard lock(mu_);
    taken_.words.push_back(line);
  }

  const SharedState& state_;
  const int group_, life_;
  const absl::Duration patience_;
  RoundStore& store_;
  std::vector<Member> members_;
  std::map<std::string, int64_t> by_ip_;
  std::mutex mu_;
  StateTaken taken_;                                       // its words: mu_
  std::map<std::string, std::unique_ptr<Fetch>> fetches_;  // by part; last: they use the others
};

void Taker::Lose(size_t place, const std::string& why) {
  if (taken_.lost[place]) return;
  taken_.lost[place] = true;
  Say(absl::StrCat("group ", members_[place].group, ": ", why, "; its moments start anew"));
  const auto fetch = fetches_.find(MomentsPart(static_cast<int>(place)));
  if (fetch != fetches_.end()) fetch->second->Cancel();
}

absl::StatusOr<Offer> Taker::Await(const Member& member, const std::string& part) {
  const std::string key =
      absl::StrCat("swarm/", state_.step, "/", state_.stage, "/", member.group, "/", part);
  const absl::Duration by = MonotonicClock().Now() + patience_;
  while (!store_.Await(key, kLookEvery)) {
    if (store_.Down(member.group, member.life)) return absl::UnavailableError("it was lost");
    if (MonotonicClock().Now() >= by) return absl::DeadlineExceededError("it offered none in time");
  }
  const std::string said = store_.Get(key);
  const std::pair<std::string, std::string> words = absl::StrSplit(said, absl::MaxSplits(' ', 1));
  const absl::StatusOr<SwarmAddress> address = ParseSwarmAddress(words.second);
  if (words.first != "!" && address.ok()) return Offer{words.first, *address};
  return absl::UnavailableError(absl::StrCat("it cannot give ", part, ": ", said.substr(0, 200)));
}

absl::StatusOr<Manifest> Taker::ManifestOf(const std::string& digest) {
  const std::string text = store_.Get("manifest/" + digest);
  if (Sha256Of(text) != digest) {
    return absl::DataLossError(
        absl::StrCat("the manifest in the store has not the SHA-256 ", digest, " of its key"));
  }
  return ParseManifest(text);
}

absl::StatusOr<std::unique_ptr<Fetch>> Taker::Start(const std::string& digest,
                                                    const std::string& part,
                                                    std::vector<SwarmAddress> sources) {
  const absl::StatusOr<Manifest> manifest = ManifestOf(digest);
  if (!manifest.ok()) return manifest.status();
  FetchOptions options{.swarm = {.listen = {.ip = state_.ip, .port = 0}},
                       .sources = std::move(sources),
                       .model = std::nullopt,
                       .give_up_after = std::max(patience_, absl::Seconds(1))};
  options.swarm.notice = [this](const std::string& line) { Say(line); };
  if (state_.midway && part == kStatePart) {
    options.progress_every = kProgressEvery;
    options.progress = [this](const FetchProgress& at) {
      if (4 * at.bytes >= at.total) state_.midway();
    };
  }
  return Fetch::Start(*manifest, absl::StrCat(state_.folder, "/", part), options);
}

// What is the same on all members comes from those who say so: where they differ, from the most,
// and among equals from the lowest group's.
absl::Status Taker::StartState() {
  std::vector<absl::StatusOr<Offer>> offers;
  std::map<std::string, size_t> votes;
  for (Member& member : members_) {
    offers.push_back(Await(member, kStatePart));
    if (!offers.back().ok()) continue;
    member.ip = offers.back()->address.ip;
    ++votes[offers.back()->digest];
  }
  std::string best;
  for (const auto& offer : offers) {
    if (offer.ok() && (best.empty() || votes[offer->digest] > votes[best])) best = offer->digest;
  }
  if (best.empty()) {
    return absl::UnavailableError(absl::StrCat("no member gave the state of step ", state_.step));
  }
  std::vector<SwarmAddress> sources;
  for (size_t place = 0; place < members_.size(); ++place) {
    if (!offers[place].ok()) {
      Lose(place, std::string(offers[place].status().message()));
    } else if (offers[place]->digest != best) {
      Lose(place, absl::StrCat("its state has the manifest ", offers[place]->digest,
                               ", the others' is ", best));
    } else {
      sources.push_back(offers[place]->address);
    }
  }
  absl::StatusOr<std::unique_ptr<Fetch>> fetch = Start(best, kStatePart, std::move(sources));
  if (!fetch.ok()) return fetch.status();
  fetches_[kStatePart] = *std::move(fetch);
  return absl::OkStatus();
}

void Taker::StartMoments(size_t place) {
  if (taken_.lost[place]) return;
  const std::string part = MomentsPart(static_cast<int>(place));
  const absl::StatusOr<Offer> offer = Await(members_[place], part);
  if (!offer.ok()) return Lose(place, std::string(offer.status().message()));
  absl::StatusOr<std::unique_ptr<Fetch>> fetch = Start(offer->digest, part, {offer->address});
  if (!fetch.ok()) return Lose(place, std::string(fetch.status().message()));
  fetches_[part] = *std::move(fetch);
}

void Taker::LoseTheDown() {
  for (size_t place = 0; place < members_.size(); ++place) {
    if (taken_.lost[place]) continue;
    if (store_.Down(members_[place].group, members_[place].life)) Lose(place, "it was lost");
  }
}

// One part has come, or will not.
absl::Status Taker::Ended(const std::string& part, Fetch& fetch) {
  const absl::StatusOr<FetchReport> report = fetch.Wait();
  if (report.ok()) {
    taken_.bytes += report->bytes;
    for (const MemberBytes& member : report->delivered) by_ip_[member.ip] += member.bytes;
    return absl::OkStatus();
  }
  if (part == kStatePart) return report.status();
  for (size_t place = 0; place < members_.size(); ++place) {
    if (part == MomentsPart(static_cast<int>(place))) {
      Lose(place, std::string(report.status().message()));
    }
  }
  return absl::OkStatus();
}

absl::Status Taker::AwaitFetches() {
  while (!fetches_.empty()) {
    std::vector<pollfd> ends;
    for (const auto& [part, fetch] : fetches_) ends.push_back({fetch->done_fd(), POLLIN, 0});
    const timespec pause = absl::ToTimespec(kLookEvery);
    if (ppoll(ends.data(), ends.size(), &pause, nullptr) == 0) {
      LoseTheDown();
      if (std::all_of(taken_.lost.begin(), taken_.lost.end(), [](bool lost) { return lost; })) {
        return absl::UnavailableError("all members were lost while they gave the state");
      }
      continue;
    }
    std::vector<std::string> parts;
    for (const auto& [part, fetch] : fetches_) parts.push_back(part);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (ends[i].revents == 0) continue;
      if (absl::Status s = Ended(parts[i], *fetches_[parts[i]]); !s.ok()) return s;
      fetches_.erase(parts[i]);
    }
  }
  return absl::OkStatus();
}

// A giver that one stage has missed gives no moments to any: so the joiner's bits hang on who was
// lost in the transfer, and not on how far each stage had come.
absl::Status Taker::AgreeOnTheLost() {
  LoseTheDown();
  std::vector<int> own;
  for (size_t place = 0; place < members_.size(); ++place) {
    if (taken_.lost[place]) own.push_back(static_cast<int>(place));
  }
  const std::string prefix = absl::StrCat("swarm/", state_.step, "/lost/", group_, "/", life_);
  store_.Set(absl::StrCat(prefix, "/", state_.stage), absl::StrJoin(own, " "));
  for (int stage = 0; stage < store_.stages(); ++stage) {
    const std::string key = absl::StrCat(prefix, "/", stage);
    while (!store_.Await(key, kLookEvery)) {
      if (store_.Down(group_, life_)) return absl::UnavailableError("another stage was lost");
    }
    for (const auto word : absl::StrSplit(store_.Get(key), ' ', absl::SkipEmpty())) {
      size_t place = 0;
      if (absl::SimpleAtoi(word, &place) && place < members_.size()) {
        Lose(place, "another stage could not have its moments");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StateTaken> Taker::Take() {
  if (absl::Status s = StartState(); !s.ok()) return s;
  for (size_t place = 0; state_.moments && place < members_.size(); ++place) StartMoments(place);
  if (absl::Status s = AwaitFetches(); !s.ok()) return s;
  if (absl::Status s = AgreeOnTheLost(); !s.ok()) return s;
  for (const Member& member : members_) {
    taken_.givers.emplace_back(absl::StrCat("group ", member.group), by_ip_[member.ip]);
  }
  return taken_;
}

}  // namespace

absl::StatusOr<StateTaken> TakeStateFromAll(const SharedState& state, int group, int life,
                                            absl::Duration patience, RoundStore& store) {
  return Taker(state, group, life, patience, store).Take();
}

}  // namespace longhaul
