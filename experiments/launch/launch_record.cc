#include "experiments/launch/launch_record.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/estimates/table.h"
#include "experiments/run/checkpoint_folder.h"
#include "experiments/run/machine_check.h"

namespace longhaul {
namespace {

using nlohmann::json;

int64_t NodeOf(const Topology& topology, const json& path, const char* end) {
  const std::string name = path.value(end, "");
  const auto at = std::find_if(topology.nodes.begin(), topology.nodes.end(),
                               [&](const auto& node) { return node.name == name; });
  return at - topology.nodes.begin();
}

// A basic string of TOML; what is no UTF-8 is replaced.
std::string Quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string SpecOf(const LaunchPlan& plan) {
  std::string words;
  for (const std::string& word : plan.command) words += (words.empty() ? "" : ", ") + Quoted(word);
  return fmt::format("[launch]\ncommand = [{}]\nranks = {}\n\n[net]\nprofile = {}\n", words,
                     plan.topology.nodes.size(), Quoted(plan.links));
}

const json* PathIn(const Topology& topology, const json& answer, int64_t from, int64_t to) {
  const auto paths = answer.find("paths");
  if (paths == answer.end()) return nullptr;
  for (const json& path : *paths) {
    if (NodeOf(topology, path, "from") == from && NodeOf(topology, path, "to") == to) return &path;
  }
  return nullptr;
}

std::optional<double> Scaled(const json& object, const char* key, double times) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>() * times;
}

}  // namespace

RunRow LaunchRow(const LaunchPlan& plan, int64_t experiment) {
  const RunHost host = ReadRunHost();
  RunRow row;
  row.experiment_id = experiment;
  row.arm = plan.name;
  row.forward_codec = row.backward_codec = "none";
  row.profile = plan.links;
  row.spec_toml = SpecOf(plan);
  row.git_revision = host.git_revision;
  row.host = host.host;
  row.kernel = host.kernel;
  row.cpu = host.cpu;
  row.facts = {{"cores", std::to_string(host.cores)},
               {"load_1min_at_start", std::to_string(host.load_1min)},
               {"ranks", std::to_string(plan.topology.nodes.size())},
               {kRunIdFact, NewIdentity()}};
  return row;
}

std::vector<LinkRow> LinkRowsOf(const Topology& topology, LinkPhase phase, const json& probe,
                                const json& stats) {
  std::vector<LinkRow> rows;
  for (const json& path : stats.value("paths", json::array())) {
    const int64_t from = NodeOf(topology, path, "from"), to = NodeOf(topology, path, "to");
    const json* const back = PathIn(topology, stats, to, from);
    LinkRow row{.phase = phase, .src_node = from, .dst_node = to, .nominal_rtt_s = 0};
    row.nominal_rate_bit_per_s = Scaled(path, "rate_mbit", 1e6);
    row.nominal_rtt_s =
        1e-3 * (path.value("delay_ms", 0.0) + (back != nullptr ? back->value("delay_ms", 0.0) : 0));
    row.nominal_loss_prob = path.value("loss", 0.0);
    row.packets = path.value("packets", int64_t{0});
    row.bytes = path.value("bytes", int64_t{0});
    row.queue_drops = path.value("drops_queue", int64_t{0});
    row.loss_drops = path.value("drops_loss", int64_t{0});
    if (const json* const seen = PathIn(topology, probe, from, to)) {
      row.ok = seen->value("figures_in_bounds", false);  // as a training run judges them
      row.why = seen->value("why", "");
      if (const auto rtt = seen->find("rtt"); rtt != seen->end()) {
        row.rtt_min_s = Scaled(*rtt, "min_ms", 1e-3);
        row.rtt_median_s = Scaled(*rtt, "median_ms", 1e-3);
        row.rtt_p99_s = Scaled(*rtt, "p99_ms", 1e-3);
      }
      if (const auto goodput = seen->find("goodput"); goodput != seen->end()) {
        row.nominal_goodput_bit_per_s = Scaled(*goodput, "nominal_mbit", 1e6);
        row.goodput_bit_per_s = Scaled(*goodput, "mbit", 1e6);
      }
      if (const auto sent = seen->find("datagrams"); sent != seen->end()) {
        row.probes_sent = sent->value("sent", int64_t{0});
        row.probes_received = sent->value("received", int64_t{0});
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::map<std::pair<int64_t, int64_t>, int64_t> BytesBetween(const Topology& topology,
                                                            const json& before, const json& after) {
  std::map<std::pair<int64_t, int64_t>, int64_t> bytes;
  for (const json& path : after.value("paths", json::array())) {
    const int64_t from = NodeOf(topology, path, "from"), to = NodeOf(topology, path, "to");
    const json* const earlier = PathIn(topology, before, from, to);
    bytes[{from, to}] = path.value("bytes", int64_t{0}) -
                        (earlier != nullptr ? earlier->value("bytes", int64_t{0}) : 0);
  }
  return bytes;
}

absl::Status AddProgramLogs(Record& record, int64_t run, const Topology& topology,
                            const std::vector<ProgramLog>& logs, const std::vector<RankEnd>& ends,
                            double began_s, const json& before, const json& after) {
  std::vector<StepRow> steps;
  std::vector<CrossingRow> crossings;
  std::map<std::string, std::string> facts;
  const auto paths = BytesBetween(topology, before, after);
  for (size_t rank = 0; rank < logs.size(); ++rank) {
    const auto of_rank = StepsOf(logs[rank], began_s);
    steps.insert(steps.end(), of_rank.begin(), of_rank.end());
    crossings.insert(crossings.end(), logs[rank].crossings.begin(), logs[rank].crossings.end());
    if (logs[rank].bad_lines == 0) continue;
    facts[fmt::format("told_wrongly_by_rank_{}", rank)] =
        fmt::format("{} lines, {}", logs[rank].bad_lines, logs[rank].first_bad);
  }
  for (const auto& [path, bytes] : paths) {
    bool known = false;
    for (CrossingRow& row : crossings) {
      if (std::pair(row.src_rank, row.dst_rank) != path) continue;
      row.kernel_tx_bytes = bytes;
      known = true;
    }
    if (known || bytes == 0) continue;
    crossings.push_back({.src_rank = path.first,
                         .dst_rank = path.second,
                         .direction = Direction::kOther,
                         .codec = "unknown",
                         .tensors = 0,
                         .elements = 0,
                         .payload_bytes = 0,
                         .message_bytes = 0,
                         .kernel_tx_bytes = bytes});
  }
  facts.merge(FactsOf(ends));
  int64_t last_step = 0;
  for (const StepRow& step : steps) last_step = std::max(last_step, step.step);
  for (const ProgramLog& one : logs) {
    if (!one.final_nat) continue;
    facts["final_loss_nat"] = fmt::format("{}", *one.final_nat);
    if (!one.standard_error_nat) continue;  // an evaluation without its error is no evaluation
    for (const auto& [codec, loss] :
         {std::pair(EvalCodec::kOff, one.final_nat), {EvalCodec::kOn, one.final_on_nat}}) {
      if (!loss) continue;
      const EvaluationRow row{last_step, codec, *loss, *one.standard_error_nat, 0};
      RETURN_IF_ERROR(record.Add<EvaluationRow>(run, {&row, 1}));
    }
  }
  RETURN_IF_ERROR(record.Add(run, steps));
  RETURN_IF_ERROR(record.Add(run, crossings));
  return record.AddFacts(run, facts);
}

std::string LaunchSummary(const Topology& topology, const std::vector<RankEnd>& ends,
                          const std::map<std::pair<int64_t, int64_t>, int64_t>& bytes_on_paths,
                          size_t most_rows) {
  Table ranks{.columns = ColumnsOf("rank | node | ended with | wall s | CPU s | peak MB")};
  std::vector<size_t> order(ends.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return ends.size() > most_rows && ends[a].status != 0 && ends[b].status == 0;
  });
  for (const size_t rank : order) {
    if (ranks.rows.size() == most_rows) break;
    const RankEnd& end = ends[rank];
    ranks.Add({fmt::format("{}", rank), topology.nodes[rank].name, EndText(end.status),
               fmt::format("{:.2f}", end.wall_s), fmt::format("{:.2f}", end.cpu_s),
               fmt::format("{}{:.0f}", end.peak_is_bound ? "<= " : "",
                           static_cast<double>(end.peak_bytes) / 1e6)});
  }
  Table paths{.columns = ColumnsOf("path | bytes | mean Mbit/s")};
  double longest = 0;
  for (const RankEnd& end : ends) longest = std::max(longest, end.wall_s);
  std::vector<std::pair<std::pair<int64_t, int64_t>, int64_t>> used;
  for (const auto& [path, bytes] : bytes_on_paths) {
    if (bytes > 0) used.emplace_back(path, bytes);
  }
  if (used.size() > most_rows) {
    std::stable_sort(used.begin(), used.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
  }
  for (const auto& [path, bytes] : used) {
    if (paths.rows.size() == most_rows) break;
    paths.Add(
        {fmt::format("{} > {}", topology.nodes[path.first].name, topology.nodes[path.second].name),
         fmt::format("{}", bytes),
         fmt::format("{:.3f}", longest > 0 ? 8e-6 * static_cast<double>(bytes) / longest : 0)});
  }
  const auto more = [most_rows](size_t all, const char* what) {
    return all <= most_rows ? std::string()
                            : fmt::format("and {} {} more (--verbose)\n", all - most_rows, what);
  };
  const std::string of_ranks = GridText(ranks) + more(ends.size(), "ranks");
  if (used.empty()) {
    return of_ranks +
           "\nno path carried anything (ranks that a program starts itself stay in its node)\n";
  }
  return fmt::format("{}\n{}{}bytes: Ethernet frames, as the emulator counted them\n", of_ranks,
                     GridText(paths), more(used.size(), "paths"));
}

}  // namespace longhaul
