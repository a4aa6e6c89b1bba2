#include "plugin/backend/join.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "plugin/core/ucx/interfaces.h"
#include "plugin/core/ucx/routes.h"

namespace longhaul {
namespace {

// Below all prefixes; nullptr: another kind of store. It lives as long as `store`.
const c10d::TCPStore* TcpStoreOf(c10d::Store& store) {
  auto* const prefix = dynamic_cast<c10d::PrefixStore*>(&store);
  const c10d::Store* const at = prefix ? prefix->getUnderlyingNonPrefixStore().get() : &store;
  return dynamic_cast<const c10d::TCPStore*>(at);
}

// "": the store is a file, say, and the launcher names no host either.
std::string HostOf(c10d::Store& store) {
  if (const c10d::TCPStore* const tcp = TcpStoreOf(store)) return tcp->getHost();
  const char* const master = std::getenv("MASTER_ADDR");
  return master == nullptr ? "" : master;
}

Whereabouts Here(const JoinRequest& request, const std::string& store_host) {
  Whereabouts here{.network_id = NetworkNamespaceId(),
                   .named = !request.wishes.interface.empty() || !InterfaceOfEnvironment().empty(),
                   .has_node = request.node != nullptr};
  if (const std::optional<Route> route = RouteTo(store_host)) here.source = route->source;
  return here;
}

// The hosts that tell which of several interfaces is meant.
std::vector<std::string> Toward(const std::string& store_host, std::span<const Whereabouts> ranks,
                                uint64_t own_network) {
  std::vector<std::string> hosts;
  if (!store_host.empty()) hosts.push_back(store_host);
  for (const Whereabouts& rank : ranks) {
    if (rank.network_id == own_network || rank.source.empty()) continue;
    if (std::find(hosts.begin(), hosts.end(), rank.source) == hosts.end()) {
      hosts.push_back(rank.source);
    }
  }
  return hosts;
}

// A node that is made before the others are met: what is wrong with it, they learn at once.
absl::StatusOr<std::shared_ptr<Node>> EarlyNode(const JoinRequest& request, bool named,
                                                std::shared_ptr<Node> live) {
  if (!request.able.ok()) return request.able;
  if (request.node != nullptr) return request.node;
  if (named || live != nullptr) return ProcessNode(request.wishes, NodeScope::kNetwork);
  RETURN_IF_ERROR(CheckUcx(ToNodeOptions(request.wishes)));
  return nullptr;
}

}  // namespace

std::string ToText(const Whereabouts& rank) {
  return absl::StrCat(rank.network_id, " ", rank.named ? "named" : "-", " ",
                      rank.has_node ? "node" : "-", " ", rank.source);
}

absl::StatusOr<Whereabouts> ParseWhereabouts(std::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(std::string(text), ' ');
  Whereabouts rank;
  if (words.size() != 4 || !absl::SimpleAtoi(words[0], &rank.network_id)) {
    return absl::InternalError("malformed whereabouts of a rank in the store");
  }
  rank.named = words[1] == "named";
  rank.has_node = words[2] == "node";
  rank.source = words[3];
  return rank;
}

NodeScope ScopeOf(std::span<const Whereabouts> ranks) {
  const auto here = [&](const Whereabouts& rank) {
    return rank.network_id == ranks.front().network_id && !rank.named;
  };
  const auto has_node = [](const Whereabouts& rank) { return rank.has_node; };
  if (!std::all_of(ranks.begin(), ranks.end(), here)) return NodeScope::kNetwork;
  return std::all_of(ranks.begin(), ranks.end(), has_node) ? NodeScope::kNetwork
                                                           : NodeScope::kThisHost;
}

Rendezvous::StoreServer ServerOf(c10d::Store& store) {
  const c10d::TCPStore* const tcp = TcpStoreOf(store);
  if (tcp == nullptr) return Rendezvous::StoreServer::kElsewhere;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", none)) {
    int fd = -1, listens = 0;
    socklen_t length = sizeof(listens);
    struct sockaddr_in6 address = {};
    socklen_t bytes = sizeof(address);
    if (absl::SimpleAtoi(entry.path().filename().string(), &fd) &&
        ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0 &&
        ::getsockname(fd, reinterpret_cast<struct sockaddr*>(&address), &bytes) == 0 &&
        (address.sin6_family == AF_INET || address.sin6_family == AF_INET6) &&
        ntohs(address.sin6_port) == tcp->getPort()) {  // where sockaddr_in has it too
      return Rendezvous::StoreServer::kHere;
    }
  }
  return Rendezvous::StoreServer::kElsewhere;
}

absl::StatusOr<Joined> Join(Rendezvous& rendezvous, c10d::Store& store,
                            const JoinRequest& request) {
  const std::string store_host = HostOf(store);
  Whereabouts here = Here(request, store_host);
  const std::shared_ptr<Node> live = LiveProcessNode(NodeScope::kNetwork);  // kept until settled
  here.has_node = here.has_node || live != nullptr;
  absl::StatusOr<std::shared_ptr<Node>> node = EarlyNode(request, here.named, live);

  ASSIGN_OR_RETURN(const auto texts, rendezvous.Meet(node.status(), ToText(here)));
  std::vector<Whereabouts> ranks;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(Whereabouts rank, ParseWhereabouts(text));
    ranks.push_back(std::move(rank));
  }
  const NodeScope scope = ScopeOf(ranks);
  if (request.node == nullptr && (*node == nullptr || scope == NodeScope::kThisHost)) {
    node = ProcessNode(request.wishes, scope, Toward(store_host, ranks, here.network_id));
  }
  const absl::StatusOr<std::string> address =
      node.ok() ? absl::StatusOr<std::string>((*node)->address()) : node.status();
  ASSIGN_OR_RETURN(auto peers, rendezvous.Exchange(address, request.agreement));
  return Joined{.node = *std::move(node), .peers = std::move(peers)};
}

}  // namespace longhaul
