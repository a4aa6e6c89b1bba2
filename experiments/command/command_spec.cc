// `spec`: every key of a run spec, from the table of keys.
#include <cmath>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "experiments/command/command.h"
#include "experiments/estimates/table.h"
#include "experiments/spec/spec_keys.h"
#include "pp_group/schedule/catalog.h"

namespace longhaul {
namespace {

std::string Number(double x) { return std::isinf(x) ? "inf" : fmt::format("{:g}", x); }

struct DomainWords {
  std::string operator()(const Flag&) const { return "true, false"; }
  std::string operator()(const Whole& w) const {
    return w.most == std::numeric_limits<int64_t>::max()
               ? fmt::format("a whole number from {}", w.least)
               : fmt::format("a whole number, {} to {}", w.least, w.most);
  }
  std::string operator()(const Wholes& w) const {
    return fmt::format("at most {} whole numbers, each {} to {}", w.most_values, w.least, w.most);
  }
  std::string operator()(const Real& r) const {
    return fmt::format("a number, {} to {}", Number(r.least), Number(r.most));
  }
  std::string operator()(const Line& l) const {
    return fmt::format("text of at most {} bytes", l.most_bytes);
  }
  std::string operator()(const OneOf& o) const {
    return fmt::format("{}{}", fmt::join(o.names, ", "), o.or_python ? ", python:FILE:CLASS" : "");
  }
  std::string operator()(const Known& k) const {
    if (k.names == &SpecNames::codec) return "a codec (`longhaul codecs`)";
    if (k.names == &SpecNames::profile) return "a profile (`longhaul doctor`) or a FILE.toml";
    return fmt::format("a schedule: {}, or csv", fmt::join(ScheduleNames(), ", "));
  }
};

struct DefaultWords {
  RunSpec& spec;
  std::string operator()(SpecKey::Get<bool> get) const { return *get(spec) ? "true" : "false"; }
  std::string operator()(SpecKey::Get<int64_t> get) const { return fmt::format("{}", *get(spec)); }
  std::string operator()(SpecKey::Get<double> get) const { return Number(*get(spec)); }
  std::string operator()(SpecKey::Get<std::string> get) const {
    return fmt::format("\"{}\"", *get(spec));
  }
  std::string operator()(SpecKey::Get<std::optional<int64_t>> get) const {
    return *get(spec) ? fmt::format("{}", **get(spec)) : "-";
  }
  std::string operator()(SpecKey::Get<std::optional<double>> get) const {
    return *get(spec) ? Number(**get(spec)) : "-";
  }
  std::string operator()(SpecKey::Get<std::vector<int64_t>> get) const {
    return fmt::format("[{}]", fmt::join(*get(spec), ", "));
  }
};

void PrintKeys(bool json) {
  RunSpec defaults{};
  Table table{.columns = ColumnsOf("key | may be | unit | default")};
  nlohmann::ordered_json all = {{"schema", "longhaul.spec/1"},
                                {"keys", nlohmann::ordered_json::array()}};
  for (const SpecKey& key : SpecKeys()) {
    const std::string domain = std::visit(DomainWords{}, key.domain);
    const std::string otherwise =
        key.required ? "must be given" : std::visit(DefaultWords{defaults}, key.field);
    table.Add({key.path(), domain, std::string(key.unit), otherwise});
    all["keys"].push_back({{"key", key.path()},
                           {"may_be", domain},
                           {"unit", key.unit},
                           {"required", key.required},
                           {"default", key.required ? nullptr : nlohmann::ordered_json(otherwise)},
                           {"meaning", key.meaning}});
  }
  if (json) {
    fmt::print("{}\n", all.dump(2));
    return;
  }
  // Behind the head and its rule, each row has the meaning of its key below it.
  std::istringstream rows(GridText(table));
  std::string row;
  for (int i = 0; i < 2 && std::getline(rows, row); ++i) fmt::print("{}\n", row);
  for (const SpecKey& key : SpecKeys()) {
    std::getline(rows, row);
    fmt::print("{}\n    {}\n", row, key.meaning);
  }
  fmt::print(
      "Tables with separate keys: outer.schedule (pairs of a step and a number of groups), "
      "[boundary.cuts] (codecs of single boundaries), [boundary.policy] (codecs that change), "
      "[compute], [[fault]]; of a campaign [campaign], [[arm]], [program], [timing].\n");
}

}  // namespace

void AddSpecCommand(CLI::App& app, int* exit_status) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("spec", "List every key of a run spec with its meaning");
  command->group("Data and codecs");
  command->footer("Example:\n  longhaul spec --json");
  command->add_flag("--json", *json, kJsonHelp);
  command->callback([json, exit_status] {
    PrintKeys(*json);
    *exit_status = 0;
  });
}

}  // namespace longhaul
