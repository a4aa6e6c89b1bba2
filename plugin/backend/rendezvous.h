#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/statusor.h"

namespace longhaul {

// How the ranks of a new group find each other through the c10d Store: every rank publishes one
// record (its address, or why it has none) and reads the others'. A rank that fails says so, so
// that the others fail at once and with its words instead of waiting for the timeout.
class Rendezvous {
 public:
  // `store` is already prefixed for the group and must outlive this object.
  Rendezvous(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout);

  struct Peers {
    std::vector<std::string> addresses;  // by rank
    std::string nonce;                   // drawn by rank 0: two groups of one name stay apart
  };
  // `agreement`: text that must be equal on all ranks (the codec policy); InvalidArgument names two
  // that differ. Unavailable: a rank failed or did not show up within the timeout.
  absl::StatusOr<Peers> Exchange(const absl::StatusOr<std::string>& address,
                                 const std::string& agreement);

  // After connecting: returns once every rank has said ok, else the first failure by rank.
  absl::Status Confirm(const absl::Status& connected);

 private:
  void Publish(const std::string& key, const std::string& value);
  absl::StatusOr<std::string> Await(const std::string& key, int rank);

  c10d::Store& store_;
  const int rank_, size_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace longhaul
