#include "plugin/backend/rendezvous.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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

// While records of some are waited for, those of the others are read as often, for their errors.
constexpr milliseconds kLookForErrors(500);

// So long the others are waited for, who read the store: after a failure, after a success. The first
// is short because they may have died; they have not where they have just joined.
constexpr milliseconds kLongestFarewell(5'000);
constexpr milliseconds kLongestReading(30'000);

std::string RecordOf(const absl::Status& status) {
  return status.ok() ? std::string(1, kOk) : kError + status.ToString();
}

// Of a record that rank `rank` has left.
absl::Status ErrorIn(const std::string& record, int rank) {
  if (record.empty() || record[0] != kError) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("rank ", rank, " failed: ", record.substr(1)));
}

constexpr size_t kNonceBytes = 16;

std::string DrawNonce() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

std::string NonceKey(int rank) { return absl::StrCat("longhaul/nonce/", rank); }

std::vector<std::string> NonceKeys(int size) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) keys.push_back(NonceKey(rank));
  return keys;
}

std::string OverKey(const std::string& nonce) { return absl::StrCat("longhaul/over/", nonce); }

std::string AddressKey(const std::string& nonce) {
  return absl::StrCat("longhaul/address/", nonce);
}

std::string ConnectedKey(const std::string& nonce) {
  return absl::StrCat("longhaul/connected/", nonce);
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

std::vector<std::string> Rendezvous::ReadAll(const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  if (!store_.hasExtendedApi()) {
    for (const std::string& key : keys) values.push_back(Read(key));
    return values;
  }
  for (const std::vector<uint8_t>& value : store_.multiGet(keys)) {
    values.emplace_back(value.begin(), value.end());
  }
  return values;
}

absl::Status Rendezvous::Missing(int rank, milliseconds limit, const std::string& why) const {
  return absl::UnavailableError(absl::StrCat("rank ", rank, " of ", size_,
                                             " did not show up in the store within ", limit.count(),
                                             " ms: ", why));
}

absl::Status Rendezvous::AwaitNonces(milliseconds limit) {
  try {
    store_.wait(NonceKeys(size_), limit);
    return absl::OkStatus();
  } catch (const std::exception& e) {
    int missing = 0;
    while (missing + 1 < size_ && store_.check({NonceKey(missing)})) ++missing;
    // The first line says it; what follows is torch's stack trace.
    const std::string why = std::string(e.what()).substr(0, std::string(e.what()).find('\n'));
    return Missing(missing, limit, why);
  }
}

absl::StatusOr<std::vector<std::string>> Rendezvous::AwaitRecords(
    const std::function<std::string(const std::string& nonce)>& key_of) {
  std::vector<std::string> keys;
  for (const std::string& nonce : nonces_) keys.push_back(key_of(nonce));
  const Clock::time_point start = Clock::now();
  Clock::time_point look = start + kLookForErrors;
  for (milliseconds pause(1); !store_.check(keys); pause = std::min(2 * pause, kLongestPause)) {
    std::this_thread::sleep_for(pause);
    if (Clock::now() < look) continue;
    look = Clock::now() + kLookForErrors;
    int missing = -1;
    for (int rank = 0; rank < size_; ++rank) {
      if (!store_.check({keys[rank]})) {
        missing = missing < 0 ? rank : missing;
      } else if (absl::Status s = ErrorIn(Read(keys[rank]), rank); !s.ok()) {
        return s;
      }
    }
    if (missing >= 0 && Clock::now() - start > timeout_) {
      return Missing(missing, timeout_, "it has met the others and said no more");
    }
  }
  std::vector<std::string> records = ReadAll(keys);
  for (int rank = 0; rank < size_; ++rank) {
    RETURN_IF_ERROR(ErrorIn(records[rank], rank));
  }
  return records;
}

absl::Status Rendezvous::Fail(absl::Status why) {
  SayOver();
  AwaitOver(kLongestFarewell);
  return why;
}

void Rendezvous::SayOver() {
  try {
    Publish(OverKey(nonces_[rank_]), "");
  } catch (const std::exception&) {
    // The store has gone, and with it whoever waited for this.
  }
}

void Rendezvous::AwaitOver(milliseconds limit) {
  std::vector<std::string> others;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && !nonces_[rank].empty()) others.push_back(OverKey(nonces_[rank]));
  }
  try {
    if (!others.empty()) store_.wait(others, std::min(timeout_, limit));
  } catch (const std::exception&) {
    // Somebody has died, or the store has gone: this rank knows what it needs to.
  }
}

absl::Status Rendezvous::ErrorLeftBy(int rank) {
  const std::string key = AddressKey(nonces_[rank]);
  return store_.check({key}) ? ErrorIn(Read(key), rank) : absl::OkStatus();
}

// Whoever is late holds up all alike, and is named. A process that has gone may be replaced: so as
// long as not all have greeted, the nonces are read again.
absl::Status Rendezvous::Greet(milliseconds limit) {
  const Clock::time_point start = Clock::now();
  RETURN_IF_ERROR(AwaitNonces(limit));
  for (milliseconds pause(1);; pause = std::min(2 * pause, kLongestPause)) {
    const std::vector<std::string> greetings = GreetNewcomers();
    if (greetings.empty() || store_.check(greetings)) return absl::OkStatus();
    std::this_thread::sleep_for(pause);
    const auto spent = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    if (spent < std::min(limit, kErrorIsOfNow)) continue;
    int missing = -1;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_ || store_.check({GreetingKey(nonces_[rank_], nonces_[rank])})) continue;
      RETURN_IF_ERROR(ErrorLeftBy(rank));
      missing = missing < 0 ? rank : missing;
    }
    if (missing < 0 || spent < limit) continue;
    return Missing(missing, limit, "what is there was written before, by a process that has gone");
  }
}

// Returns the keys by which the others greet this rank.
std::vector<std::string> Rendezvous::GreetNewcomers() {
  const std::vector<std::string> said = ReadAll(NonceKeys(size_));
  std::vector<std::string> greetings;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    if (std::string nonce = said[rank].substr(0, kNonceBytes); nonce != nonces_[rank]) {
      nonces_[rank] = std::move(nonce);
      whereabouts_[rank] = said[rank].substr(kNonceBytes);
      Publish(GreetingKey(nonces_[rank], nonces_[rank_]), "");
    }
    greetings.push_back(GreetingKey(nonces_[rank_], nonces_[rank]));
  }
  return greetings;
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
  ASSIGN_OR_RETURN(const auto records, AwaitRecords(AddressKey));
  for (int rank = 0; rank < size_; ++rank) {
    const std::string& theirs = records[rank];
    const size_t agreement_end = theirs.find('\n');
    if (agreement_end == std::string::npos) {
      return absl::InternalError(absl::StrCat("rank ", rank, ": malformed record in the store"));
    }
    const std::string said = theirs.substr(1, agreement_end - 1);
    if (said != agreement) {
      return absl::InvalidArgumentError(absl::StrCat("the ranks' options differ: rank ", rank,
                                                     " has ", said, ", rank ", rank_, " has ",
                                                     agreement));
    }
    peers.addresses.push_back(theirs.substr(agreement_end + 1));
  }
  return peers;
}

absl::Status Rendezvous::Confirm(const absl::Status& connected, StoreServer server) {
  Publish(ConnectedKey(nonces_[rank_]), RecordOf(connected));
  const absl::Status all = connected.ok() ? AwaitRecords(ConnectedKey).status() : connected;
  if (!all.ok()) return Fail(all);
  SayOver();
  if (server == StoreServer::kHere) AwaitOver(kLongestReading);
  return absl::OkStatus();
}

}  // namespace longhaul
