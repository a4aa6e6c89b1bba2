#include "plugin/swarm/swarm_session.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <boost/asio/error.hpp>
#include <libtorrent/alert_types.hpp>
#include <libtorrent/peer_class_type_filter.hpp>
#include <libtorrent/posix_disk_io.hpp>
#include <libtorrent/session_params.hpp>

#include "base/status_macros.h"
#include "plugin/core/clock.h"
#include "plugin/swarm/member_list.h"

namespace longhaul {
namespace {

namespace lt = libtorrent;
using Settings = lt::settings_pack;

constexpr absl::Duration kListenDeadline = absl::Seconds(5);
constexpr int64_t kBlockBytes = 16 << 10;
constexpr size_t kMostNamed = 100;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError("swarm: " + what); }

absl::Status CheckFigures(const SwarmOptions& options) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  for (const auto& limit : {options.upload_bytes_per_s, options.download_bytes_per_s}) {
    // Below a block a second nothing would arrive before it is asked for elsewhere.
    if (limit && (*limit < kBlockBytes || *limit > kMost)) {
      return Bad(fmt::format("a rate of {} bytes/s: want {} to {}", *limit, kBlockBytes, kMost));
    }
  }
  if (options.dscp < 0 || options.dscp > 63) {
    return Bad(fmt::format("DSCP {}: want 0 to 63", options.dscp));
  }
  if (options.path_bytes < kBlockBytes || options.path_bytes > (int64_t{1} << 29)) {
    return Bad(fmt::format("a path of {} bytes: want {} to {}", options.path_bytes, kBlockBytes,
                           int64_t{1} << 29));
  }
  return ParseSwarmAddress(ToString(options.listen)).status();
}

// Nothing that looks for peers by itself, and TCP alone.
void CloseSwarm(Settings& pack, const SwarmAddress& listen) {
  for (const int off : {Settings::enable_dht, Settings::enable_lsd, Settings::enable_upnp,
                        Settings::enable_natpmp, Settings::enable_incoming_utp,
                        Settings::enable_outgoing_utp, Settings::listen_system_port_fallback,
                        Settings::enable_ip_notifier, Settings::rate_limit_ip_overhead}) {
    pack.set_bool(off, false);
  }
  pack.set_str(Settings::listen_interfaces, ToString(listen));
  pack.set_str(Settings::outgoing_interfaces, listen.ip);
  pack.set_int(Settings::max_retry_port_bind, 0);
  pack.set_int(Settings::out_enc_policy, Settings::pe_disabled);
  pack.set_int(Settings::in_enc_policy, Settings::pe_disabled);
  pack.set_int(Settings::mixed_mode_algorithm, Settings::prefer_tcp);
  // Of members that share a host each has an address of its own by its port.
  pack.set_bool(Settings::allow_multiple_connections_per_ip, true);
  pack.set_str(Settings::user_agent, "longhaul");
}

// Members trust each other with their uplinks: whoever asks is served, and whoever falls silent is
// left for the others soon.
void SetPace(Settings& pack, const SwarmOptions& options) {
  pack.set_int(Settings::unchoke_slots_limit, -1);
  pack.set_int(Settings::connections_limit, 2000);
  pack.set_int(Settings::connection_speed, 200);
  pack.set_int(Settings::min_reconnect_time, 1);
  pack.set_int(Settings::max_failcount, 31);
  pack.set_int(Settings::peer_connect_timeout, 5);
  pack.set_int(Settings::handshake_timeout, 10);
  pack.set_int(Settings::peer_timeout, 20);
  pack.set_int(Settings::request_timeout, 10);
  pack.set_int(Settings::piece_timeout, 10);
  pack.set_int(Settings::tick_interval, 100);  // limits are dealt out in portions of this long
  pack.set_int(Settings::alert_queue_size, 200'000);
  const int two_paths = static_cast<int>(2 * options.path_bytes);
  pack.set_int(Settings::send_buffer_watermark, two_paths);
  // What may be sent before a rate has been seen: less makes the start slower than TCP's own.
  pack.set_int(Settings::send_buffer_low_watermark, two_paths / 2);
  pack.set_int(Settings::send_buffer_watermark_factor, 200);
  const int blocks = std::max(500, static_cast<int>(two_paths / kBlockBytes));
  pack.set_int(Settings::max_out_request_queue, blocks);
  pack.set_int(Settings::max_allowed_in_request_queue, 2 * blocks);
  pack.set_int(Settings::upload_rate_limit,
               static_cast<int>(options.upload_bytes_per_s.value_or(0)));
  pack.set_int(Settings::download_rate_limit,
               static_cast<int>(options.download_bytes_per_s.value_or(0)));
  pack.set_int(Settings::peer_dscp, options.dscp << 2);  // libtorrent means the whole byte
}

lt::session_params Params(const SwarmOptions& options) {
  Settings pack;
  CloseSwarm(pack, options.listen);
  SetPace(pack, options);
  pack.set_int(
      Settings::alert_mask,
      static_cast<int>(static_cast<std::uint32_t>(
          lt::alert_category::status | lt::alert_category::error | lt::alert_category::storage |
          lt::alert_category::connect | lt::alert_category::peer | lt::alert_category::ip_block |
          lt::alert_category::block_progress | lt::alert_category::upload)));
  lt::session_params params(std::move(pack), {});  // no plugins: no exchange of peers, no metadata
  params.disk_io_constructor = lt::posix_disk_io_constructor;
  return params;
}

// libtorrent's own filter exempts private addresses from all limits.
lt::ip_filter AllAlike() {
  const uint32_t global = uint32_t{1} << static_cast<uint32_t>(lt::session::global_peer_class_id);
  lt::ip_filter filter;
  filter.add_rule(lt::make_address("0.0.0.0"), lt::make_address("255.255.255.255"), global);
  return filter;
}

}  // namespace

SwarmSession::SwarmSession(const SwarmOptions& options, lt::session_params params, int wake_fd)
    : options_(options), wake_fd_(wake_fd), session_(std::move(params)) {}

SwarmSession::~SwarmSession() {
  session_.set_alert_notify([] {});
  { const lt::session_proxy ending = session_.abort(); }  // waits for its threads
  close(wake_fd_);
}

absl::StatusOr<std::unique_ptr<SwarmSession>> SwarmSession::Open(
    const SwarmOptions& options, const std::vector<std::string>& members) {
  RETURN_IF_ERROR(CheckFigures(options));
  ASSIGN_OR_RETURN(auto filter, OnlyMembers(members));
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) {
    return absl::InternalError(fmt::format("swarm: eventfd: {}", std::strerror(errno)));
  }
  lt::session_params params = Params(options);
  params.ip_filter = std::move(filter);
  std::unique_ptr<SwarmSession> session(new SwarmSession(options, std::move(params), wake_fd));
  session->session_.set_peer_class_filter(AllAlike());
  session->session_.set_alert_notify([raw = session.get()] { raw->Wake(); });
  RETURN_IF_ERROR(session->AwaitListening());
  return session;
}

absl::Status SwarmSession::AwaitListening() {
  const absl::Duration deadline = MonotonicClock().Now() + kListenDeadline;
  const std::string wanted = ToString(options_.listen);
  while (MonotonicClock().Now() < deadline) {
    WaitUntil(deadline);
    for (const lt::alert* alert : Alerts()) {
      if (const auto* listening = lt::alert_cast<lt::listen_succeeded_alert>(alert)) {
        if (listening->socket_type != lt::socket_type_t::tcp) continue;
        address_ = {listening->address.to_string(), static_cast<uint16_t>(listening->port)};
        const bool as_asked = address_.ip == options_.listen.ip &&
                              (options_.listen.port == 0 || address_.port == options_.listen.port);
        if (as_asked) return absl::OkStatus();
        return absl::FailedPreconditionError(fmt::format(
            "swarm: listen on {}: libtorrent took {} instead", wanted, ToString(address_)));
      }
      if (const auto* failed = lt::alert_cast<lt::listen_failed_alert>(alert)) {
        if (failed->socket_type != lt::socket_type_t::tcp) continue;
        const bool taken = failed->error == boost::asio::error::address_in_use;
        return absl::FailedPreconditionError(
            fmt::format("swarm: listen on {}: {}; {}", wanted, failed->error.message(),
                        taken ? "another program has this port, choose another"
                              : "want an address of this host or node"));
      }
    }
  }
  return absl::FailedPreconditionError(fmt::format("swarm: listen on {}: no answer in {}", wanted,
                                                   absl::FormatDuration(kListenDeadline)));
}

void SwarmSession::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

void SwarmSession::WaitUntil(absl::Duration until) {
  const timespec wait =
      absl::ToTimespec(std::max(until - MonotonicClock().Now(), absl::ZeroDuration()));
  pollfd wake{wake_fd_, POLLIN, 0};
  if (ppoll(&wake, 1, &wait, nullptr) <= 0) return;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof(count));
}

std::vector<lt::alert*> SwarmSession::Alerts() {
  std::vector<lt::alert*> alerts;
  session_.pop_alerts(&alerts);
  return alerts;
}

void SwarmSession::Notice(const std::string& line) const {
  if (options_.notice) options_.notice(line);
}

void SwarmSession::NoticeBlocked(const lt::alert& alert) {
  const auto* blocked = lt::alert_cast<lt::peer_blocked_alert>(&alert);
  if (blocked == nullptr || blocked->reason != lt::peer_blocked_alert::ip_filter) return;
  turned_away_.fetch_add(1);
  if (blocked_.size() >= kMostNamed) return;
  const std::string ip = blocked->endpoint.address().to_string();
  if (std::find(blocked_.begin(), blocked_.end(), ip) != blocked_.end()) return;
  blocked_.push_back(ip);
  Notice(fmt::format("{} is not a member of this swarm: turned away", ip));
}

}  // namespace longhaul
