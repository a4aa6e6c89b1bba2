#include "netem/topology/region_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"

namespace longhaul {
namespace {

// "aws:us-east-1,eu-west-1" -> "aws" and the regions.
std::pair<std::string_view, std::vector<std::string>> TakeApart(std::string_view name) {
  const size_t colon = name.find(':');
  std::vector<std::string> regions;
  if (colon == std::string_view::npos) return {name, regions};
  std::string_view rest = name.substr(colon + 1);
  for (size_t comma = 0; comma != std::string_view::npos;) {
    comma = rest.find(',');
    regions.emplace_back(rest.substr(0, comma));
    if (comma != std::string_view::npos) rest.remove_prefix(comma + 1);
  }
  return {name.substr(0, colon), regions};
}

const RegionRtts* TableNamed(std::string_view name) {
  for (const RegionRtts& table : RegionTables()) {
    if (table.name == name) return &table;
  }
  return nullptr;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

}  // namespace

absl::StatusOr<PairMatrix> RegionMatrix(std::string_view table,
                                        const std::vector<std::string>& regions) {
  const RegionRtts* known = TableNamed(table);
  if (known == nullptr) {
    std::vector<std::string> names;
    for (const RegionRtts& one : RegionTables()) names.emplace_back(one.name);
    return absl::NotFoundError(
        fmt::format("no table of regions '{}'; known:{}", table, Joined(names)));
  }
  auto all = ParsePairMatrix(std::string(known->rtt_ms), std::string(known->name));
  if (!all.ok() || regions.empty()) return all;
  std::vector<size_t> chosen;
  for (const std::string& region : regions) {
    const auto found = std::find(all->names.begin(), all->names.end(), region);
    if (found == all->names.end()) {
      return absl::NotFoundError(fmt::format("no region '{}' in the table '{}'; known:{}", region,
                                             table, Joined(all->names)));
    }
    chosen.push_back(static_cast<size_t>(found - all->names.begin()));
  }
  PairMatrix matrix{.names = regions, .cells = {}};
  for (size_t from : chosen) {
    std::vector<double>& row = matrix.cells.emplace_back();
    for (size_t to : chosen) row.push_back(all->cells[from][to]);
  }
  return matrix;
}

const RegionRtts* RegionTableOf(std::string_view name) { return TableNamed(TakeApart(name).first); }

absl::StatusOr<Topology> RegionTopology(std::string_view name) {
  const auto [table, regions] = TakeApart(name);
  ASSIGN_OR_RETURN(const auto matrix, RegionMatrix(table, regions));
  Topology topology{.profile = std::string(name), .nodes = {}, .paths = {}};
  const int nodes = static_cast<int>(matrix.names.size());
  for (int i = 0; i < nodes; ++i) {
    topology.nodes.push_back({.name = matrix.names[i], .access = std::nullopt});
    for (int j = 0; j < nodes; ++j) {
      if (i == j) continue;
      topology.paths.push_back({.from = i,
                                .to = j,
                                .rate = std::nullopt,
                                .delay = absl::Milliseconds(matrix.cells[i][j]) / 2,
                                .jitter = absl::ZeroDuration()});
    }
  }
  RETURN_IF_ERROR(Validate(topology));
  return topology;
}

// Adding a table is adding an entry here. Rounded to whole milliseconds.
const std::vector<RegionRtts>& RegionTables() {
  static const std::vector<RegionRtts> tables = {
      {"aws",
       "cloudping.co: median round trip over the year to "
       "2025-07-17",
       "rtt_ms,us-east-1,us-east-2,us-west-1,us-west-2,ca-central-1,sa-east-1,eu-west-1,"
       "eu-west-2,eu-central-1,eu-north-1,me-central-1,af-south-1,ap-south-1,ap-southeast-1,"
       "ap-southeast-2,ap-northeast-1,ap-northeast-2\n"
       "us-east-1,,15,64,64,17,115,70,78,93,113,194,228,193,220,200,150,180\n"
       "us-east-2,16,,53,51,28,126,81,89,104,124,205,239,205,204,189,136,167\n"
       "us-west-1,64,52,,22,80,175,130,148,153,173,254,288,232,170,139,108,134\n"
       "us-west-2,64,51,22,,61,175,118,129,143,155,257,275,222,160,141,98,124\n"
       "ca-central-1,16,27,80,61,,125,69,80,93,106,196,225,193,215,198,148,177\n"
       "sa-east-1,115,125,175,175,126,,179,187,205,223,305,339,302,328,312,259,290\n"
       "eu-west-1,70,80,130,119,69,178,,14,27,41,130,160,126,179,256,202,233\n"
       "eu-west-2,78,88,148,129,79,187,14,,18,32,122,151,118,170,266,213,243\n"
       "eu-central-1,93,103,153,142,93,204,27,18,,23,115,156,129,160,251,227,231\n"
       "eu-north-1,112,123,172,155,105,223,40,31,23,,135,174,149,180,271,247,250\n"
       "me-central-1,194,205,257,257,197,307,131,123,117,137,,285,31,91,182,171,165\n"
       "af-south-1,226,236,286,273,223,337,158,150,155,174,284,,272,314,409,357,386\n"
       "ap-south-1,190,200,232,222,191,301,125,117,129,148,30,274,,64,155,133,134\n"
       "ap-southeast-1,219,204,171,161,215,328,179,170,161,181,90,317,64,,95,71,74\n"
       "ap-southeast-2,200,188,139,141,198,312,256,266,252,272,180,409,155,95,,106,146\n"
       "ap-northeast-1,150,136,109,99,147,258,202,213,228,247,169,358,134,71,107,,36\n"
       "ap-northeast-2,180,165,134,124,176,289,233,244,232,250,163,387,135,74,145,36,\n"},
      {"ibm", "IBM Cloud's own network latency page: mean round trip, 28 Sep to 27 Oct 2024",
       "rtt_ms,dallas,toronto,washington-dc,frankfurt,london,madrid,osaka,sydney,tokyo,"
       "sao-paulo\n"
       "dallas,,34,31,123,113,119,150,185,141,144\n"
       "toronto,34,,19,93,84,108,169,214,162,131\n"
       "washington-dc,31,19,,90,76,89,175,213,169,119\n"
       "frankfurt,123,92,92,,13,29,232,250,231,197\n"
       "london,114,84,76,13,,27,244,261,242,188\n"
       "madrid,119,107,90,29,27,,259,275,255,207\n"
       "osaka,150,171,176,234,245,259,,122,9,292\n"
       "sydney,184,214,214,250,261,275,122,,115,328\n"
       "tokyo,143,164,167,231,243,257,9,115,,283\n"
       "sao-paulo,144,131,119,198,188,206,291,327,287,\n"},
  };
  return tables;
}

}  // namespace longhaul
