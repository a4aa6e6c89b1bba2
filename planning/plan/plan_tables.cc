#include "planning/plan/plan_tables.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/train/model_of_spec.h"

namespace longhaul::plan {
namespace {

using Json = nlohmann::ordered_json;

struct Unit {
  const char* name;
  double seconds;
};

// What the first row's time is a handy number of.
Unit UnitFor(const Plan& plan) {
  const PlanRow& first = plan.rows.front();
  const double s = first.unknown.empty() ? std::exp(first.ln_time.value) : first.reference_s;
  if (s < 120) return {"s", 1};
  if (s < 2 * 3600) return {"min", 60};
  return s < 48 * 3600.0 ? Unit{"h", 3600} : Unit{"d", 86400};
}

std::string OuterOf(const Candidate& c) {
  const RunSpec::Outer& outer = c.spec.outer;
  if (c.outer_codec.empty()) return "-";
  const std::string codec = c.outer_codec == "none" ? "" : ", " + c.outer_codec;
  if (outer.inner_steps == 0) return outer.algorithm + codec;
  return fmt::format("{} H = {}{}", outer.algorithm, outer.inner_steps, codec);
}

std::vector<std::vector<std::string>> NodesOf(const Plan& plan, const PlanRow& row) {
  std::vector<std::vector<std::string>> groups;
  const auto ranks = static_cast<size_t>(row.choice.spec.ranks());
  for (size_t r = 0; r < row.placement.nodes.size(); ++r) {
    if (r % ranks == 0) groups.emplace_back();
    groups.back().push_back(plan.links.nodes[static_cast<size_t>(row.placement.nodes[r])].name);
  }
  return groups;
}

std::string NodesText(const Plan& plan, const PlanRow& row) {
  std::vector<std::string> groups;
  for (const auto& group : NodesOf(plan, row))
    groups.push_back(fmt::format("{}", fmt::join(group, " ")));
  return fmt::format("{}", fmt::join(groups, " | "));
}

// The first letters: what is beyond the calibration, each once, in the order of the enum.
std::string BeyondText(const PlanRow& row) {
  std::set<Beyond> what;
  for (const auto& b : row.beyond) what.insert(b.what);
  std::vector<std::string_view> words;
  for (const Beyond b : what) words.push_back(ToString(b));
  return fmt::format("{}", fmt::join(words, " "));
}

double LnEta(const PlanRow& row) {
  double sum = 0;
  for (const EtaFactor& f : row.factors) sum += f.ln.value;
  return sum;
}

std::string ScheduleOf(const RunSpec& spec) {
  return spec.schedule.chunks > 1 ? fmt::format("{} x{}", spec.schedule.kind, spec.schedule.chunks)
                                  : spec.schedule.kind;
}

// The eta from which a choice of unknown quality would be level with the first.
std::string FirstFrom(const Plan& plan, const PlanRow& row) {
  const PlanRow& first = plan.rows.front();
  if (!first.unknown.empty()) return "unknown";
  const double eta = row.reference_s / std::exp(first.ln_time.value);
  return eta > 1 ? fmt::format("unknown: first only with eta above {:.2f}", eta)
                 : fmt::format("unknown: first from eta {:.2f} on", eta);
}

std::vector<Cell> RowCells(const Plan& plan, size_t i, const Unit& unit) {
  const PlanRow& row = plan.rows[i];
  const auto time = [&unit](double ln) {
    return fmt::format("{:.4g}", std::exp(ln) / unit.seconds);
  };
  const bool known = row.unknown.empty();
  return {known && row.within ? fmt::format("{}", i + 1) : "",
          ScheduleOf(row.choice.spec),
          row.choice.codec,
          OuterOf(row.choice),
          fmt::format("{:.4g}", row.placement.seconds),
          known ? fmt::format("{:.3f}", std::exp(LnEta(row))) : "",
          known ? time(row.ln_time.value) : FirstFrom(plan, row),
          known ? fmt::format("{} to {}", time(row.ln_time.low), time(row.ln_time.high)) : "",
          fmt::format("{:.1f}{}", 1e-6 * static_cast<double>(row.worker_bytes),
                      row.within ? "" : " OVER"),
          BeyondText(row),
          NodesText(plan, row)};
}

std::string VerdictText(const Plan& plan) {
  if (!plan.verdict) return "No two choices have a time within the bound: nothing is compared.";
  const Verdict& v = *plan.verdict;
  return fmt::format(
      "{}: 2 takes {:.3f} [{:.3f}, {:.3f}] times as long as 1; what both share cancels, and the clock "
      "may be off by {:.0f} %.",
      v.first_wins ? "1 is first" : "No winner between 1 and 2", std::exp(v.ln_ratio.value),
      std::exp(v.ln_ratio.low), std::exp(v.ln_ratio.high), 100 * kClockError);
}

// Each thing that is extrapolated in the rows shown, once.
void AddBeyond(const Plan& plan, size_t shown, std::vector<std::string>& notes) {
  std::set<std::pair<Beyond, std::string>> all;
  for (size_t i = 0; i < shown; ++i) {
    for (const auto& b : plan.rows[i].beyond) all.insert({b.what, b.how});
  }
  for (const auto& [what, how] : all)
    notes.push_back(fmt::format("beyond, {}: {}", ToString(what), how));
}

bool AllExact(const Plan& plan) {
  return std::all_of(plan.rows.begin(), plan.rows.end(),
                     [](const PlanRow& r) { return r.placement.exact; });
}

void AddPlacementNote(const Plan& plan, std::vector<std::string>& notes) {
  if (AllExact(plan)) {
    notes.push_back("Placements: each the best of all there are.");
    return;
  }
  double worst = 1;
  for (const PlanRow& r : plan.rows) worst = std::max(worst, r.placement.seconds / r.least_step_s);
  notes.push_back(fmt::format(
      "Placements: of more than {} nodes, found by exchanging pairs; the best of all takes at least "
      "1/{:.3g} of the step shown.",
      kExactNodes, worst));
}

}  // namespace

Table PlanTable(const Plan& plan, size_t most) {
  const Unit unit = UnitFor(plan);
  const RunSpec& run = plan.spec.run;
  const LnFactor& tokens = plan.ln_reference_tokens;
  Table table{
      .title =
          fmt::format("Time to {:g} nat, predicted: ranks of a group {}, groups {}, links '{}'",
                      plan.spec.target_loss_nat, run.ranks(), run.outer.groups, plan.spec.links),
      .columns = {"", "schedule", "codecs", "outer", "step, s", "eta",
                  fmt::format("time, {}", unit.name), "95 %", "worker, MB", "beyond", "nodes"},
      .rows = {}};
  const size_t shown = most == 0 ? plan.rows.size() : std::min(most, plan.rows.size());
  for (size_t i = 0; i < shown; ++i) table.Add(RowCells(plan, i, unit));
  if (shown < plan.rows.size()) {
    table.notes.push_back(fmt::format("{} more rows: --rows 0", plan.rows.size() - shown));
  }
  table.notes.push_back(fmt::format(
      "Tokens: the reference of {} needs {:.4g} [{:.4g}, {:.4g}], a choice that over eta.",
      plan.spec.curve, std::exp(tokens.value), std::exp(tokens.low), std::exp(tokens.high)));
  table.notes.push_back(
      "Seconds: the simulated clock's, exchanges included; no evidence of real time. Intervals: of "
      "curve and calibrations, 95 %.");
  AddPlacementNote(plan, table.notes);
  AddBeyond(plan, shown, table.notes);
  std::set<std::string> unknown;
  for (size_t i = 0; i < shown; ++i) {
    if (!plan.rows[i].unknown.empty()) unknown.insert(plan.rows[i].unknown);
  }
  for (const std::string& why : unknown) table.notes.push_back("unknown: " + why);
  for (const LeftOut& left : plan.left_out) {
    table.notes.push_back(fmt::format("left out: {}: {}", left.what, left.why));
  }
  constexpr size_t kShownNotes = 4;
  for (size_t i = 0; i < std::min(kShownNotes, plan.link_notes.size()); ++i) {
    table.notes.push_back("links: " + plan.link_notes[i]);
  }
  if (plan.link_notes.size() > kShownNotes) {
    table.notes.push_back(fmt::format("links: {} more such paths: --json has them",
                                      plan.link_notes.size() - kShownNotes));
  }
  const auto lossy = [](const PathSpec& path) { return MeanLoss(path) > 0; };
  if (std::any_of(plan.links.paths.begin(), plan.links.paths.end(), lossy)) {
    table.notes.push_back(
        "Some paths lose packets, which seconds of a plan leave out: real steps take longer.");
  }
  table.notes.push_back(VerdictText(plan));
  return table;
}

CsvRows PlanCsv(const Plan& plan) {
  Table table{
      .columns = ForPrograms(
          "schedule | chunks | stages | groups | codecs | algorithm | inner_steps | "
          "outer_codec | step_s | least_step_s | placement_exact | eta | time_s | "
          "time_low_s | time_high_s | reference_s | worker_bytes | within_memory | beyond | "
          "unknown | nodes")};
  for (const PlanRow& row : plan.rows) {
    const RunSpec& s = row.choice.spec;
    const auto if_known = [&](double ln) {
      return row.unknown.empty() ? Cell(std::exp(ln)) : Cell::None();
    };
    table.Add({s.schedule.kind,
               s.schedule.chunks,
               s.stages(),
               s.outer.groups,
               row.choice.codec,
               row.choice.outer_codec.empty() ? "" : s.outer.algorithm,
               s.outer.inner_steps,
               row.choice.outer_codec,
               row.placement.seconds,
               row.least_step_s,
               row.placement.exact,
               if_known(LnEta(row)),
               if_known(row.ln_time.value),
               if_known(row.ln_time.low),
               if_known(row.ln_time.high),
               row.reference_s,
               row.worker_bytes,
               row.within,
               BeyondText(row),
               row.unknown,
               NodesText(plan, row)});
  }
  return CsvRowsOf(table);
}

namespace {

Json WithEnds(const LnFactor& ln) {
  return {{"value", std::exp(ln.value)}, {"ci", {std::exp(ln.low), std::exp(ln.high)}}};
}

Json RowJson(const Plan& plan, const PlanRow& row) {
  const RunSpec& s = row.choice.spec;
  Json out = {
      {"schedule", s.schedule.kind},
      {"chunks", s.schedule.chunks},
      {"stages", s.stages()},
      {"groups", s.outer.groups},
      {"codecs", row.choice.codec},
      {"algorithm", row.choice.outer_codec.empty() ? Json() : Json(s.outer.algorithm)},
      {"inner_steps", s.outer.inner_steps},
      {"outer_codec", row.choice.outer_codec.empty() ? Json() : Json(row.choice.outer_codec)},
      {"step_s", row.placement.seconds},
      {"least_step_s", row.least_step_s},
      {"placement", {{"exact", row.placement.exact}, {"groups", NodesOf(plan, row)}}},
      {"worker_bytes", row.worker_bytes},
      {"within_memory", row.within},
      {"reference_s", row.reference_s},
      {"factors", Json::array()},
      {"beyond", Json::array()}};
  for (const EtaFactor& f : row.factors) {
    Json factor = WithEnds(f.ln);
    factor["name"] = f.name;
    out["factors"].push_back(std::move(factor));
  }
  for (const auto& b : row.beyond) {
    out["beyond"].push_back({{"what", ToString(b.what)}, {"how", b.how}});
  }
  out["time_s"] = row.unknown.empty() ? WithEnds(row.ln_time) : Json();
  if (!row.unknown.empty()) out["unknown"] = row.unknown;
  return out;
}

}  // namespace

std::string PlanJson(const Plan& plan, const std::string& next) {
  Json out = {{"schema", "longhaul.plan/1"},
              {"target_loss_nat", plan.spec.target_loss_nat},
              {"links", plan.spec.links},
              {"link_notes", plan.link_notes},
              {"reference_tokens", WithEnds(plan.ln_reference_tokens)},
              {"clock_error", kClockError},
              {"rows", Json::array()},
              {"left_out", Json::array()},
              {"verdict", nullptr},
              {"next", next}};
  for (const PlanRow& row : plan.rows) out["rows"].push_back(RowJson(plan, row));
  for (const LeftOut& left : plan.left_out) {
    out["left_out"].push_back({{"what", left.what}, {"why", left.why}});
  }
  if (plan.verdict) {
    Json verdict = {{"second_over_first", WithEnds(plan.verdict->ln_ratio)},
                    {"first_wins", plan.verdict->first_wins},
                    {"shares", Json::array()}};
    for (const Verdict::Share& s : plan.verdict->shares) {
      verdict["shares"].push_back({{"name", s.name}, {"row", s.row + 1}, {"share", s.share}});
    }
    out["verdict"] = std::move(verdict);
  }
  return out.dump(2) + "\n";
}

}  // namespace longhaul::plan
