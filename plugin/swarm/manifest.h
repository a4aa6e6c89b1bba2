#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

struct ManifestFile {
  std::string path;  // below the folder, '/' between names; none is "", "." or ".."
  int64_t bytes;
  std::string sha256;  // of the whole file, lower-case hex
  bool operator==(const ManifestFile&) const = default;
};

// What the members of a swarm agree on: which files, of which model and run, and the torrent that
// carries them. A plain value. Its text is JSON in one canonical form, so that one manifest has one
// text and the text's SHA-256 (ManifestDigest) stands for all of it. docs/swarm.md has the format.
struct Manifest {
  std::string name;                 // the folder's name at who made it; words for people
  std::string model;                // of which model; who fetches may insist on it. "": not said
  std::string run;                  // of which run; "": not said
  int64_t step;                     // at which step it was written
  int64_t piece_bytes;              // power of two, 16 KiB to 8 MiB: what is hashed as one
  std::string infohash;             // of the v2 torrent: SHA-256, lower-case hex
  std::vector<ManifestFile> files;  // sorted by path, at least one
  std::string torrent;              // the bytes of the .torrent, hashes of pieces included
  bool operator==(const Manifest&) const = default;
};

int64_t TotalBytes(const Manifest& manifest);

// Canonical: keys sorted, two blanks a level, one newline at the end.
std::string ManifestText(const Manifest& manifest);

// The way back, strict: ParseManifest(t) is OK only where ManifestText of it is t again.
// InvalidArgument: what is missing, of the wrong type, unknown or out of bounds.
absl::StatusOr<Manifest> ParseManifest(std::string_view text);

// SHA-256 of the text, lower-case hex.
std::string ManifestDigest(const Manifest& manifest);

// Files. Writing replaces `path` as a whole or not at all. FailedPrecondition with the path.
absl::StatusOr<Manifest> ReadManifest(const std::string& path);
absl::Status WriteManifest(const Manifest& manifest, const std::string& path);

// OK when every file is there with the bytes of the manifest. DataLoss: the first that is not.
absl::Status CheckFiles(const Manifest& manifest, const std::string& folder);

}  // namespace longhaul
