// Whatever text stands in a topology file, a matrix or a `set` command: it is read or refused, and
// what was read can be given to an emulator.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "netem/lab_control/path_change.h"
#include "netem/topology/pair_matrix.h"
#include "netem/topology/queue_limits.h"
#include "netem/topology/topology_file.h"

namespace longhaul {
namespace {

void ReadAsTopology(const std::string& text) {
  auto topology = ParseTopology(text, "t", "/nonexistent");
  if (!topology.ok()) {
    const std::string message(topology.status().message());
    if (message.rfind("t:", 0) != 0) __builtin_trap();
    return;
  }
  if (!Validate(*topology).ok()) __builtin_trap();
  for (const PathSpec& path : topology->paths) {
    if (path.rate && PathQueuePackets(*topology, path) < 1) __builtin_trap();
  }
}

void ReadAsMatrix(const std::string& text) {
  auto matrix = ParsePairMatrix(text, "m");
  if (matrix.ok() && matrix->cells.size() != matrix->names.size()) __builtin_trap();
}

void ReadAsChange(const std::string& text) {
  static const Topology topology = *UniformTopology("continental-us", 3);
  std::istringstream words(text);
  std::string selector, word;
  words >> selector;
  std::vector<std::string> assignments;
  while (words >> word) assignments.push_back(word);
  auto pairs = SelectPaths(topology, selector);
  auto change = ApplyAssignments(topology.paths[0], assignments);
  if (change.ok() && ValidatePath(topology, change->path).ok() && change->path.rate &&
      PathQueuePackets(topology, change->path) < 1) {
    __builtin_trap();
  }
}

}  // namespace
}  // namespace longhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(bytes + 1), size - 1);
  switch (bytes[0] % 4) {
    case 0:
      longhaul::ReadAsMatrix(text);
      break;
    case 1:
      longhaul::ReadAsChange(text);
      break;
    default:
      longhaul::ReadAsTopology(text);
  }
  return 0;
}
