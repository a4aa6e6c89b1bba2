#include <poll.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "experiments/elastic/state_offers.h"
#include "experiments/elastic/state_swarm.h"
#include "plugin/core/clock.h"
#include "plugin/swarm/swarm.h"
#include "pp_group/state/handover.h"

namespace longhaul {
namespace {

// Whether a giver is still there is asked this often.
constexpr absl::Duration kLookEvery = absl::Milliseconds(500);
// For a fault that strikes in the middle.
constexpr absl::Duration kProgressEvery = absl::Milliseconds(20);

class Taker {
 public:
  Taker(const SharedState& state, int group, int life, absl::Duration patience, RoundStore& store)
      : state_(state),
        group_(group),
        life_(life),
        patience_(patience),
        store_(store),
        joiners_(state, group, store) {
    for (const auto& [member, its_life] : state.members) members_.push_back({member, its_life});
    taken_.lost.resize(members_.size());
  }

  absl::StatusOr<StateTaken> Take();

 private:
  struct Member {
    int group, life;
    std::vector<SwarmAddress> addresses = {};  // of what it offers
  };

  struct Offered {
    std::string part;
    std::vector<Offer> from;  // equal digests
  };

  std::string OfferKey(const Member& member) const {
    return absl::StrCat("swarm/", state_.step, "/", state_.stage, "/", member.group);
  }
  void AwaitOffers();
  std::optional<std::vector<Offer>> OffersOf(size_t place, const std::string& said);
  absl::StatusOr<std::vector<Offered>> Choose();
  absl::Status StartFetches(const std::vector<Offered>& parts);
  absl::StatusOr<std::unique_ptr<Fetch>> Start(const Manifest& manifest, const Offered& offered);
  void NameGivers();
  absl::Status AwaitFetches();
  absl::Status Ended(const std::string& part, Fetch& fetch);
  void LoseTheDown();
  absl::Status AgreeOnTheLost();
  void Lose(size_t place, const std::string& why);
  void LosePart(const std::string& part, const std::string& why);
  void Say(const std::string& line) {
    const std::lock_guard lock(mu_);
    taken_.words.push_back(line);
  }

  const SharedState& state_;
  const int group_, life_;
  const absl::Duration patience_;
  RoundStore& store_;
  std::vector<Member> members_;
  OtherJoiners joiners_;
  int64_t losses_seen_ = -1;
  std::map<std::string, int64_t> came_;  // by address
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

// The moments that only one member has.
void Taker::LosePart(const std::string& part, const std::string& why) {
  for (size_t place = 0; place < members_.size(); ++place) {
    if (part == MomentsPart(static_cast<int>(place))) Lose(place, why);
  }
}

// Until every member that is not lost has said what it offers.
void Taker::AwaitOffers() {
  const absl::Duration by = MonotonicClock().Now() + patience_;
  for (;;) {
    std::vector<std::string> keys;
    for (size_t place = 0; place < members_.size(); ++place) {
      if (!taken_.lost[place]) keys.push_back(OfferKey(members_[place]));
    }
    if (keys.empty() || store_.AwaitAll(keys, kLookEvery)) return;
    LoseTheDown();
    if (MonotonicClock().Now() < by) continue;
    for (size_t place = 0; place < members_.size(); ++place) {
      if (!store_.Has(OfferKey(members_[place]))) Lose(place, "it offered no state in time");
    }
  }
}

// The state's and the moments'; nullopt: none, and the member is lost.
std::optional<std::vector<Offer>> Taker::OffersOf(size_t place, const std::string& said) {
  std::vector<Offer> offers = OffersIn(said);
  if (offers.size() == (state_.moments ? 2 : 1)) return offers;
  Lose(place, absl::StrCat("it does not give: ", said.substr(0, 200)));
  return std::nullopt;
}

// What is the same on all members comes from those who say so.
absl::StatusOr<std::vector<Taker::Offered>> Taker::Choose() {
  std::vector<size_t> places;
  std::vector<std::string> keys;
  for (size_t place = 0; place < members_.size(); ++place) {
    if (taken_.lost[place]) continue;
    places.push_back(place);
    keys.push_back(OfferKey(members_[place]));
  }
  const std::vector<std::string> said = store_.GetAll(keys);
  std::map<size_t, std::vector<Offer>> offers;  // by place
  for (size_t i = 0; i < places.size(); ++i) {
    const auto own = OffersOf(places[i], said[i]);
    if (!own) continue;
    offers[places[i]] = *own;
    for (const Offer& offer : *own) members_[places[i]].addresses.push_back(offer.address);
  }
  const std::string best = MostBelieved(offers);
  if (best.empty()) {
    return absl::UnavailableError(absl::StrCat("no member gave the state of step ", state_.step));
  }
  std::vector<Offered> parts = {{kStatePart, {}}};
  for (const auto& [place, own] : offers) {
    if (own.front().digest != best) {
      Lose(place, absl::StrCat("its state has the manifest ", own.front().digest,
                               ", the others' is ", best));
      continue;
    }
    parts[0].from.push_back(own.front());
    if (state_.moments) parts.push_back({MomentsPart(static_cast<int>(place)), {own.back()}});
  }
  return parts;
}

absl::StatusOr<std::unique_ptr<Fetch>> Taker::Start(const Manifest& manifest,
                                                    const Offered& offered) {
  FetchOptions options{.swarm = {.listen = {.ip = state_.ip, .port = 0}},
                       .sources = {},
                       .model = std::nullopt,
                       .give_up_after = std::max(patience_, absl::Seconds(1))};
  for (const Offer& offer : offered.from) options.sources.push_back(offer.address);
  options.swarm.notice = [this](const std::string& line) { Say(line); };
  if (offered.part == kStatePart) options.swarm.members = joiners_.Ips();
  if (state_.midway && offered.part == kStatePart) {
    options.progress_every = kProgressEvery;
    options.progress = [this](const FetchProgress& at) {
      if (4 * at.bytes >= at.total) state_.midway();
    };
  }
  return Fetch::Start(manifest, absl::StrCat(state_.folder, "/", offered.part), options);
}

absl::Status Taker::StartFetches(const std::vector<Offered>& parts) {
  std::vector<std::string> keys;
  for (const Offered& part : parts) keys.push_back("manifest/" + part.from.front().digest);
  const std::vector<std::string> texts = store_.GetAll(keys);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto manifest = ManifestFrom(texts[i], parts[i].from.front().digest);
    absl::Status status = manifest.status();
    if (status.ok()) {
      absl::StatusOr<std::unique_ptr<Fetch>> fetch = Start(*manifest, parts[i]);
      status = fetch.status();
      if (fetch.ok()) fetches_[parts[i].part] = *std::move(fetch);
    }
    if (status.ok() && i == 0) joiners_.Tell(*fetches_[kStatePart]);
    if (status.ok()) continue;
    if (i == 0) return status;
    LosePart(parts[i].part, std::string(status.message()));
  }
  return absl::OkStatus();
}

// Asks for each member only if somebody was lost since it last did: an answer may be far away.
void Taker::LoseTheDown() {
  const int64_t losses = store_.Losses();
  if (losses == losses_seen_) return;
  losses_seen_ = losses;
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
    for (const MemberBytes& member : report->delivered) {
      came_[ToString(SwarmAddress{member.ip, member.port})] += member.bytes;
    }
    return absl::OkStatus();
  }
  if (part == kStatePart) return report.status();
  LosePart(part, std::string(report.status().message()));
  return absl::OkStatus();
}

absl::Status Taker::AwaitFetches() {
  while (!fetches_.empty()) {
    if (const auto state = fetches_.find(kStatePart); state != fetches_.end()) {
      joiners_.Meet(*state->second);
    }
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
      RETURN_IF_ERROR(Ended(parts[i], *fetches_[parts[i]]));
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
  const std::string prefix = absl::StrCat("lost/", group_, "/", life_, "/");
  store_.Set(absl::StrCat(prefix, state_.stage), absl::StrJoin(own, " "));
  std::vector<std::string> others;
  for (int stage = 0; stage < store_.stages(); ++stage) {
    if (stage != state_.stage) others.push_back(absl::StrCat(prefix, stage));
  }
  if (others.empty()) return absl::OkStatus();
  while (!store_.AwaitAll(others, kLookEvery)) {
    if (store_.Down(group_, life_)) return absl::UnavailableError("another stage was lost");
  }
  for (const std::string& said : store_.GetAll(others)) {
    for (const auto word : absl::StrSplit(said, ' ', absl::SkipEmpty())) {
      size_t place = 0;
      if (absl::SimpleAtoi(word, &place) && place < members_.size()) {
        Lose(place, "another stage could not have its moments");
      }
    }
  }
  return absl::OkStatus();
}

void Taker::NameGivers() {
  for (const Member& member : members_) {
    int64_t bytes = 0;
    for (const SwarmAddress& address : member.addresses) bytes += came_[ToString(address)];
    taken_.givers.push_back({absl::StrCat("group ", member.group), member.group, bytes});
  }
  for (const auto& [group, address] : joiners_.addresses()) {
    taken_.givers.push_back(
        {absl::StrCat("joiner ", group), group, std::exchange(came_[ToString(address)], 0)});
  }
}

absl::StatusOr<StateTaken> Taker::Take() {
  const absl::Duration begun = MonotonicClock().Now();
  LoseTheDown();
  AwaitOffers();
  ASSIGN_OR_RETURN(const std::vector<Offered> parts, Choose());
  taken_.offered = MonotonicClock().Now() - begun;
  RETURN_IF_ERROR(StartFetches(parts));
  RETURN_IF_ERROR(AwaitFetches());
  taken_.arrived = MonotonicClock().Now() - begun;
  RETURN_IF_ERROR(AgreeOnTheLost());
  NameGivers();
  return taken_;
}

}  // namespace

absl::StatusOr<StateTaken> TakeStateFromAll(const SharedState& state, int group, int life,
                                            absl::Duration patience, RoundStore& store) {
  return Taker(state, group, life, patience, store).Take();
}

}  // namespace longhaul
