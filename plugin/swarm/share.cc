#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <libtorrent/add_torrent_params.hpp>
#include <libtorrent/alert_types.hpp>
#include <libtorrent/torrent_status.hpp>

#include "base/status_macros.h"
#include "plugin/swarm/member_list.h"
#include "plugin/swarm/swarm.h"
#include "plugin/swarm/swarm_session.h"
#include "plugin/swarm/torrent.h"

namespace longhaul {
namespace {

namespace lt = libtorrent;

absl::Status CheckLengths(const Manifest& manifest, const std::string& folder) {
  for (const ManifestFile& file : manifest.files) {
    const std::string path = folder + "/" + file.path;
    struct stat about {};
    if (stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode) || about.st_size != file.bytes) {
      return absl::FailedPreconditionError(fmt::format(
          "share {}: the manifest wants a file of {} bytes, which is not there", path, file.bytes));
    }
  }
  return absl::OkStatus();
}

// When a file was last written; a piece that was given once is not hashed again. nullopt: no file.
struct Stamp {
  ino_t inode;
  off_t bytes;
  int64_t written_ns;
  bool operator==(const Stamp&) const = default;
};
std::optional<Stamp> StampOf(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return std::nullopt;
  return Stamp{about.st_ino, about.st_size,
               int64_t{about.st_mtim.tv_sec} * 1'000'000'000 + about.st_mtim.tv_nsec};
}

std::map<std::string, std::optional<Stamp>> StampsOf(const Manifest& manifest,
                                                     const std::string& folder) {
  std::map<std::string, std::optional<Stamp>> stamps;
  for (const ManifestFile& file : manifest.files) {
    const std::string path = folder + "/" + file.path;
    stamps[path] = StampOf(path);
  }
  return stamps;
}

// A piece that does not match when it is first asked for makes libtorrent doubt all of them.
bool LeavesSeeding(const lt::alert& alert) {
  const auto* change = lt::alert_cast<lt::state_changed_alert>(&alert);
  return change != nullptr && (change->state == lt::torrent_status::checking_files ||
                               change->state == lt::torrent_status::downloading);
}

class TorrentShare : public Share {
 public:
  TorrentShare(std::unique_ptr<SwarmSession> session,
               std::shared_ptr<const lt::torrent_info> torrent, std::string folder,
               std::map<std::string, std::optional<Stamp>> stamps,
               std::function<void(int64_t)> given)
      : session_(std::move(session)),
        torrent_(std::move(torrent)),
        folder_(std::move(folder)),
        stamps_(std::move(stamps)),
        given_(std::move(given)) {
    thread_ = std::thread([this] { Run(); });
  }

  ~TorrentShare() override {
    {
      const std::lock_guard lock(mu_);
      stop_ = true;
    }
    session_->Wake();
    thread_.join();
  }

  SwarmAddress address() const override { return session_->address(); }
  int64_t turned_away() const override { return session_->turned_away(); }
  std::vector<MemberBytes> taken() const override {
    const std::lock_guard lock(mu_);
    return taken_.MostFirst();
  }
  absl::Status health() const override {
    {
      const std::lock_guard lock(mu_);
      if (!health_.ok()) return health_;
    }
    for (const auto& [path, stamp] : stamps_) {
      if (StampOf(path) == stamp) continue;
      return absl::DataLossError(fmt::format(
          "share {}: {} was written, replaced or removed while it was shared; share it under a new "
          "manifest",
          folder_, path));
    }
    return absl::OkStatus();
  }

 private:
  void Run() {
    while (!Stopped()) {
      session_->WaitUntil(absl::InfiniteDuration());
      for (const lt::alert* alert : session_->Alerts()) Take(*alert);
    }
  }
  bool Stopped() const {
    const std::lock_guard lock(mu_);
    return stop_;
  }

  void Take(const lt::alert& alert) {
    session_->NoticeBlocked(alert);
    if (const auto* block = lt::alert_cast<lt::block_uploaded_alert>(&alert)) {
      const int64_t start = int64_t{block->block_index} * lt::default_block_size;
      const int64_t left = torrent_->files().piece_size2(block->piece_index) - start;
      const int64_t bytes = std::min<int64_t>(left, lt::default_block_size);
      {
        const std::lock_guard lock(mu_);
        taken_.Add({block->endpoint.address().to_string(), 0}, bytes);
      }
      if (given_) given_(bytes);
    } else if (LeavesSeeding(alert)) {
      End(absl::DataLossError(fmt::format(
          "share {}: its files no longer match the manifest; sharing has ended", folder_)));
    } else if (const auto* error = lt::alert_cast<lt::file_error_alert>(&alert)) {
      End(absl::DataLossError(fmt::format("share {}: read {}: {}; sharing has ended", folder_,
                                          error->filename(), error->error.message())));
    } else if (const auto* torrent = lt::alert_cast<lt::torrent_error_alert>(&alert)) {
      End(absl::InternalError(fmt::format("share {}: {}", folder_, torrent->message())));
    }
  }

  void End(const absl::Status& why) {
    {
      const std::lock_guard lock(mu_);
      if (!health_.ok()) return;
      health_ = why;
    }
    session_->libtorrent().pause();
    session_->Notice(std::string(why.message()));
  }

  const std::unique_ptr<SwarmSession> session_;
  const std::shared_ptr<const lt::torrent_info> torrent_;
  const std::string folder_;
  const std::map<std::string, std::optional<Stamp>> stamps_;
  const std::function<void(int64_t)> given_;
  mutable std::mutex mu_;
  bool stop_ = false;    // mu_
  ByteLedger taken_;     // mu_
  absl::Status health_;  // mu_
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Share>> Share::Start(const Manifest& manifest,
                                                    const std::string& folder,
                                                    const SwarmOptions& options) {
  if (options.members.empty()) {
    return absl::InvalidArgumentError("share: no members: nobody could fetch");
  }
  ASSIGN_OR_RETURN(auto torrent, TorrentOf(manifest));
  RETURN_IF_ERROR(CheckLengths(manifest, folder));
  auto stamps = StampsOf(manifest, folder);
  ASSIGN_OR_RETURN(auto session, SwarmSession::Open(options, options.members));
  lt::add_torrent_params params;
  params.ti = torrent;
  params.save_path = folder;
  // seed_mode: each piece is hashed before it is given for the first time.
  params.flags = lt::torrent_flags::seed_mode | lt::torrent_flags::disable_dht |
                 lt::torrent_flags::disable_lsd | lt::torrent_flags::disable_pex |
                 lt::torrent_flags::apply_ip_filter;
  lt::error_code error;
  session->libtorrent().add_torrent(std::move(params), error);
  if (error) return absl::InternalError(fmt::format("share {}: {}", folder, error.message()));
  return std::make_unique<TorrentShare>(std::move(session), std::move(torrent), folder,
                                        std::move(stamps), options.given);
}

}  // namespace longhaul
