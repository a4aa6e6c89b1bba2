#include "plugin/swarm/member_list.h"

#include <algorithm>

#include "base/status_macros.h"

namespace longhaul {

absl::StatusOr<libtorrent::ip_filter> OnlyMembers(const std::vector<std::string>& members) {
  namespace lt = libtorrent;
  lt::ip_filter filter;
  filter.add_rule(lt::make_address("0.0.0.0"), lt::make_address("255.255.255.255"),
                  lt::ip_filter::blocked);
  filter.add_rule(lt::make_address("::"),
                  lt::make_address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
                  lt::ip_filter::blocked);
  for (const std::string& member : members) {
    ASSIGN_OR_RETURN(auto range, ParseMember(member));
    filter.add_rule(lt::address_v4(range.first), lt::address_v4(range.last), 0);
  }
  return filter;
}

std::vector<MemberBytes> ByteLedger::MostFirst() const {
  std::vector<MemberBytes> members;
  for (const auto& [member, bytes] : bytes_) {
    members.push_back({member.first, member.second, bytes});
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const MemberBytes& a, const MemberBytes& b) { return a.bytes > b.bytes; });
  return members;
}

}  // namespace longhaul
