#include "netem/topology/toml_paths.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "netem/topology/figure_text.h"
#include "netem/topology/pair_matrix.h"
#include "netem/topology/path_figure_table.h"
#include "netem/topology/region_tables.h"

namespace longhaul {
namespace {

PathSpec DirectPath() {
  return {.from = 0,
          .to = 0,
          .rate = std::nullopt,
          .delay = absl::ZeroDuration(),
          .jitter = absl::ZeroDuration()};
}

std::optional<absl::Duration> MillisecondsAt(TableReader& t, const std::string& key) {
  const auto ms = t.Get<double>(key);
  if (!ms) return std::nullopt;
  if (!std::isfinite(*ms)) {
    t.FailAt(key, fmt::format("{} is {}; want a finite number of milliseconds", key, *ms));
    return std::nullopt;
  }
  return absl::Milliseconds(*ms);
}

// Of the queue before a rate; `prefix` is "" or "access_".
QueueManagement ReadManagement(TableReader& t, const std::string& prefix) {
  QueueManagement aqm;
  if (const auto name = t.Get<std::string>(prefix + "aqm")) {
    const auto kind = QueueManagementNamed(*name);
    if (!kind) t.Fail(prefix + "aqm", "is \"droptail\", \"codel\" or \"fq_codel\"");
    aqm.kind = kind.value_or(aqm.kind);
  }
  t.Allow(prefix + "ecn", &aqm.ecn);
  for (const auto& [key, time] : {std::pair{prefix + "aqm_target_ms", &aqm.target},
                                  {prefix + "aqm_interval_ms", &aqm.interval}}) {
    const auto given = MillisecondsAt(t, key);
    if (!given) continue;
    *time = *given;
    if (aqm.kind == QueueManagement::Kind::kDropTail) {
      t.Fail(key, fmt::format("without {}aqm", prefix));
    }
  }
  return aqm;
}

std::optional<QueueDepth> ReadQueue(TableReader& t, const std::string& prefix) {
  using Unit = QueueDepth::Unit;
  std::optional<QueueDepth> queue;
  for (const auto& [unit, suffix] : {std::pair{Unit::kPackets, "_packets"},
                                     {Unit::kMilliseconds, "_ms"},
                                     {Unit::kBytes, "_bytes"},
                                     {Unit::kBdp, "_bdp"}}) {
    const auto amount = t.Get<double>(prefix + suffix);
    if (!amount) continue;
    if (queue) t.FailAt("", fmt::format("{} is given in two units", prefix));
    queue = QueueDepth{unit, *amount};
  }
  return queue;
}

// A number, or "none".
void SetRate(TableReader& t, PathSpec& path) {
  const TomlValue* given = t.Value("rate_mbit");
  if (given == nullptr) return;
  const auto* word = std::get_if<std::string>(&given->value);
  if (word != nullptr && *word == "none") {
    path.rate = std::nullopt;
  } else if (const auto rate = t.Get<double>("rate_mbit")) {
    path.rate = Mbit(*rate);
    if (*rate == 0) t.Fail("rate_mbit", "is 0: want more, or \"none\" for no rate of its own");
  }
}

// A probability below 1, or text such as "1%". What is 1 or more may be meant in percent.
std::optional<double> ShareAt(TableReader& t, const std::string& key) {
  const TomlValue* given = t.Value(key);
  if (given == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&given->value)) {
    const auto share = ReadShare(key, *text);
    if (share.ok()) return *share;
    t.FailAt(key, std::string(share.status().message()));
    return std::nullopt;
  }
  const auto number = t.Get<double>(key);
  if (!number || *number < 1 || std::isnan(*number)) return number;
  t.Fail(key, fmt::format("is {0:g}: write \"{0:g}%\"{1}", *number,
                          *number == 1 ? ", or \"100%\" for all of them" : ""));
  return std::nullopt;
}

// True where the key has the second of the two words.
bool IsSecond(TableReader& t, const std::string& key, std::string_view first,
              std::string_view second) {
  const auto word = t.Get<std::string>(key);
  if (word && *word != first && *word != second) {
    t.FailAt(key, fmt::format("{} is \"{}\" or \"{}\"", key, first, second));
  }
  return word == second;
}

void SetImpairment(TableReader& t, PathSpec& path) {
  if (const auto jitter = MillisecondsAt(t, "jitter_ms")) path.jitter = *jitter;
  const bool has_shape = t.Has("jitter_shape"), has_order = t.Has("jitter_order");
  const bool uniform = IsSecond(t, "jitter_shape", "normal", "uniform");
  const bool free = IsSecond(t, "jitter_order", "keep", "free");
  if (has_shape) path.jitter_shape = uniform ? JitterShape::kUniform : JitterShape::kNormal;
  if (has_order) path.jitter_order = free ? JitterOrder::kFree : JitterOrder::kKeep;
  for (const PathFigure& figure : PathFigureTable()) {
    if (figure.share == nullptr) continue;
    if (const auto share = ShareAt(t, std::string(figure.keys[0]))) figure.share(path) = *share;
  }
  const auto burst = t.Get<std::vector<double>>("burst_loss");
  if (!burst) return;
  if (burst->size() != 4) {
    t.FailAt("burst_loss", "burst_loss wants four numbers: [0.01, 0.3, 1.0, 0.0]");
    return;
  }
  path.burst_loss = BurstLoss{(*burst)[0], (*burst)[1], (*burst)[2], (*burst)[3]};
}

// All figures but a delay that is no profile's.
PathSpec FiguresWithoutDelay(TableReader& t) {
  PathSpec path = ReadProfile(t, "profile").value_or(DirectPath());
  SetRate(t, path);
  SetImpairment(t, path);
  path.queue = ReadQueue(t, "queue");
  path.aqm = ReadManagement(t, "");
  return path;
}

// What a matrix of its own may give each pair.
constexpr std::pair<std::string_view, CellKind> kPerPair[] = {
    {"rate_mbit", {.what = "rate in Mbit/s", .above_0 = true}},
    {"jitter_ms", {.what = "jitter in ms"}},
    {"loss", {.what = "share such as 0.01 or 1%", .share = true}},
    {"queue_bdp", {.what = "queue in BDP", .above_0 = true}},
    {"queue_bytes", {.what = "queue in bytes", .above_0 = true}},
    {"queue_ms", {.what = "queue in ms", .above_0 = true}},
    {"queue_packets", {.what = "queue in packets", .above_0 = true}}};

void SetCell(PathSpec& path, std::string_view key, double cell) {
  using Unit = QueueDepth::Unit;
  if (key == "rate_mbit") path.rate = Mbit(cell);
  if (key == "jitter_ms") path.jitter = absl::Milliseconds(cell);
  if (key == "loss") path.loss_prob = cell;
  if (key == "queue_packets") path.queue = QueueDepth{Unit::kPackets, cell};
  if (key == "queue_ms") path.queue = QueueDepth{Unit::kMilliseconds, cell};
  if (key == "queue_bytes") path.queue = QueueDepth{Unit::kBytes, cell};
  if (key == "queue_bdp") path.queue = QueueDepth{Unit::kBdp, cell};
}

// A matrix's own error names its own file and line, where it has them.
absl::Status WithPlace(const absl::Status& error, const std::string& where) {
  if (absl::IsInvalidArgument(error)) return error;
  return absl::InvalidArgumentError(where + ": " + std::string(error.message()));
}

// Gives each pair the cell that `file`, the value of `key`, has for it.
absl::Status SetCells(std::string_view key, const CellKind& kind, const TomlValue& file,
                      const std::string& path, PathsOfPairs& pairs) {
  const absl::StatusOr<PairMatrix> matrix = ReadPairMatrix(path, kind);
  if (!matrix.ok()) return WithPlace(matrix.status(), file.where);
  std::vector<size_t> at;  // in the matrix, of each pair's nodes
  for (const std::string& name : pairs.names) {
    const auto found = std::find(matrix->names.begin(), matrix->names.end(), name);
    if (found == matrix->names.end()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the matrix of '{}' has no '{}'", file.where, key, name));
    }
    at.push_back(static_cast<size_t>(found - matrix->names.begin()));
  }
  for (size_t from = 0; from < at.size(); ++from) {
    for (size_t to = 0; to < at.size(); ++to) {
      if (from != to) SetCell(pairs.paths[from][to], key, matrix->cells[at[from]][at[to]]);
    }
  }
  return absl::OkStatus();
}

std::string In(const std::string& folder, const std::string& file) {
  return file.starts_with('/') ? file : folder + "/" + file;
}

}  // namespace

std::optional<AccessSpec> ReadAccess(TableReader& t) {
  const auto up = t.Get<double>("up_mbit"), down = t.Get<double>("down_mbit");
  if (up.has_value() != down.has_value()) {
    t.FailAt("", "an access line needs both up_mbit and down_mbit");
  }
  const auto queue = ReadQueue(t, "access_queue");
  if (queue && !up) t.FailAt("", "an access queue needs up_mbit and down_mbit");
  const QueueManagement aqm = ReadManagement(t, "access_");
  if (t.Has("access_aqm") && !up) t.FailAt("", "access_aqm needs up_mbit and down_mbit");
  if (!up || !down) return std::nullopt;
  return AccessSpec{Mbit(*up), Mbit(*down), queue, aqm};
}

std::optional<PathSpec> ReadProfile(TableReader& t, const std::string& key) {
  const auto profile = t.Get<std::string>(key);
  if (!profile) return std::nullopt;
  const auto known = UniformTopology(*profile, 2);
  if (known.ok()) return known->paths[0];
  t.FailAt(key, std::string(known.status().message()));
  return std::nullopt;
}

PathSpec ReadFigures(TableReader& t) {
  PathSpec path = FiguresWithoutDelay(t);
  const auto rtt = MillisecondsAt(t, "rtt_ms"), delay = MillisecondsAt(t, "delay_ms");
  if (rtt && delay) {
    t.FailAt("", "rtt_ms and delay_ms are both given; a delay is half an RTT");
  }
  if (rtt) path.delay = *rtt / 2;
  if (delay) path.delay = *delay;
  if (!t.Has("rtt_ms") && !t.Has("delay_ms") && !t.Has("profile")) {
    t.FailAt("", "a path needs a profile, rtt_ms or delay_ms");
  }
  return path;
}

absl::StatusOr<PathsOfPairs> ReadPairs(const TomlValue& matrix, const std::string& folder) {
  TomlValue shared = matrix;  // without the keys that name a matrix
  const auto matrix_of = [&](std::string_view key) -> const TomlValue* {
    const auto* file = FindAs<std::string>(matrix, key);
    return file != nullptr && file->ends_with(".csv") ? Find(matrix, key) : nullptr;
  };
  for (const auto& [key, kind] : kPerPair) {
    if (matrix_of(key) != nullptr) Erase(shared, key);
  }
  TableReader t = TableReader::Of(shared, "");
  const auto file = t.Get<std::string>("csv"), table = t.Get<std::string>("table");
  const auto regions = t.Get<std::vector<std::string>>("regions");
  if (file.has_value() == table.has_value()) {
    t.FailAt("", "want 'csv', a file, or 'table', a table of regions (docs/netem.md)");
  }
  if (file && regions) t.Fail("regions", "are of a 'table'");
  if (regions && (regions->empty() || regions->front().empty())) {
    t.Fail("regions", "is no list of names: [\"us-east-1\", \"eu-west-1\"]");
  }
  const PathSpec path = FiguresWithoutDelay(t);
  RETURN_IF_ERROR(t.Finish());

  PathsOfPairs pairs;
  pairs.where = file ? In(folder, *file) : "table " + *table;
  const absl::StatusOr<PairMatrix> rtt =
      file ? ReadPairMatrix(pairs.where)
           : RegionMatrix(*table, regions.value_or(std::vector<std::string>()));
  if (!rtt.ok()) return WithPlace(rtt.status(), matrix.where);
  pairs.names = rtt->names;
  for (const std::vector<double>& row : rtt->cells) {
    std::vector<PathSpec>& paths = pairs.paths.emplace_back(row.size(), path);
    for (size_t to = 0; to < row.size(); ++to) paths[to].delay = absl::Milliseconds(row[to]) / 2;
  }
  for (const auto& [key, kind] : kPerPair) {
    const TomlValue* of_pairs = matrix_of(key);
    if (of_pairs == nullptr) continue;
    const std::string path_of_it = In(folder, std::get<std::string>(of_pairs->value));
    RETURN_IF_ERROR(SetCells(key, kind, *of_pairs, path_of_it, pairs));
  }
  return pairs;
}

}  // namespace longhaul
