#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/statusor.h"

namespace longhaul {

// How the ranks of a new group find each other through the c10d Store. They meet: each says where it
// is and learns where the others are. Then every rank publishes one record (its address, or why it
// has none) and reads the others'. A rank that fails says so, so that the others fail at once and
// with its words instead of waiting for the timeout; it stays up to 20 s for those who are not there
// yet.
//
// A store may outlive the processes that wrote into it (torchrun restarts the workers and keeps its
// store), so nothing in it is believed because it is there. Every rank draws a nonce and names it
// under its rank; each pair then greets by both nonces, which only a live peer can know:
//   longhaul/nonce/RANK               the newest nonce of that rank, and where it is behind it; may
//                                     be of a dead process
//   longhaul/greeting/MINE/THEIRS     written by the rank of THEIRS, which has read MINE
//   longhaul/address/NONCE            the record
//   longhaul/connected/NONCE          what Confirm says
//   longhaul/over/NONCE               that rank reads no more: it has failed here, or has joined
// What all ranks have written is asked for in one question: behind a long way to the store, two ranks
// and twenty take the same time.
// The store may live in the process of a rank, which takes it along when it ends. So whoever fails
// first waits, up to 5 s, for the others to have failed too, who need it until then; and where all
// have joined, the rank whose process serves the store waits, up to 30 s, until the others have read
// that they have.
class Rendezvous {
 public:
  // `store` is already prefixed for the group and must outlive this object.
  Rendezvous(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout);

  // First: what each rank says of itself, by rank; costs no round trip of its own. An `able` that is
  // an error is told to the others and returned. Unavailable: a rank failed or did not show up
  // within the timeout.
  absl::StatusOr<std::vector<std::string>> Meet(const absl::Status& able,
                                                const std::string& whereabouts);

  struct Peers {
    std::vector<std::string> addresses;  // by rank
    std::string nonce;                   // of rank 0: two groups of one name stay apart
  };
  // Once, after Meet. `agreement`: text that must be equal on all ranks (the codec policy);
  // InvalidArgument names two that differ. Unavailable: a rank failed.
  absl::StatusOr<Peers> Exchange(const absl::StatusOr<std::string>& address,
                                 const std::string& agreement);

  // After Exchange and connecting: returns once every rank has said ok, else the first failure by
  // rank. `server`: whether the store ends with this process; then once every rank knows, too.
  enum class StoreServer { kElsewhere, kHere };
  absl::Status Confirm(const absl::Status& connected, StoreServer server);

 private:
  using Clock = std::chrono::steady_clock;

  void Publish(const std::string& key, std::string_view value);
  std::string Read(const std::string& key);
  std::vector<std::string> ReadAll(const std::vector<std::string>& keys);
  absl::Status AwaitNonces(std::chrono::milliseconds limit);
  absl::Status Missing(int rank, std::chrono::milliseconds limit, const std::string& why) const;
  absl::Status Fail(absl::Status why);
  void SayOver();
  void AwaitOver(std::chrono::milliseconds limit);
  absl::StatusOr<std::vector<std::string>> AwaitRecords(
      const std::function<std::string(const std::string& nonce)>& key_of);
  std::vector<std::string> GreetNewcomers();
  absl::Status Greet(std::chrono::milliseconds limit);
  absl::Status ErrorLeftBy(int rank);
  absl::StatusOr<Peers> ReadRecords(const std::string& agreement);

  c10d::Store& store_;
  const int rank_, size_;
  const std::chrono::milliseconds timeout_;
  std::vector<std::string> nonces_, whereabouts_;  // by rank
};

}  // namespace longhaul
