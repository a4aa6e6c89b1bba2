#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
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
  void Add(const SwarmAddress& member, int64_t bytes) { bytes_[{member.ip, member.port}] += bytes; }
  std::vector<MemberBytes> MostFirst() const;

 private:
  std::map<std::pair<std::string, uint16_t>, int64_t> bytes_;
};

}  // namespace longhaul
