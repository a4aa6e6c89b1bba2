// One rank in a process of its own, driven by lines on stdin, one answer line per command:
//   open INTERFACE DEADLINE_MS   make the node (auto: no name)    -> address in hex
//   join RANK HEX HEX            group "test" of those two        -> ok
//   send ELEMENTS, recv ELEMENTS f32, tag 0, to or from the other -> ok
//   flood ELEMENTS               sends without end                -> ok, at the start
//   describe                     -> Node::description()
//   traffic                      -> bytes sent by the node
// A failure is answered by "error: ..."; end of input ends the process.
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>

#include "tests/plugin/group_fixture.h"
#include "tests/plugin/hex.h"

namespace longhaul {
namespace {

class ScriptedRank {
 public:
  std::string Run(std::istringstream& words) {
    std::string command;
    words >> command;
    if (command == "open") return Open(words);
    if (command == "join") return Join(words);
    if (command == "describe") return node_->description();
    if (command == "traffic") return std::to_string(node_->traffic().sent_bytes);
    size_t elements = 0;
    words >> elements;
    if (command == "send") return Send(elements);
    if (command == "recv") return Recv(elements);
    if (command == "flood") return Flood(elements);
    return "error: unknown command " + command;
  }

 private:
  static std::string Answer(const absl::Status& status) {
    return status.ok() ? "ok" : "error: " + status.ToString();
  }

  std::string Open(std::istringstream& words) {
    int64_t deadline_ms = 0;
    NodeOptions options{.transport = TransportKind::kUcx};
    words >> options.interface >> deadline_ms;
    if (options.interface == "auto") options.interface.clear();
    options.peer_deadline = absl::Milliseconds(deadline_ms);
    absl::StatusOr<std::shared_ptr<Node>> node = Node::Create(options);
    if (!node.ok()) return Answer(node.status());
    node_ = *std::move(node);
    return ToHex(node_->address());
  }

  std::string Join(std::istringstream& words) {
    std::string first, second;
    words >> rank_ >> first >> second;
    absl::StatusOr<std::shared_ptr<Group>> group =
        Group::Create(node_, GroupOptions{.name = "test", .rank = rank_, .size = 2},
                      {FromHex(first), FromHex(second)});
    if (!group.ok()) return Answer(group.status());
    group_ = *std::move(group);
    return "ok";
  }

  std::string Send(size_t elements) {
    std::vector<float> x = Noise(elements, 1);
    const Outcome outcome;
    group_->Send(F32(x), 1 - rank_, 0, outcome.done());
    return Answer(outcome.Wait());
  }

  std::string Recv(size_t elements) {
    std::vector<float> x(elements);
    const Outcome outcome;
    group_->Recv(F32(x), 1 - rank_, 0, outcome.done());
    const absl::Status status = outcome.Wait();
    if (status.ok() && x != Noise(elements, 1)) return "error: other values than were sent";
    return Answer(status);
  }

  std::string Flood(size_t elements) {
    std::thread([this, elements] {
      std::vector<float> x = Noise(elements, 1);
      for (;;) {
        const Outcome outcome;
        group_->Send(F32(x), 1 - rank_, 0, outcome.done());
        if (!outcome.Wait().ok()) return;
      }
    }).detach();
    return "ok";
  }

  std::shared_ptr<Node> node_;
  std::shared_ptr<Group> group_;
  int rank_ = 0;
};

}  // namespace
}  // namespace longhaul

int main() {
  longhaul::ScriptedRank peer;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::cout << peer.Run(words) << std::endl;
  }
}
