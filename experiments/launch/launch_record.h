#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/launch/program_log.h"
#include "experiments/launch/program_verdict.h"
#include "experiments/record/record.h"
#include "netem/topology/topology.h"

namespace longhaul {

// A program that is none of ours, as N ranks behind shaped links: what its record says.
struct LaunchPlan {
  std::string name;                  // of the run: list and report show it
  std::vector<std::string> command;  // the same in every rank
  std::string links;                 // as the user named them
  Topology topology;                 // a node for each rank
};

// The run's row as "running". Its spec is a table [launch] with command, ranks and links.
RunRow LaunchRow(const LaunchPlan& plan, int64_t experiment);

// Rows of a lab's answer to "probe", or to "stats" where nothing was probed; counters are of `stats`.
std::vector<LinkRow> LinkRowsOf(const Topology& topology, LinkPhase phase,
                                const nlohmann::json& probe, const nlohmann::json& stats);

// Steps, crossings, evaluation and facts of a program that has ended. `logs` and `ends` by rank;
// `began_s`: CLOCK_MONOTONIC when the programs were started, of which a rank's first step is timed;
// `before`, `after`: the lab's "stats" around the program.
absl::Status AddProgramLogs(Record& record, int64_t run, const Topology& topology,
                            const std::vector<ProgramLog>& logs, const std::vector<RankEnd>& ends,
                            double began_s, const nlohmann::json& before,
                            const nlohmann::json& after);

// Bytes on each path between two answers to "stats", Ethernet level, by (from, to).
std::map<std::pair<int64_t, int64_t>, int64_t> BytesBetween(const Topology& topology,
                                                            const nlohmann::json& before,
                                                            const nlohmann::json& after);

// A table of the ranks, and one of the paths that carried something; bytes as of BytesBetween. Of more
// than `most_rows` ranks first those that failed, of more paths those that carried most.
std::string LaunchSummary(const Topology& topology, const std::vector<RankEnd>& ends,
                          const std::map<std::pair<int64_t, int64_t>, int64_t>& bytes_on_paths,
                          size_t most_rows);

}  // namespace longhaul
