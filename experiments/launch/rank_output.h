#pragma once

#include <functional>
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

  // A line of a rank's standard error (`error`) or output.
  using Take = std::function<void(size_t rank, bool error, const std::string& line)>;
  // In the parent, once all children are forked: closes the ends that are theirs and gives lines to
  // `take`, in a thread that sleeps in poll, until every rank has ended.
  void Start(Take take = Print);
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
  static void Copy(std::vector<Stream>& streams, const Take& take);
  static bool Read(Stream& stream, const Take& take);
  // To our own standard output and error.
  static void Print(size_t rank, bool error, const std::string& line);

  std::vector<Stream> streams_;
  std::thread thread_;
};

}  // namespace longhaul
