#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "netem/topology/topology.h"

namespace longhaul {

// A topology from TOML. Every error is one line "FILE:LINE: ..."; unknown keys are errors.
//
//   mtu = 1500                          # 1500 where it is not given
//   [[node]]
//   name = "paris"
//   up_mbit = 100                       # access line; both or none
//   down_mbit = 200
//   access_queue_packets = 500          # or _ms, _bytes, _bdp
//   access_aqm = "fq_codel"             # also access_ecn, access_aqm_target_ms, .._interval_ms
//   [[site]]                            # an access line that several nodes are behind
//   name = "rome"                       # with up_mbit and down_mbit, as a node
//   [[group]]                           # nodes eu-0 .. eu-3, linked to one another by "inside"
//   name = "eu"
//   nodes = 4
//   inside = "regional"
//   site = "rome"                       # of a group or a node; among its nodes lies a LAN
//   [between]                           # every pair that nothing else names
//   profile = "continental-us"
//   [matrix]                            # round-trip times in ms: first row and column are nodes,
//                                       # which a file without [[node]] and [[group]] gets from here
//   csv = "rtt.csv"                     # beside this file, or from '/'
//   table = "aws"                       # instead: a table of regions (region_tables.h), all of it
//   regions = ["us-east-1", "eu-west-1"]   # or these
//   rate_mbit = 100                     # the figures of [[path]], for all pairs; rate_mbit,
//   loss = "loss.csv"                   # jitter_ms, loss and queue_.. also as a matrix
//   [[path]]                            # one direction, or both with both = true; one direction
//                                       # alone may follow and take the place of that one
//   from = "paris"
//   to = "eu-0"
//   both = true
//   profile = "transatlantic"           # then what differs from it:
//   rate_mbit = 50                      # or "none": only the access lines
//   rtt_ms = 80                         # or delay_ms, one way
//   jitter_ms = 1
//   jitter_shape = "uniform"            # or "normal"
//   jitter_order = "free"               # or "keep", the default (tap alone)
//   rate_trace = "lte.trace"            # instead of rate_mbit, a file beside this one: mahimahi's
//                                       # format, or times and rates below a line that names
//                                       # their units, "seconds, Mbit/s" (tap alone)
//   aqm = "codel"                       # or "fq_codel", "droptail"; of the queue before rate_mbit
//   ecn = true                          # CE marks instead of drops where a packet can take them
//   aqm_target_ms = 5
//   aqm_interval_ms = 100
//   loss = 0.001                        # a probability below 1, or "0.1%"
//   reorder = 0.01                      # as loss; so are the others of path_figure_table.cc
//   burst_loss = [0.01, 0.3, 1.0, 0.0]  # good to bad, bad to good, loss when bad, when good
//   queue_packets = 300                 # or queue_ms, queue_bytes, queue_bdp
//
//   [[change]]                          # what a lab of `longhaul net` does by itself
//   at_s = 10                           # seconds after it is up
//   path = "paris<>eu-0"                # 'a>b', 'a<>b', '*'
//   set = "rate=10mbit loss=1%"         # as `net set`
//
// The more special wins: path before matrix before inside before a
// site's LAN before between.
absl::StatusOr<Topology> ReadTopology(const std::string& path);

// The same from text; `where` stands in messages, `folder` is where a csv is looked for.
absl::StatusOr<Topology> ParseTopology(std::string_view text, const std::string& where,
                                       const std::string& folder);

// A profile's name (two nodes, "a" and "b"), a table of regions (region_tables.h), or else a file.
absl::StatusOr<Topology> TopologyNamed(const std::string& profile_or_file);

// True for what MeshNamed reads as a file: a name that ends in ".toml".
inline bool IsTopologyFile(std::string_view profile_or_file) {
  return profile_or_file.ends_with(".toml");
}

// A profile between `nodes` nodes, or a file or a table of regions with as many, each pair of which
// has a path.
// InvalidArgument: another number of nodes, or a pair without one.
absl::StatusOr<Topology> MeshNamed(const std::string& profile_or_file, int nodes);

}  // namespace longhaul
