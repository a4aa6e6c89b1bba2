#pragma once

#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/kernel/posix.h"

namespace longhaul {

// What the ranks of a program print, line by line and each behind its rank: "[2] loss 1.9". Lines of
// different ranks do not mix. Make it before the programs are forked, Start it when they are.
class RankOutput {
 public:
  // Two pipes a rank, for standard output and error.
  static absl::StatusOr<RankOutput> Make(size_t ranks);
  RankOutput(RankOutput&&) = default;
  ~RankOutput();

  // In the child of `rank`: standard output and error become its pipes.
  absl::Status TakeIn(size_t rank) const;

  // In the parent, once all children are forked: closes the ends that are theirs and copies lines to
  // our own standard output and error, in a thread that sleeps in poll, until every rank has ended.
  void Start();
  // Waits until the last line is out.
  void Finish();

 private:
  struct Stream {
    size_t rank;
    bool error;  // else standard output
    Fd ours, theirs;
    std::string line = {};  // what has come of a line that has not ended
  };
  explicit RankOutput(std::vector<Stream> streams) : streams_(std::move(streams)) {}
  static void Copy(std::vector<Stream>& streams);
  static bool Read(Stream& stream);
  static void Print(const Stream& stream, const std::string& line);

  std::vector<Stream> streams_;
  std::thread thread_;
};

}  // namespace longhaul
