#include "plugin/backend/rendezvous.h"

#include <random>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

// Records open with one letter: "o" ok, "e" an error text follows.
constexpr char kOk = 'o';
constexpr char kError = 'e';

std::string RecordOf(const absl::Status& status) {
  return status.ok() ? std::string(1, kOk) : absl::StrCat("e", status.ToString());
}

std::string DrawNonce() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

}  // namespace

Rendezvous::Rendezvous(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout)
    : store_(store), rank_(rank), size_(size), timeout_(timeout) {}

void Rendezvous::Publish(const std::string& key, const std::string& value) {
  store_.set(key, std::vector<uint8_t>(value.begin(), value.end()));
}

absl::StatusOr<std::string> Rendezvous::Await(const std::string& key, int rank) {
  try {
    store_.wait({key}, timeout_);
  } catch (const std::exception& e) {
    // The first line says it; what follows is torch's stack trace.
    const std::string why = std::string(e.what()).substr(0, std::string(e.what()).find('\n'));
    return absl::UnavailableError(absl::StrCat("rank ", rank, " of ", size_,
                                               " did not show up in the store within ",
                                               timeout_.count(), " ms: ", why));
  }
  const std::vector<uint8_t> value = store_.get(key);
  if (!value.empty() && value[0] == kError) {
    return absl::UnavailableError(
        absl::StrCat("rank ", rank, " failed: ", std::string(value.begin() + 1, value.end())));
  }
  return std::string(value.begin(), value.end());
}

absl::StatusOr<Rendezvous::Peers> Rendezvous::Exchange(const absl::StatusOr<std::string>& address,
                                                       const std::string& agreement) {
  std::string record = RecordOf(address.status());
  const std::string nonce = rank_ == 0 ? DrawNonce() : "";
  // ok record: "o" nonce LF agreement LF address; the address may hold any byte.
  if (address.ok()) absl::StrAppend(&record, nonce, "\n", agreement, "\n", *address);
  Publish(absl::StrCat("longhaul/address/", rank_), record);
  if (!address.ok()) return address.status();

  Peers peers;
  for (int rank = 0; rank < size_; ++rank) {
    absl::StatusOr<std::string> theirs = Await(absl::StrCat("longhaul/address/", rank), rank);
    if (!theirs.ok()) return theirs.status();
    const size_t nonce_end = theirs->find('\n');
    const size_t agreement_end = theirs->find('\n', nonce_end + 1);
    if (nonce_end == std::string::npos || agreement_end == std::string::npos) {
      return absl::InternalError(absl::StrCat("rank ", rank, ": malformed record in the store"));
    }
    if (rank == 0) peers.nonce = theirs->substr(1, nonce_end - 1);
    const std::string said = theirs->substr(nonce_end + 1, agreement_end - nonce_end - 1);
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
  Publish(absl::StrCat("longhaul/connected/", rank_), RecordOf(connected));
  if (!connected.ok()) return connected;
  for (int rank = 0; rank < size_; ++rank) {
    const auto theirs = Await(absl::StrCat("longhaul/connected/", rank), rank);
    if (!theirs.ok()) return theirs.status();
  }
  return absl::OkStatus();
}

}  // namespace longhaul
