#include "experiments/elastic/round_store.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

constexpr absl::Duration kLongestPause = absl::Milliseconds(100);

std::vector<uint8_t> BytesOfText(const std::string& text) { return {text.begin(), text.end()}; }

// What is known when one looks, but for the lives of groups.
struct Look {
  Decision decision;
  bool complete = true;  // nobody is worth waiting for
};

// -1: nobody is.
int CutOff(RoundStore& store, const Question& question) {
  if (question.attempt <= kMostExchanges) return -1;
  const std::string before = absl::StrCat(question.round, "a", question.attempt - 1, "/");
  const auto met = DecisionFrom(store.Get(before + "who"));
  if (!met.ok()) return -1;
  int highest = -1;
  for (const auto& [group, life] : met->members) {
    if (!store.AllStages(absl::StrCat(before, "have/", group))) highest = group;
  }
  return highest;
}

Look LookAround(RoundStore& store, const Question& question, int cut_off) {
  const Lives &expected = question.expected, &known = question.known;
  Look look;
  for (int g = 0; g < store.groups(); ++g) {
    if (g == cut_off) continue;
    const auto there = expected.find(g);
    if (there != expected.end() && store.AllStages(absl::StrCat(question.prefix(), "done/", g)) &&
        !(question.died_waiting && store.Down(g, there->second))) {
      look.decision.members.insert(*there);
      continue;
    }
    if (there != expected.end() && store.StillWaits(g, there->second)) {
      if (!question.last) look.decision.joiners.insert(*there);
      continue;
    }
    const bool late = there != expected.end() && !store.Down(g, there->second);
    if (late) {
      look.complete = false;
      continue;
    }
    if (question.last) continue;
    const auto life = known.find(g);
    const std::optional<int> waits = store.Waiting(g, life == known.end() ? -1 : life->second);
    if (waits) {
      look.decision.joiners[g] = *waits;
    } else if (there != expected.end() ? !store.Gone(g, there->second)
                                       : store.Has(absl::StrCat(question.round, "coming/", g))) {
      look.complete = false;
    }
  }
  return look;
}

}  // namespace

std::string LivesText(const Lives& lives) {
  std::string text;
  for (const auto& [group, life] : lives) {
    absl::StrAppend(&text, text.empty() ? "" : " ", group, ":", life);
  }
  return text;
}

absl::StatusOr<Lives> LivesFrom(const std::string& text) {
  Lives lives;
  for (const auto word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(word, ':');
    int group = 0, life = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &group) ||
        !absl::SimpleAtoi(parts[1], &life)) {
      return absl::DataLossError(absl::StrCat("the store says who is there as '", text, "'"));
    }
    lives[group] = life;
  }
  return lives;
}

std::string DecisionText(const Decision& decision) {
  return absl::StrCat(LivesText(decision.members), "|", LivesText(decision.joiners));
}

absl::StatusOr<Decision> DecisionFrom(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('|', 1));
  ASSIGN_OR_RETURN(const auto members, LivesFrom(parts.first));
  ASSIGN_OR_RETURN(const auto joiners, LivesFrom(parts.second));
  return Decision{members, joiners};
}

void RoundStore::Set(const std::string& key, const std::string& value) {
  store_->set(key, BytesOfText(value));
}

bool RoundStore::Has(const std::string& key) { return store_->check({key}); }

std::string RoundStore::Get(const std::string& key) {
  const std::vector<uint8_t> value = store_->get(key);
  return {value.begin(), value.end()};
}

std::string RoundStore::Settle(const std::string& key, const std::string& value) {
  const std::vector<uint8_t> settled = store_->compareSet(key, {}, BytesOfText(value));
  return {settled.begin(), settled.end()};
}

bool RoundStore::Await(const std::string& key, absl::Duration at_most) {
  try {
    const auto limit = std::max<int64_t>(1, absl::ToInt64Milliseconds(at_most));
    store_->wait({key}, std::chrono::milliseconds(limit));
    return true;
  } catch (const std::exception&) {
    return Has(key);  // throws where the store is lost, rather than late
  }
}

bool RoundStore::AwaitAll(const std::vector<std::string>& keys, absl::Duration at_most) {
  try {
    const auto limit = std::max<int64_t>(1, absl::ToInt64Milliseconds(at_most));
    store_->wait(keys, std::chrono::milliseconds(limit));
    return true;
  } catch (const std::exception&) {
    return store_->check(keys);  // throws where the store is lost, rather than late
  }
}

std::vector<std::string> RoundStore::GetAll(const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  for (const std::vector<uint8_t>& value : store_->multiGet(keys)) {
    values.emplace_back(value.begin(), value.end());
  }
  return values;
}

int64_t RoundStore::Losses() { return store_->add(kLossesKey, 0); }

bool RoundStore::Down(int group, int life) { return Has(absl::StrCat("down/", group, "/", life)); }

bool RoundStore::Gone(int group, int life) { return Has(absl::StrCat("gone/", group, "/", life)); }

bool RoundStore::AllStages(const std::string& prefix) {
  std::vector<std::string> keys;
  for (int s = 0; s < stages_; ++s) keys.push_back(absl::StrCat(prefix, "/", s));
  return store_->check(keys);
}

std::optional<int> RoundStore::Waiting(int group, int after_life) {
  int life = after_life + 1;
  while (Down(group, life)) ++life;
  if (!AllStages(absl::StrCat("join/", group, "/", life))) return std::nullopt;
  return life;
}

bool RoundStore::AnyHolds() {
  for (int group = 0; group < groups_; ++group) {
    int life = 0;
    while (Down(group, life)) ++life;
    if (life == 0 || AllStages(absl::StrCat("taken/", group, "/", life))) return true;
  }
  return false;
}

bool RoundStore::StillWaits(int group, int life) {
  return !Down(group, life) && AllStages(absl::StrCat("join/", group, "/", life)) &&
         !AllStages(absl::StrCat("welcome/", group, "/", life));
}

std::string Question::prefix() const { return absl::StrCat(round, "a", attempt, "/"); }

Decision WhoMeets(RoundStore& store, const Question& question) {
  const std::string who = question.prefix() + "who";
  const int cut_off = CutOff(store, question);
  for (absl::Duration pause = absl::Milliseconds(5);; pause = std::min(2 * pause, kLongestPause)) {
    const Look look = LookAround(store, question, cut_off);
    if (look.complete || MonotonicClock().Now() >= question.deadline) {
      // The first one to say it is believed by all.
      const auto settled = DecisionFrom(store.Settle(who, DecisionText(look.decision)));
      return settled.ok() ? *settled : Decision();
    }
    if (store.Await(who, pause)) {
      const auto settled = DecisionFrom(store.Get(who));
      return settled.ok() ? *settled : Decision();
    }
  }
}

std::optional<std::string> OutcomeOf(RoundStore& store, const std::string& prefix,
                                     const Lives& members, bool late) {
  bool whole = true, lost = false;
  for (const auto& [group, life] : members) {
    if (store.AllStages(absl::StrCat(prefix, "have/", group))) continue;
    whole = false;
    lost = lost || store.Down(group, life);
  }
  if (whole) return "go";
  if (lost || late) return "again";
  return std::nullopt;
}

absl::Duration MeetingDeadline(int64_t attempt, absl::Duration met_at, absl::Duration now,
                               absl::Duration round_deadline) {
  return (attempt == 1 ? met_at : now) + round_deadline;
}

absl::Duration ExchangeDeadline(absl::Duration now, absl::Duration peer_deadline,
                                absl::Duration round_deadline) {
  return now + 2 * peer_deadline + round_deadline;
}

std::string TooFewMembers(int64_t round, int64_t step, int64_t members, int64_t groups,
                          int64_t min_groups) {
  if (members >= std::max<int64_t>(1, min_groups)) return "";
  return absl::StrCat("round ", round, " (step ", step, "): ", members, " groups are left of ",
                      groups, ", outer.min_groups is ", min_groups);
}

}  // namespace longhaul
