#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "plugin/swarm/manifest.h"
#include "plugin/swarm/swarm_address.h"

// Spreads the files of a folder (checkpoints, outer state, anything) from all members that have
// them to those that join: BitTorrent v2 over TCP in a closed swarm. docs/swarm.md. No tracker,
// DHT, local discovery, port mapping or uTP: peers are those that the caller names, and nobody else
// may connect.
namespace longhaul {

// Reads every file of `folder` twice (hashes of files, hashes of pieces). piece_bytes: nullopt for
// one that suits the size. InvalidArgument: no files, links among them, names that a torrent would
// change.
struct ManifestWords {
  std::string model, run;
  int64_t step = 0;
};
absl::StatusOr<Manifest> MakeManifest(const std::string& folder, const ManifestWords& words,
                                      std::optional<int64_t> piece_bytes = std::nullopt);

// RFC 8622: routers that honour it serve these packets when there is nothing else to serve.
inline constexpr int kLowerEffortDscp = 1;

struct SwarmOptions {
  SwarmAddress listen;  // one of this host's own addresses; connections go out from it too
  std::vector<std::string> members = {};  // who may connect: ParseMember's words
  // Limits over all peers together, at the payload. nullopt: none.
  std::optional<int64_t> upload_bytes_per_s = std::nullopt;
  std::optional<int64_t> download_bytes_per_s = std::nullopt;
  int dscp = kLowerEffortDscp;  // of every packet, 0 to 63; 0: unmarked
  // Bandwidth-delay product of the fattest path; buffers hold two of these per peer.
  int64_t path_bytes = 8 << 20;
  // One line about an event that people want to know: who was banned, who was turned away. Called
  // on the swarm's own thread.
  std::function<void(const std::string& line)> notice = nullptr;
  // Of a share: so many bytes more were handed to a member's connection. On the swarm's own thread.
  std::function<void(int64_t bytes)> given = nullptr;
};

// Payload that crossed between us and one member, in blocks of 16 KiB as they were handed over.
struct MemberBytes {
  std::string ip;
  uint16_t port;  // of a fetch's source, where it listens; 0: it dialled us
  int64_t bytes;
};

// Offers a manifest's files until destroyed. Pieces are hashed when they are first asked for, so no
// byte that does not match leaves then; when one does not match, sharing ends and health() says so.
// health() says it too of a file that was written since Start(), asked for or not.
// Its work happens on threads of its own. Thread safety: all methods, any thread.
class Share {
 public:
  // FailedPrecondition: the address is not ours or its port is taken, files are not there or not
  // as long as the manifest says. InvalidArgument: manifest, members, figures.
  static absl::StatusOr<std::unique_ptr<Share>> Start(const Manifest& manifest,
                                                      const std::string& folder,
                                                      const SwarmOptions& options);
  virtual ~Share() = default;
  virtual SwarmAddress address() const = 0;            // with the port that was taken
  virtual std::vector<MemberBytes> taken() const = 0;  // most first
  virtual int64_t turned_away() const = 0;  // connections of addresses that are no members
  virtual absl::Status health() const = 0;  // DataLoss: files changed; Internal: libtorrent's word
};

struct FetchProgress {
  int64_t bytes;  // verified so far
  int64_t total;
  int connected;  // members that are connected just now
  absl::Duration time;
};

struct FetchOptions {
  SwarmOptions
      swarm;  // its `members`: who may connect beside the sources, usually others that fetch
  std::vector<SwarmAddress> sources;                 // all that have the files, or fetch them too
  std::optional<std::string> model;                  // the manifest must be of this model
  absl::Duration give_up_after = absl::Seconds(60);  // without one new byte
  absl::Duration progress_every = absl::Seconds(1);
  std::function<void(const FetchProgress&)> progress = nullptr;  // on the swarm's own thread
};

struct FetchReport {
  int64_t bytes;                       // of all files
  int64_t kept_bytes;                  // of them verified in a partial that was there
  int64_t rejected_bytes;              // delivered, but did not match
  absl::Duration arrived;              // from Start to the last piece
  absl::Duration time;                 // from Start to files checked, on disk and in place
  std::vector<MemberBytes> delivered;  // most first, rejected ones included
  std::vector<std::string> banned;     // addresses that sent what does not match
};

// Fetches a manifest's files into the folder `into`, which appears complete, every file's SHA-256
// checked and its bytes on disk, or not at all. Until then they lie in `into`.partial, which the
// next fetch of the same manifest goes on with, trusting no byte of it unhashed. Whoever fetches
// also gives what it has.
class Fetch {
 public:
  // InvalidArgument: no sources, manifest of another model, figures. AlreadyExists: `into` is there
  // with other contents (with the same ones the fetch is done at once). FailedPrecondition: the
  // address, the port, the disk has too little room, another fetch works in the partial, which may
  // be of another manifest.
  static absl::StatusOr<std::unique_ptr<Fetch>> Start(const Manifest& manifest,
                                                      const std::string& into,
                                                      const FetchOptions& options);
  virtual ~Fetch() = default;  // cancels; the partial stays
  // Where it listens, with the port that was taken; nullopt: what it fetches was there already.
  virtual std::optional<SwarmAddress> address() const = 0;
  // One more that has the files or fetches them too; its address must be among the sources' or
  // members' of the start. Any thread.
  virtual void AddSource(const SwarmAddress& source) = 0;
  virtual void Cancel() = 0;        // any thread
  virtual int done_fd() const = 0;  // readable from the end on
  // Waits for the end. DeadlineExceeded: nobody delivers, with what each source last said.
  // DataLoss: all sources are banned, or the files do not match the manifest. ResourceExhausted:
  // disk full. Cancelled.
  virtual absl::StatusOr<FetchReport> Wait() = 0;
};

}  // namespace longhaul
