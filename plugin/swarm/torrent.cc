#include "plugin/swarm/torrent.h"

#include <fmt/format.h>

#include "base/status_macros.h"

namespace longhaul {
namespace {

namespace lt = libtorrent;

absl::Status Mismatch(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("manifest: its torrent {}", what));
}

absl::Status SameFiles(const lt::torrent_info& torrent, const Manifest& manifest) {
  const lt::file_storage& files = torrent.files();
  size_t next = 0;
  for (const lt::file_index_t file : files.file_range()) {
    if (files.pad_file_at(file)) continue;
    if (next == manifest.files.size()) return Mismatch("has more files");
    const ManifestFile& wanted = manifest.files[next++];
    if (PathIn(torrent, file) != wanted.path || files.file_size(file) != wanted.bytes) {
      return Mismatch(fmt::format("has {} of {} bytes where it says {} of {}",
                                  PathIn(torrent, file), files.file_size(file), wanted.path,
                                  wanted.bytes));
    }
  }
  return next == manifest.files.size() ? absl::OkStatus() : Mismatch("has fewer files");
}

}  // namespace

std::string InfohashOf(const lt::torrent_info& torrent) {
  std::string hex;
  for (const unsigned char byte : torrent.info_hashes().v2) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string PathIn(const lt::torrent_info& torrent, lt::file_index_t file) {
  const std::string path = torrent.files().file_path(file);
  const std::string root = torrent.name() + "/";
  return path.starts_with(root) ? path.substr(root.size()) : path;
}

absl::StatusOr<std::shared_ptr<lt::torrent_info>> TorrentOf(const Manifest& manifest) {
  lt::error_code error;
  lt::load_torrent_limits limits;
  limits.max_buffer_size = 256 << 20;
  std::shared_ptr<lt::torrent_info> torrent;
  try {
    torrent = std::make_shared<lt::torrent_info>(
        lt::span<const char>(manifest.torrent.data(), static_cast<long>(manifest.torrent.size())),
        limits, lt::from_span);
  } catch (const lt::system_error& e) {
    return Mismatch(fmt::format("cannot be read: {}", e.code().message()));
  }
  if (!torrent->info_hashes().has_v2() || torrent->info_hashes().has_v1()) {
    return Mismatch("is not of version 2 alone");
  }
  if (InfohashOf(*torrent) != manifest.infohash) {
    return Mismatch(
        fmt::format("has infohash {}, not {}", InfohashOf(*torrent), manifest.infohash));
  }
  if (torrent->piece_length() != manifest.piece_bytes) return Mismatch("has other pieces");
  RETURN_IF_ERROR(SameFiles(*torrent, manifest));
  size_t next = 0;
  for (const lt::file_index_t file : torrent->files().file_range()) {
    if (!torrent->files().pad_file_at(file))
      torrent->rename_file(file, manifest.files[next++].path);
  }
  torrent->clear_trackers();
  torrent->set_web_seeds({});
  return torrent;
}

}  // namespace longhaul
