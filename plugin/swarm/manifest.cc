#include "plugin/swarm/manifest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "compressors/numbers/sha256.h"
#include "plugin/swarm/file_digest.h"

namespace longhaul {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "longhaul-weights-1";
constexpr int64_t kMostBytes = int64_t{1} << 50;  // of all files
constexpr size_t kMostFiles = 100'000;
constexpr size_t kMostText = size_t{256} << 20;

absl::Status Bad(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("manifest: {}", what));
}

std::string Base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

// "" where it is none. What EVP_DecodeBlock forgives is caught by the canonical form.
std::string FromBase64(const std::string& text) {
  if (text.size() % 4 != 0 || text.empty()) return "";
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return "";
  bytes.resize(static_cast<size_t>(size) - text.ends_with('=') - text.ends_with("=="));
  return bytes;
}

bool IsSha256(const std::string& hex) {
  return hex.size() == 64 && hex.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool IsSafePath(const std::string& path) {
  if (path.empty() || path.size() > 4096) return false;
  size_t start = 0;
  while (start <= path.size()) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view name = std::string_view(path).substr(start, end - start);
    if (name.empty() || name == "." || name == ".." || name.size() > 240) return false;
    for (const char c : name) {
      if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f) return false;
    }
    start = end + 1;
  }
  return true;
}

// Exactly these keys, no fewer and no more.
absl::Status CheckKeys(const Json& object, std::string_view where,
                       std::initializer_list<const char*> keys) {
  if (!object.is_object()) return Bad(fmt::format("{} is not an object", where));
  for (const char* key : keys) {
    if (!object.contains(key)) return Bad(fmt::format("{}: '{}' is missing", where, key));
  }
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return Bad(fmt::format("{}: unknown key '{}'", where, key));
    }
  }
  return absl::OkStatus();
}

absl::Status TakeText(const Json& object, const char* key, std::string& value) {
  const Json& found = object[key];
  if (!found.is_string()) return Bad(fmt::format("'{}' is not a string", key));
  value = found.get<std::string>();
  return absl::OkStatus();
}

absl::Status TakeCount(const Json& object, const char* key, int64_t most, int64_t& value) {
  const Json& found = object[key];
  if (!found.is_number_unsigned() || found.get<uint64_t>() > static_cast<uint64_t>(most)) {
    return Bad(
        fmt::format("'{}' is {}: want a whole number from 0 to {}", key, found.dump(), most));
  }
  value = found.get<int64_t>();
  return absl::OkStatus();
}

absl::Status TakeFile(const Json& entry, ManifestFile& file) {
  if (auto s = CheckKeys(entry, "an entry of 'files'", {"bytes", "path", "sha256"}); !s.ok())
    return s;
  RETURN_IF_ERROR(TakeText(entry, "path", file.path));
  RETURN_IF_ERROR(TakeCount(entry, "bytes", kMostBytes, file.bytes));
  RETURN_IF_ERROR(TakeText(entry, "sha256", file.sha256));
  if (!IsSafePath(file.path)) {
    return Bad(fmt::format("path {}: want names with '/' between, none of them '..'",
                           Json(file.path).dump()));
  }
  if (!IsSha256(file.sha256)) return Bad(fmt::format("sha256 of {} is no SHA-256", file.path));
  return absl::OkStatus();
}

absl::Status TakeFiles(const Json& files, Manifest& manifest) {
  if (!files.is_array() || files.empty() || files.size() > kMostFiles) {
    return Bad(fmt::format("'files' is no list of 1 to {} files", kMostFiles));
  }
  int64_t total = 0;
  for (const Json& entry : files) {
    ManifestFile file{};
    RETURN_IF_ERROR(TakeFile(entry, file));
    if (!manifest.files.empty() && file.path <= manifest.files.back().path) {
      return Bad(fmt::format("path {} is not after {}: sorted, each once", file.path,
                             manifest.files.back().path));
    }
    total += file.bytes;
    if (total > kMostBytes) return Bad(fmt::format("more than {} bytes in all", kMostBytes));
    manifest.files.push_back(std::move(file));
  }
  if (total == 0) return Bad("all files are empty: there is nothing to spread");
  return absl::OkStatus();
}

absl::Status TakeTorrent(const Json& json, Manifest& manifest) {
  std::string torrent;
  RETURN_IF_ERROR(TakeText(json, "infohash", manifest.infohash));
  if (!IsSha256(manifest.infohash)) return Bad("'infohash' is no SHA-256");
  constexpr int64_t kLeast = 16 << 10, kMost = 8 << 20;
  RETURN_IF_ERROR(TakeCount(json, "piece_bytes", kMost, manifest.piece_bytes));
  if (manifest.piece_bytes < kLeast || (manifest.piece_bytes & (manifest.piece_bytes - 1)) != 0) {
    return Bad(fmt::format("'piece_bytes' is {}: want a power of two from {} to {}",
                           manifest.piece_bytes, kLeast, kMost));
  }
  RETURN_IF_ERROR(TakeText(json, "torrent", torrent));
  manifest.torrent = FromBase64(torrent);
  return manifest.torrent.empty() ? Bad("'torrent' is not base64") : absl::OkStatus();
}

absl::StatusOr<Manifest> FromJson(const Json& json) {
  Manifest manifest{};
  if (auto s = CheckKeys(json, "it",
                         {"files", "format", "infohash", "model", "name", "piece_bytes", "run",
                          "step", "torrent"});
      !s.ok()) {
    return s;
  }
  if (json["format"] != kFormat) {
    return Bad(fmt::format("'format' is {}: want \"{}\"", json["format"].dump(), kFormat));
  }
  for (const auto& [key, value] :
       {std::pair{"name", &manifest.name}, {"model", &manifest.model}, {"run", &manifest.run}}) {
    RETURN_IF_ERROR(TakeText(json, key, *value));
  }
  RETURN_IF_ERROR(TakeCount(json, "step", INT64_MAX, manifest.step));
  RETURN_IF_ERROR(TakeFiles(json["files"], manifest));
  RETURN_IF_ERROR(TakeTorrent(json, manifest));
  return manifest;
}

absl::Status Failed(const char* what, const std::string& path) {
  return absl::FailedPreconditionError(fmt::format("{} {}: {}", what, path, std::strerror(errno)));
}

absl::Status WriteSynced(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return Failed("create", path);
  absl::Status status;
  while (status.ok() && !text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) text.remove_prefix(static_cast<size_t>(written));
    if (written < 0 && errno != EINTR) status = Failed("write", path);
  }
  if (status.ok() && fsync(fd) != 0) status = Failed("write", path);
  close(fd);
  return status;
}

}  // namespace

int64_t TotalBytes(const Manifest& manifest) {
  int64_t total = 0;
  for (const ManifestFile& file : manifest.files) total += file.bytes;
  return total;
}

std::string ManifestText(const Manifest& manifest) {
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  const Json json = {{"format", kFormat},
                     {"name", manifest.name},
                     {"model", manifest.model},
                     {"run", manifest.run},
                     {"step", manifest.step},
                     {"piece_bytes", manifest.piece_bytes},
                     {"infohash", manifest.infohash},
                     {"files", std::move(files)},
                     {"torrent", Base64(manifest.torrent)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text) {
  if (text.size() > kMostText) return Bad(fmt::format("more than {} bytes long", kMostText));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Bad("it is not JSON");
  absl::StatusOr<Manifest> manifest = FromJson(json);
  if (manifest.ok() && ManifestText(*manifest) != text) {
    return Bad("it is not in canonical form: written or changed by something else?");
  }
  return manifest;
}

std::string ManifestDigest(const Manifest& manifest) { return Sha256Hex(ManifestText(manifest)); }

absl::StatusOr<Manifest> ReadManifest(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return Failed("read manifest", path);
  std::string text;
  char part[1 << 16];
  size_t got = 0;
  // No further than a manifest can be: /dev/zero has no end.
  while (text.size() <= kMostText && (got = std::fread(part, 1, sizeof(part), file)) > 0) {
    text.append(part, got);
  }
  const absl::Status status = std::ferror(file) ? Failed("read manifest", path) : absl::OkStatus();
  std::fclose(file);
  if (!status.ok()) return status;
  absl::StatusOr<Manifest> manifest = ParseManifest(text);
  if (manifest.ok()) return manifest;
  return absl::Status(manifest.status().code(),
                      fmt::format("{}: {}", path, std::string(manifest.status().message())));
}

absl::Status WriteManifest(const Manifest& manifest, const std::string& path) {
  const std::string beside = path + ".part";
  if (auto s = WriteSynced(beside, ManifestText(manifest)); !s.ok()) {
    unlink(beside.c_str());
    return s;
  }
  if (rename(beside.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const absl::Status status = Failed("rename to", path);
  unlink(beside.c_str());
  return status;
}

absl::Status CheckFiles(const Manifest& manifest, const std::string& folder) {
  for (const ManifestFile& file : manifest.files) {
    const std::string path = folder + "/" + file.path;
    const absl::StatusOr<FileDigest> digest = DigestFile(path);
    if (!digest.ok()) return absl::DataLossError(std::string(digest.status().message()));
    if (digest->bytes != file.bytes || digest->sha256 != file.sha256) {
      return absl::DataLossError(
          fmt::format("{} has {} bytes with SHA-256 {}; the manifest says {} bytes, {}", path,
                      digest->bytes, digest->sha256, file.bytes, file.sha256));
    }
  }
  return absl::OkStatus();
}

}  // namespace longhaul
