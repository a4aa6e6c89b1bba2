#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <libtorrent/bencode.hpp>
#include <libtorrent/create_torrent.hpp>

#include "base/status_macros.h"
#include "plugin/swarm/file_digest.h"
#include "plugin/swarm/swarm.h"
#include "plugin/swarm/torrent.h"

namespace longhaul {
namespace {

namespace lt = libtorrent;

// Some thousand pieces: small ones are passed on sooner and cost less when one is bad, but each has
// its hash, its announcement and its request.
int64_t PieceBytesFor(int64_t total) {
  int64_t bytes = 64 << 10;
  while (bytes < (4 << 20) && total / bytes > 1024) bytes *= 2;
  return bytes;
}

absl::Status MakeTorrent(const std::filesystem::path& folder, Manifest& manifest) {
  lt::file_storage files;
  for (const ManifestFile& file : manifest.files) {
    files.add_file(manifest.name + "/" + file.path, file.bytes);
  }
  try {
    lt::create_torrent torrent(files, static_cast<int>(manifest.piece_bytes),
                               lt::create_torrent::v2_only | lt::create_torrent::no_attributes);
    torrent.set_creation_date(0);  // equal files, equal torrent
    lt::set_piece_hashes(torrent, folder.parent_path().string());
    const lt::entry entry = torrent.generate();
    lt::bencode(std::back_inserter(manifest.torrent), entry);
    const lt::torrent_info made(
        lt::span<const char>(manifest.torrent.data(), static_cast<long>(manifest.torrent.size())),
        lt::from_span);
    manifest.infohash = InfohashOf(made);
  } catch (const lt::system_error& e) {
    return absl::FailedPreconditionError(
        fmt::format("make a torrent of {}: {}", folder.string(), e.code().message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Manifest> MakeManifest(const std::string& folder, const ManifestWords& words,
                                      std::optional<int64_t> piece_bytes) {
  std::error_code error;
  const std::filesystem::path place = std::filesystem::canonical(folder, error);
  if (error || !std::filesystem::is_directory(place)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", folder, error ? error.message() : "not a folder"));
  }
  if (words.step < 0) return absl::InvalidArgumentError(fmt::format("step {}", words.step));
  ASSIGN_OR_RETURN(auto files, ListFiles(place.string()));
  Manifest manifest{.name = place.filename().string(),
                    .model = words.model,
                    .run = words.run,
                    .step = words.step,
                    .piece_bytes = 0,
                    .infohash = "",
                    .files = {},
                    .torrent = ""};
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(auto digest, DigestFile((place / path).string()));
    manifest.files.push_back({path, digest.bytes, digest.sha256});
  }
  const int64_t total = TotalBytes(manifest);
  if (total == 0) {
    return absl::InvalidArgumentError(fmt::format("{}: all files are empty", folder));
  }
  manifest.piece_bytes = piece_bytes.value_or(PieceBytesFor(total));
  RETURN_IF_ERROR(MakeTorrent(place, manifest));
  // What a stranger would find wrong in it is found here: names that torrents spell otherwise, too.
  ASSIGN_OR_RETURN(auto parsed, ParseManifest(ManifestText(manifest)));
  if (auto torrent = TorrentOf(parsed); !torrent.ok()) return torrent.status();
  return parsed;
}

}  // namespace longhaul
