#include "plugin/backend/rendezvous.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

using std::chrono::milliseconds;

// Records open with one letter: "o" ok, "e" an error text follows.
constexpr char kOk = 'o';
constexpr char kError = 'e';

// A store tells of a key that comes, not of one that changes: what may change is read at pauses
// that double up to this one.
constexpr milliseconds kLongestPause(100);

// A rank that fails stays so long to tell those who come after it. Who finds an error without its
// author takes it for the failure of this attempt after a longer time, in which a process that
// replaces the author would have come.
constexpr milliseconds kFailedRankStays(20'000);
constexpr milliseconds kErrorIsOfNow(60'000);

constexpr milliseconds kLongestFarewell(5'000);

std::string RecordOf(const absl::Status& status) {
  return status.ok() ? std::string(1, kOk) : absl::StrCat("e", status.ToString());
}

constexpr size_t kNonceBytes = 16;

std::string DrawNonce() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

std::string NonceKey(int rank) { return absl::StrCat("longhaul/nonce/", rank); }

std::string OverKey(const std::string& nonce) { return absl::StrCat("longhaul/over/", nonce); }

std::string AddressKey(const std::string& nonce) {
  return absl::StrCat("longhaul/address/", nonce);
}

// Says to the owner of `reader` that the owner of `writer` is alive and has read it.
std::string GreetingKey(const std::string& reader, const std::string& writer) {
  return absl::StrCat("longhaul/greeting/", reader, "/", writer);
}

}  // namespace

Rendezvous::Rendezvous(c10d::Store& store, int rank, int size, milliseconds timeout)
    : store_(store),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      nonces_(size),
      whereabouts_(size) {}

void Rendezvous::Publish(const std::string& key, std::string_view value) {
  store_.set(key, std::vector<uint8_t>(value.begin(), value.end()));
}

std::string Rendezvous::Read(const std::string& key) {
  const std::vector<uint8_t> value = store_.get(key);
  return std::string(value.begin(), value.end());
}

absl::Status Rendezvous::AwaitKey(const std::string& key, int rank, milliseconds limit) {
  try {
    store_.wait({key}, limit);
    return absl::OkStatus();
  } catch (const std::exception& e) {
    // The first line says it; what follows is torch's stack trace.
    const std::string why = std::string(e.what()).substr(0, std::string(e.what()).find('\n'));
    return absl::UnavailableError(absl::StrCat("rank ", rank, " of ", size_,
                                               " did not show up in the store within ",
                                               limit.count(), " ms: ", why));
  }
}

absl::StatusOr<std::string> Rendezvous::AwaitRecord(const std::string& key, int rank) {
  if (absl::Status s = AwaitKey(key, rank, timeout_); !s.ok()) return s;
  std::string value = Read(key);
  if (!value.empty() && value[0] == kError) {
    return absl::UnavailableError(absl::StrCat("rank ", rank, " failed: ", value.substr(1)));
  }
  return value;
}

absl::Status Rendezvous::Fail(absl::Status why) {
  std::vector<std::string> others;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && !nonces_[rank].empty()) others.push_back(OverKey(nonces_[rank]));
  }
  try {
    Publish(OverKey(nonces_[rank_]), "");
    if (!others.empty()) store_.wait(others, std::min(timeout_, kLongestFarewell));
  } catch (const std::exception&) {
    // Somebody has died, or the store has gone: `why` says more.
  }
  return why;
}

bool Rendezvous::Greeted(int rank) {
  const std::string said = Read(NonceKey(rank));  // again: a process that has gone may be replaced
  if (const std::string nonce = said.substr(0, kNonceBytes); nonce != nonces_[rank]) {
    nonces_[rank] = nonce;
    whereabouts_[rank] = said.substr(nonce.size());
    Publish(GreetingKey(nonces_[rank], nonces_[rank_]), "");
  }
  return store_.check({GreetingKey(nonces_[rank_], nonces_[rank])});
}

absl::Status Rendezvous::ErrorLeftBy(int rank) {
  const std::string key = AddressKey(nonces_[rank]);
  if (!store_.check({key})) return absl::OkStatus();
  return AwaitRecord(key, rank).status();
}

// Every rank is first waited for, then greeted: whoever is late holds up all alike, and is named.
absl::Status Rendezvous::Greet(milliseconds limit) {
  const Clock::time_point start = Clock::now();
  std::vector<int> pending;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    if (absl::Status s = AwaitKey(NonceKey(rank), rank, limit); !s.ok()) return s;
    pending.push_back(rank);
  }
  for (milliseconds pause(1); !pending.empty(); pause = std::min(2 * pause, kLongestPause)) {
    std::erase_if(pending, [&](int rank) { return Greeted(rank); });
    if (!pending.empty()) std::this_thread::sleep_for(pause);
    const auto spent = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    if (pending.empty() || spent < std::min(limit, kErrorIsOfNow)) continue;
    for (const int rank : pending) {
      if (absl::Status s = ErrorLeftBy(rank); !s.ok()) return s;
    }
    if (spent < limit) continue;
    return absl::UnavailableError(absl::StrCat(
        "rank ", pending.front(), " of ", size_, " did not show up in the store within ",
        limit.count(), " ms: what is there was written before, by a process that has gone"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Rendezvous::Meet(const absl::Status& able,
                                                          const std::string& whereabouts) {
  nonces_[rank_] = DrawNonce();
  whereabouts_[rank_] = whereabouts;
  if (!able.ok()) Publish(AddressKey(nonces_[rank_]), RecordOf(able));
  Publish(NonceKey(rank_), absl::StrCat(nonces_[rank_], whereabouts));
  const absl::Status greeted = Greet(able.ok() ? timeout_ : std::min(timeout_, kFailedRankStays));
  if (!able.ok()) return Fail(able);
  if (!greeted.ok()) return Fail(greeted);
  return whereabouts_;
}

absl::StatusOr<Rendezvous::Peers> Rendezvous::Exchange(const absl::StatusOr<std::string>& address,
                                                       const std::string& agreement) {
  // ok record: "o" agreement LF address; the address may hold any byte.
  std::string record = RecordOf(address.status());
  if (address.ok()) absl::StrAppend(&record, agreement, "\n", *address);
  Publish(AddressKey(nonces_[rank_]), record);
  if (!address.ok()) return Fail(address.status());
  absl::StatusOr<Peers> peers = ReadRecords(agreement);
  return peers.ok() ? std::move(peers) : Fail(peers.status());
}

absl::StatusOr<Rendezvous::Peers> Rendezvous::ReadRecords(const std::string& agreement) {
  Peers peers{.addresses = {}, .nonce = nonces_[0]};
  for (int rank = 0; rank < size_; ++rank) {
    const auto theirs = AwaitRecord(AddressKey(nonces_[rank]), rank);
    if (!theirs.ok()) return theirs.status();
    const size_t agreement_end = theirs->find('\n');
    if (agreement_end == std::string::npos) {
      return absl::InternalError(absl::StrCat("rank ", rank, ": malformed record in the store"));
    }
    const std::string said = theirs->substr(1, agreement_end - 1);
    if (said != agreement) {
      return absl::InvalidArgumentError(absl::StrCat("the ranks' options differ: rank ", rank,
                                                     " has ", said, ", rank ", rank_, " has ",
                                                     agreement));
    }
    peers.addresses.push_back(theirs->substr(agreement_end + 1));
  }
  return peers;
}

absl::Status Rendezvous::Confirm(const absl::Status& connected) {
  Publish(absl::StrCat("longhaul/connected/", nonces_[rank_]), RecordOf(connected));
  const absl::Status all = connected.ok() ? ReadConfirmations() : connected;
  return all.ok() ? all : Fail(all);
}

absl::Status Rendezvous::ReadConfirmations() {
  for (int rank = 0; rank < size_; ++rank) {
    const auto theirs = AwaitRecord(absl::StrCat("longhaul/connected/", nonces_[rank]), rank);
    if (!theirs.ok()) return theirs.status();
  }
  return absl::OkStatus();
}

}  // namespace longhaul
