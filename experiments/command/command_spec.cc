// `spec`: every key of a run spec, as the reader knows it.
#include <cmath>
#include <limits>

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
    return fmt::format("{}", fmt::join(o.names, ", "));
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
    const std::string name = key.path();
    const std::string domain = std::visit(DomainWords{}, key.domain);
    const std::string otherwise =
        key.required ? "must be given" : std::visit(DefaultWords{defaults}, key.field);
    table.Add({name, domain, std::string(key.unit), otherwise});
    all["keys"].push_back(
        {{"key", name},
         {"may_be", domain},
         {"unit", key.unit},
         {"required", key.required},
         {"default", key.required ? nullptr : nlohmann::ordered_json(otherwise)}});
  }
  if (json) {
    fmt::print("{}\n", all.dump(2));
    return;
  }
  fmt::print(
      "{}Read apart: outer.schedule (pairs of a step and a number of groups), [boundary.cuts] "
      "(\"3.forward\" = codec), [boundary.policy] (codecs that change), [compute], and of a "
      "campaign "
      "[campaign], [[arm]], [timing]: docs/campaigns.md. What a key means stands in "
      "experiments/spec/spec.h.\n",
      GridText(table));
}

}  // namespace

void AddSpecCommand(CLI::App& app, int* exit_status) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("spec", "List the keys of a run spec with values and units");
  command->group("Data and codecs");
  command->footer("Example:\n  longhaul spec --json");
  command->add_flag("--json", *json, kJsonHelp);
  command->callback([json, exit_status] {
    PrintKeys(*json);
    *exit_status = 0;
  });
}

}  // namespace longhaul
