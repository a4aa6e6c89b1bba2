#pragma once

#include <memory>
#include <string>

#include <libtorrent/torrent_info.hpp>

#include "absl/status/statusor.h"
#include "plugin/swarm/manifest.h"

namespace longhaul {

// The manifest's torrent with its files named below a save path, trackers and web seeds removed.
// InvalidArgument: it is not the torrent that the manifest describes.
absl::StatusOr<std::shared_ptr<libtorrent::torrent_info>> TorrentOf(const Manifest& manifest);

// SHA-256 of a torrent's v2 info dictionary, lower-case hex.
std::string InfohashOf(const libtorrent::torrent_info& torrent);

// The file's path below the torrent's own folder.
std::string PathIn(const libtorrent::torrent_info& torrent, libtorrent::file_index_t file);

}  // namespace longhaul
