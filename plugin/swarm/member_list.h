#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <libtorrent/ip_filter.hpp>

#include "absl/status/statusor.h"
#include "plugin/swarm/swarm.h"

namespace longhaul {

// Blocks every address but these members'. InvalidArgument: a word that is no member.
absl::StatusOr<libtorrent::ip_filter> OnlyMembers(const std::vector<std::string>& members);

// Bytes by address. No locks.
class ByteLedger {
 public:
  void Add(const std::string& ip, int64_t bytes) { bytes_[ip] += bytes; }
  std::vector<MemberBytes> MostFirst() const;

 private:
  std::map<std::string, int64_t> bytes_;
};

}  // namespace longhaul
