#include "plugin/swarm/download.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/error.hpp>
#include <libtorrent/add_torrent_params.hpp>
#include <libtorrent/alert_types.hpp>

namespace longhaul {

namespace lt = libtorrent;

namespace {

lt::tcp::endpoint EndpointOf(const SwarmAddress& address) {
  return {lt::make_address(address.ip), address.port};
}

}  // namespace

Download::Download(SwarmSession& session, std::shared_ptr<const lt::torrent_info> torrent,
                   const FetchOptions& options)
    : session_(session), torrent_(std::move(torrent)) {
  for (const SwarmAddress& address : options.sources) sources_.push_back({address});
}

absl::Status Download::Add(const std::string& folder) {
  lt::add_torrent_params params;
  params.ti = std::make_shared<lt::torrent_info>(*torrent_);
  params.save_path = folder;
  // Those that are named here are dialled at once, later ones with libtorrent's next second.
  for (const Source& source : sources_) params.peers.push_back(EndpointOf(source.address));
  params.storage_mode = lt::storage_mode_sparse;
  params.flags = lt::torrent_flags::disable_dht | lt::torrent_flags::disable_lsd |
                 lt::torrent_flags::disable_pex | lt::torrent_flags::apply_ip_filter;
  lt::error_code error;
  handle_ = session_.libtorrent().add_torrent(std::move(params), error);
  return error ? absl::InternalError(fmt::format("fetch: {}", error.message())) : absl::OkStatus();
}

void Download::AddSource(const SwarmAddress& address) {
  sources_.push_back({address});
  handle_.connect_peer(EndpointOf(address));
}

void Download::DialMissing() {
  for (const Source& source : sources_) {
    if (source.connected || source.banned) continue;
    handle_.connect_peer(EndpointOf(source.address));
  }
}

// By its address, or, where that is not known to listen, the only one at its IP: who dials us comes
// from another port than he listens on.
Download::Source* Download::Find(const lt::tcp::endpoint& endpoint) {
  const std::string ip = endpoint.address().to_string();
  Source* at_ip = nullptr;
  int sharing = 0;
  for (Source& source : sources_) {
    if (source.address.ip != ip) continue;
    if (source.address.port == endpoint.port()) return &source;
    at_ip = &source;
    ++sharing;
  }
  return sharing == 1 ? at_ip : nullptr;
}

void Download::Ban(const lt::tcp::endpoint& endpoint) {
  const std::string ip = endpoint.address().to_string();
  if (std::find(banned_.begin(), banned_.end(), ip) != banned_.end()) return;
  banned_.push_back(ip);
  for (Source& source : sources_) {  // libtorrent bans the IP
    if (source.address.ip != ip) continue;
    source.banned = true;
    source.last_word = "banned: it sent bytes that do not match";
  }
  session_.Notice(fmt::format("{} sent bytes that do not match their hash (piece {}): banned", ip,
                              bad_pieces_.empty() ? -1 : bad_pieces_.back()));
  if (std::all_of(sources_.begin(), sources_.end(), [](const Source& s) { return s.banned; })) {
    failure_ = absl::DataLossError(
        fmt::format("fetch: every source sent bytes that do not match: {}", LastWords()));
  }
}

void Download::TakePeer(const lt::alert& alert) {
  if (const auto* ban = lt::alert_cast<lt::peer_ban_alert>(&alert)) {
    Ban(ban->endpoint);
  } else if (const auto* connected = lt::alert_cast<lt::peer_connect_alert>(&alert)) {
    if (Source* source = Find(connected->endpoint)) source->connected = true;
  } else if (const auto* gone = lt::alert_cast<lt::peer_disconnected_alert>(&alert)) {
    Source* source = Find(gone->endpoint);
    if (source == nullptr || source->banned) return;
    source->connected = false;
    source->last_word =
        gone->error == boost::asio::error::eof
            ? "it closed the connection (it shares another manifest, or not with this address)"
            : gone->error.message();
  }
}

void Download::Take(const lt::alert& alert) {
  session_.NoticeBlocked(alert);
  TakePeer(alert);
  if (const auto* block = lt::alert_cast<lt::block_finished_alert>(&alert)) {
    const int64_t start = int64_t{block->block_index} * lt::default_block_size;
    const int64_t left = torrent_->files().piece_size2(block->piece_index) - start;
    SwarmAddress from{block->endpoint.address().to_string(), block->endpoint.port()};
    const Source* source = Find(block->endpoint);
    if (source == nullptr || !(source->address == from)) from.port = 0;
    delivered_.Add(from, std::min<int64_t>(left, lt::default_block_size));
  } else if (const auto* bad = lt::alert_cast<lt::hash_failed_alert>(&alert)) {
    bad_pieces_.push_back(static_cast<int>(bad->piece_index));
  } else if (lt::alert_cast<lt::torrent_checked_alert>(&alert) != nullptr) {
    checked_ = true;
  } else if (lt::alert_cast<lt::torrent_finished_alert>(&alert) != nullptr) {
    finished_ = true;
  } else if (const auto* file = lt::alert_cast<lt::file_error_alert>(&alert)) {
    const bool full = file->error == boost::system::errc::no_space_on_device;
    const std::string what = fmt::format("fetch: {} {}: {}", lt::operation_name(file->op),
                                         file->filename(), file->error.message());
    failure_ = full ? absl::ResourceExhaustedError(what) : absl::FailedPreconditionError(what);
  } else if (const auto* error = lt::alert_cast<lt::torrent_error_alert>(&alert)) {
    failure_ = absl::InternalError(fmt::format("fetch: {}", error->message()));
  }
}

std::vector<std::string> Download::Banned() const { return banned_; }

int Download::Connected() const {
  return static_cast<int>(
      std::count_if(sources_.begin(), sources_.end(), [](const Source& s) { return s.connected; }));
}

std::string Download::LastWords() const {
  std::string words;
  for (const Source& source : sources_) {
    words +=
        fmt::format("{}{}: {}", words.empty() ? "" : "; ", ToString(source.address),
                    source.connected && !source.banned ? "connected, silent" : source.last_word);
  }
  return words;
}

}  // namespace longhaul
