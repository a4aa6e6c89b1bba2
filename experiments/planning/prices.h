#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/spec/spec.h"
#include "netem/topology/table_reader.h"
#include "netem/topology/topology.h"

namespace longhaul::plan {

// What machines and links cost, as [plan] says it, in one currency that it does not name:
//
//   price_per_hour = 2.5                         # of each node, or by name, of all:
//   price_per_hour = {a = 2.5, b = 1.9}
//   link_price_per_gb = 0.02                     # of 1e9 bytes on each path, 0 without; or by path
//   link_price_per_gb = {"*" = 0, "a<>b" = 0.09} # (lab_control/path_change.h)
struct PriceList {
  std::string where;  // of the key
  std::optional<double> each = std::nullopt;
  std::map<std::string, double> by_name = {};
};
// nullopt: the key is not there. Fails in `r`: neither a number nor a table of numbers, a number that
// is negative or no finite one.
std::optional<PriceList> ReadPrices(TableReader& r, const std::string& key);

struct Prices {
  double nodes_per_second = 0;   // all of them, for they are all in use; above 0
  std::vector<double> per_byte;  // [n n], from * n + to
};
// InvalidArgument: a node or path without a price, a name that is none, no node that costs anything.
absl::StatusOr<Prices> PricesOf(const PriceList& per_hour, const std::optional<PriceList>& per_gb,
                                const Topology& links);

// What a rank sends another one in a step on average, TCP's and Ethernet's headers included.
struct SentBytes {
  int64_t from_rank, to_rank;
  double per_step;
};
// Of the steps behind `first`, up to and with `last`, of a run that goes on behind them.
// InvalidArgument: a codec that refuses a shape; errors of PipelineOf.
absl::StatusOr<std::vector<SentBytes>> SentInSteps(const RunSpec& spec, int64_t first,
                                                   int64_t last);

// What the traffic of a step costs where rank r is on node nodes[r].
double TrafficCost(const Prices& prices, std::span<const SentBytes> sent,
                   const std::vector<int>& nodes);

}  // namespace longhaul::plan
