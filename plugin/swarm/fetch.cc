#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <libtorrent/alert_types.hpp>

#include "base/status_macros.h"
#include "plugin/core/clock.h"
#include "plugin/swarm/download.h"
#include "plugin/swarm/member_list.h"
#include "plugin/swarm/partial_folder.h"
#include "plugin/swarm/swarm.h"
#include "plugin/swarm/swarm_session.h"
#include "plugin/swarm/torrent.h"

namespace longhaul {
namespace {

namespace lt = libtorrent;

// libtorrent forgets a peer that does not answer; who is not connected is dialled again this often.
constexpr absl::Duration kDialEvery = absl::Seconds(1);

class TorrentFetch : public Fetch {
 public:
  TorrentFetch(Manifest manifest, const FetchOptions& options, absl::Duration start)
      : manifest_(std::move(manifest)),
        options_(options),
        start_(start),
        done_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  ~TorrentFetch() override {
    Cancel();
    if (thread_.joinable()) thread_.join();
    close(done_fd_);
  }

  // With what is there already, complete.
  void EndAtOnce() {
    End(FetchReport{.bytes = TotalBytes(manifest_),
                    .kept_bytes = TotalBytes(manifest_),
                    .rejected_bytes = 0,
                    .arrived = absl::ZeroDuration(),
                    .time = MonotonicClock().Now() - start_,
                    .delivered = {},
                    .banned = {}});
  }

  void Begin(std::unique_ptr<PartialFolder> folder, std::unique_ptr<SwarmSession> session,
             std::shared_ptr<const lt::torrent_info> torrent) {
    folder_ = std::move(folder);
    session_ = std::move(session);
    address_ = session_->address();
    thread_ = std::thread([this, torrent = std::move(torrent)] { End(Run(torrent)); });
  }

  void Cancel() override {
    const std::lock_guard lock(mu_);
    cancelled_ = true;
    if (session_ != nullptr) session_->Wake();
  }
  std::optional<SwarmAddress> address() const override { return address_; }
  void AddSource(const SwarmAddress& source) override {
    const std::lock_guard lock(mu_);
    added_.push_back(source);
    if (session_ != nullptr) session_->Wake();
  }
  int done_fd() const override { return done_fd_; }
  absl::StatusOr<FetchReport> Wait() override {
    pollfd done{done_fd_, POLLIN, 0};
    while (poll(&done, 1, -1) <= 0) {
    }
    const std::lock_guard lock(mu_);
    return result_;
  }

 private:
  absl::StatusOr<FetchReport> Run(const std::shared_ptr<const lt::torrent_info>& torrent);
  absl::Status AwaitPieces(Download& download, FetchReport& report);
  absl::Status Look(Download& download, const lt::torrent_status& status);
  void TellProgress(const Download& download, const lt::torrent_status& status);
  bool Cancelled() const {
    const std::lock_guard lock(mu_);
    return cancelled_;
  }
  std::vector<SwarmAddress> TakeAdded() {
    const std::lock_guard lock(mu_);
    return std::exchange(added_, {});
  }
  // Its files are closed then, and its peers told.
  void CloseSession() {
    std::unique_ptr<SwarmSession> session;
    {
      const std::lock_guard lock(mu_);
      session.swap(session_);
    }
  }
  void End(absl::StatusOr<FetchReport> result) {
    {
      const std::lock_guard lock(mu_);
      result_ = std::move(result);
    }
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(done_fd_, &one, sizeof(one));
  }

  const Manifest manifest_;
  const FetchOptions options_;
  const absl::Duration start_;
  const int done_fd_;  // an eventfd
  std::unique_ptr<PartialFolder> folder_;
  std::unique_ptr<SwarmSession> session_;  // replaced under mu_
  std::optional<SwarmAddress> address_;
  int64_t payload_seen_ = 0;
  absl::Duration last_news_;
  mutable std::mutex mu_;
  bool cancelled_ = false;                                                // mu_
  std::vector<SwarmAddress> added_;                                       // mu_
  absl::StatusOr<FetchReport> result_ = absl::UnknownError("not ended");  // mu_
  std::thread thread_;
};

void TorrentFetch::TellProgress(const Download& download, const lt::torrent_status& status) {
  if (!options_.progress) return;
  options_.progress({.bytes = status.total_done,
                     .total = TotalBytes(manifest_),
                     .connected = download.Connected(),
                     .time = MonotonicClock().Now() - start_});
}

// Once a second: dials who is missing, and gives up when nothing has come for long.
absl::Status TorrentFetch::Look(Download& download, const lt::torrent_status& status) {
  download.DialMissing();
  const absl::Duration now = MonotonicClock().Now();
  if (status.total_payload_download > payload_seen_) last_news_ = now;
  payload_seen_ = status.total_payload_download;
  if (now - last_news_ <= options_.give_up_after) return absl::OkStatus();
  return absl::DeadlineExceededError(fmt::format("fetch: no byte for {}: {}",
                                                 absl::FormatDuration(options_.give_up_after),
                                                 download.LastWords()));
}

absl::Status TorrentFetch::AwaitPieces(Download& download, FetchReport& report) {
  absl::Duration look = absl::InfiniteDuration(),
                 tell = MonotonicClock().Now() + options_.progress_every;
  while (!download.finished()) {
    if (Cancelled()) return absl::CancelledError("fetch: cancelled");
    session_->WaitUntil(std::min(look, tell));
    for (const SwarmAddress& source : TakeAdded()) download.AddSource(source);
    for (const lt::alert* alert : session_->Alerts()) download.Take(*alert);
    if (!download.failure().ok()) return download.failure();
    if (download.checked() && look == absl::InfiniteDuration()) {
      report.kept_bytes = download.Status().total_done;
      last_news_ = MonotonicClock().Now();
      look = -absl::InfiniteDuration();
    }
    if (MonotonicClock().Now() >= look && !download.finished()) {
      RETURN_IF_ERROR(Look(download, download.Status()));
      look = MonotonicClock().Now() + kDialEvery;
    }
    if (MonotonicClock().Now() >= tell) {
      TellProgress(download, download.Status());
      tell = MonotonicClock().Now() + options_.progress_every;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<FetchReport> TorrentFetch::Run(
    const std::shared_ptr<const lt::torrent_info>& torrent) {
  Download download(*session_, torrent, options_);
  FetchReport report{};
  absl::Status status = download.Add(folder_->files());
  if (status.ok()) status = AwaitPieces(download, report);
  if (status.ok()) {
    report.arrived = MonotonicClock().Now() - start_;
    const lt::torrent_status last = download.Status();
    TellProgress(download, last);
    report.rejected_bytes = last.total_failed_bytes;
    CloseSession();
    status = folder_->Finish(manifest_);
  }
  if (!status.ok()) {
    return absl::Status(status.code(), fmt::format("{}; what has come is in {}",
                                                   std::string(status.message()), folder_->path()));
  }
  report.bytes = TotalBytes(manifest_);
  report.time = MonotonicClock().Now() - start_;
  report.delivered = download.delivered().MostFirst();
  report.banned = download.Banned();
  return report;
}

absl::Status CheckAsked(const Manifest& manifest, const std::string& into,
                        const FetchOptions& options) {
  if (options.model && *options.model != manifest.model) {
    return absl::InvalidArgumentError(fmt::format(
        "fetch: the manifest is of model '{}', wanted is '{}'", manifest.model, *options.model));
  }
  if (into.empty()) return absl::InvalidArgumentError("fetch: no folder is named");
  if (options.give_up_after < absl::Seconds(1)) {
    return absl::InvalidArgumentError(fmt::format("fetch: give up after {}: want 1s or more",
                                                  absl::FormatDuration(options.give_up_after)));
  }
  if (options.sources.empty()) return absl::InvalidArgumentError("fetch: no source is named");
  for (const SwarmAddress& source : options.sources) {
    if (auto address = ParseSwarmAddress(ToString(source)); !address.ok()) return address.status();
    if (source.port == 0) {
      return absl::InvalidArgumentError(fmt::format("fetch: source {} has no port", source.ip));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Fetch>> Fetch::Start(const Manifest& manifest,
                                                    const std::string& into,
                                                    const FetchOptions& options) {
  const absl::Duration start = MonotonicClock().Now();
  RETURN_IF_ERROR(CheckAsked(manifest, into, options));
  ASSIGN_OR_RETURN(auto torrent, TorrentOf(manifest));
  auto fetch = std::make_unique<TorrentFetch>(manifest, options, start);
  const absl::Status there = CheckInto(manifest, into);
  if (there.ok()) {
    fetch->EndAtOnce();
    return fetch;
  }
  if (!absl::IsNotFound(there)) return there;
  ASSIGN_OR_RETURN(auto folder, PartialFolder::Open(manifest, into));
  std::vector<std::string> members = options.swarm.members;
  for (const SwarmAddress& source : options.sources) members.push_back(source.ip);
  ASSIGN_OR_RETURN(auto session, SwarmSession::Open(options.swarm, members));
  fetch->Begin(std::move(folder), std::move(session), std::move(torrent));
  return fetch;
}

}  // namespace longhaul
