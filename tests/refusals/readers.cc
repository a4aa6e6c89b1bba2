// Reads rows "READER HEX" from standard input, gives each text to its reader, and answers with the reader's message
// in hex, which is empty where the text is taken. tests/refusals/refusals.py compares.
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compressors/catalog.h"
#include "netem/gateway/gateway.h"
#include "netem/lab_control/path_change.h"
#include "netem/topology/pair_matrix.h"
#include "netem/topology/rate_trace.h"
#include "netem/topology/topology_file.h"
#include "plugin/swarm/manifest.h"
#include "plugin/swarm/swarm_address.h"
#include "pp_group/schedule/csv.h"

namespace longhaul {
namespace {

std::string Word(const std::string& text) { return std::string(absl::StripSuffix(text, "\n")); }

// Words of `longhaul net set`, for a path of 100 Mbit/s and 65 ms between w0 and w1.
absl::Status Change(const std::string& text) {
  const Topology topology = *UniformTopology("continental-us", 2);
  const std::vector<std::string> words = absl::StrSplit(Word(text), ' ', absl::SkipEmpty());
  const auto change = ApplyAssignments(topology.paths[0], words);
  return change.ok() ? ValidatePath(topology, change->path) : change.status();
}

// A manifest in which the text of the first line is replaced by that of the second.
absl::Status ManifestWith(const std::string& text) {
  const std::string sha256(64, 'b');
  std::string manifest = ManifestText({.name = "step-40",
                                       .model = "gpt",
                                       .run = "r1",
                                       .step = 40,
                                       .piece_bytes = 65536,
                                       .infohash = std::string(64, 'a'),
                                       .files = {{"a.bin", 3, sha256}, {"outer/b.bin", 5, sha256}},
                                       .torrent = "d4:infoe"});
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const size_t at = manifest.find(lines[0]);
  if (at == std::string::npos) return absl::InternalError("no such text in the manifest");
  return ParseManifest(manifest.replace(at, lines[0].size(), lines[1])).status();
}

absl::Status Mesh(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(Word(text), ' ');
  return MeshNamed(words[0], std::stoi(words[1])).status();
}

absl::Status Topologies(const std::string& text) {
  return ParseTopology(text, "t.toml", ".").status();
}

const std::string kNodes = "[[node]]\nname = 'a'\n[[node]]\nname = 'b'\n";

const std::map<std::string, std::function<absl::Status(const std::string&)>> kReaders = {
    {"topology", Topologies},
    {"nodes a, b", [](const std::string& text) { return Topologies(kNodes + text); }},
    {"between a, b",
     [](const std::string& text) { return Topologies(kNodes + "[between]\n" + text); }},
    {"node a", [](const std::string& text) { return Topologies("[[node]]\nname = 'a'\n" + text); }},
    {"topology file", [](const std::string& text) { return ReadTopology(Word(text)).status(); }},
    {"links", [](const std::string& text) { return TopologyNamed(Word(text)).status(); }},
    {"mesh", Mesh},
    {"change", Change},
    {"paths of w0, w1, w2",
     [](const std::string& text) {
       return SelectPaths(*UniformTopology("continental-us", 3), Word(text)).status();
     }},
    {"rate trace", [](const std::string& text) { return ParseRateTrace(text, "t").status(); }},
    {"rate trace file", [](const std::string& text) { return ReadRateTrace(Word(text)).status(); }},
    {"samples",
     [](const std::string& text) {
       return ParseRateTrace("seconds,Mbit/s\n" + text, "t").status();
     }},
    {"matrix", [](const std::string& text) { return ParsePairMatrix(text, "m.csv").status(); }},
    {"matrix of rates",
     [](const std::string& text) {
       return ParsePairMatrix(text, "m.csv", {.what = "rate in Mbit/s", .above_0 = true}).status();
     }},
    {"matrix of shares",
     [](const std::string& text) {
       return ParsePairMatrix(text, "m.csv", {.what = "share", .share = true}).status();
     }},
    {"forward", [](const std::string& text) { return ParseForward(Word(text)).status(); }},
    {"codec", [](const std::string& text) { return MakeCodec(Word(text)).status(); }},
    {"schedule",
     [](const std::string& text) {
       return ParseScheduleCsv(text, CsvFormat::kComputeOnly).status();
     }},
    {"schedule with communication",
     [](const std::string& text) {
       return ParseScheduleCsv(text, CsvFormat::kComputeComms).status();
     }},
    {"manifest", [](const std::string& text) { return ParseManifest(text).status(); }},
    {"manifest with", ManifestWith},
    {"swarm address",
     [](const std::string& text) { return ParseSwarmAddress(Word(text)).status(); }},
    {"swarm member", [](const std::string& text) { return ParseMember(Word(text)).status(); }},
};

}  // namespace
}  // namespace longhaul

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const size_t space = line.rfind(' ');
    const auto reader = longhaul::kReaders.find(line.substr(0, space));
    if (reader == longhaul::kReaders.end()) {
      std::cerr << "no reader '" << line.substr(0, space) << "'\n";
      return 1;
    }
    const absl::Status status = reader->second(absl::HexStringToBytes(line.substr(space + 1)));
    std::cout << absl::BytesToHexString(status.message()) << std::endl;
  }
}
