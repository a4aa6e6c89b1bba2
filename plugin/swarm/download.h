#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <libtorrent/alert.hpp>
#include <libtorrent/socket.hpp>
#include <libtorrent/torrent_handle.hpp>
#include <libtorrent/torrent_info.hpp>
#include <libtorrent/torrent_status.hpp>

#include "absl/status/status.h"
#include "plugin/swarm/member_list.h"
#include "plugin/swarm/swarm.h"
#include "plugin/swarm/swarm_session.h"

namespace longhaul {

// The torrent of one fetch, from adding to the last piece. One thread: the fetch's own.
class Download {
 public:
  Download(SwarmSession& session, std::shared_ptr<const libtorrent::torrent_info> torrent,
           const FetchOptions& options);

  absl::Status Add(const std::string& folder);
  void AddSource(const SwarmAddress& address);
  void DialMissing();

  void Take(const libtorrent::alert& alert);
  bool checked() const { return checked_; }  // what was there has been hashed
  bool finished() const { return finished_; }
  const absl::Status& failure() const { return failure_; }
  const ByteLedger& delivered() const { return delivered_; }
  libtorrent::torrent_status Status() const { return handle_.status({}); }
  std::vector<std::string> Banned() const;
  int Connected() const;
  std::string LastWords() const;

 private:
  // What is known of one source.
  struct Source {
    SwarmAddress address;
    bool connected = false;
    bool banned = false;
    std::string last_word = "no answer yet";
  };

  Source* Find(const libtorrent::tcp::endpoint& endpoint);
  void TakePeer(const libtorrent::alert& alert);
  void Ban(const libtorrent::tcp::endpoint& endpoint);

  SwarmSession& session_;
  const std::shared_ptr<const libtorrent::torrent_info> torrent_;
  libtorrent::torrent_handle handle_;
  std::vector<Source> sources_;
  std::vector<std::string> banned_;
  std::vector<int> bad_pieces_;
  ByteLedger delivered_;
  bool checked_ = false;
  bool finished_ = false;
  absl::Status failure_;
};

}  // namespace longhaul
