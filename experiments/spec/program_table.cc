#include "experiments/spec/program_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "experiments/spec/spec_keys.h"
#include "netem/topology/table_reader.h"

namespace longhaul {
namespace {

constexpr size_t kWords = 256, kWordBytes = 4096, kVariables = 256;
constexpr double kLongestS = 30 * 86'400;

bool InProgram(std::string_view table) {
  return std::any_of(SpecKeys().begin(), SpecKeys().end(), [&](const SpecKey& key) {
    return key.table == table && key.in_program.has_value();
  });
}

void ReadKeys(TableReader& r, std::string_view table, const SpecNames& names, RunSpec& spec) {
  for (const SpecKey& key : SpecKeys()) {
    if (key.table == table && key.in_program)
      ReadKey(r, key, key.in_program->required, names, spec);
  }
}

absl::Status ReadRoot(const TomlValue& root, const SpecNames& names, RunSpec& spec) {
  TableReader r(root, "");
  ReadKeys(r, "", names, spec);
  r.Skip("program");
  for (const std::string_view table : SpecTables()) {
    if (InProgram(table)) r.Skip(std::string(table));
    r.Check(InProgram(table) || !r.Has(std::string(table)), std::string(table),
            "is of longhaul's own models; what a [program] trains is its own");
  }
  return r.Finish();
}

// Names that the ranks are told by, which no table may give.
bool IsOurs(const std::string& name) {
  constexpr std::string_view kOurs[] = {"RANK",        "WORLD_SIZE",  "LOCAL_RANK",
                                        "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE"};
  return name.starts_with("LONGHAUL_") ||
         std::find(std::begin(kOurs), std::end(kOurs), name) != std::end(kOurs);
}

void ReadEnvironment(const TomlValue& root, TableReader& r, RunSpec::Program& program) {
  const TomlValue* found = Find(root, "program.environment");
  if (found == nullptr) return;
  const auto* table = std::get_if<TomlValue::Table>(&found->value);
  r.Check(table != nullptr && table->size() <= kVariables, "environment",
          fmt::format("want a table of at most {} variables", kVariables));
  if (!r.status().ok()) return;
  for (const auto& [name, value] : *table) {
    const auto* text = std::get_if<std::string>(&value.value);
    r.Check(text != nullptr && text->size() <= kWordBytes, "environment",
            fmt::format("'{}' is {}; want a text of at most {} bytes: {} = \"...\"", Shown(name),
                        KindName(value), kWordBytes, Shown(name)));
    r.Check(!name.empty() && name.find('=') == name.npos, "environment",
            fmt::format("'{}' is no name of a variable", Shown(name)));
    r.Check(!IsOurs(name), "environment", fmt::format("'{}' is set for each rank", name));
    if (!r.status().ok()) return;
    program.environment[name] = *text;
  }
}

absl::Status ReadProgram(const TomlValue& root, RunSpec::Program& program) {
  TableReader r(root, "program");
  r.Require("command", &program.command);
  r.Allow("folder", &program.folder);
  r.Allow("timeout_s", &program.timeout_s);
  r.Allow("files", &program.files);
  r.Skip("environment");
  if (r.status().ok()) {
    r.Check(!program.command.empty() && !program.command.front().empty(), "command",
            "names no program");
    for (const auto& [key, words] :
         {std::pair("command", &program.command), {"files", &program.files}}) {
      r.Check(words->size() <= kWords, key, fmt::format("has more than {} words", kWords));
      for (const std::string& word : *words) {
        r.Check(word.size() <= kWordBytes && word.find('\0') == word.npos, key,
                fmt::format("has a word of more than {} bytes, or with a zero in it", kWordBytes));
      }
    }
    r.Within("timeout_s", program.timeout_s, 0.1, kLongestS, "s");
    if (r.Has("folder")) r.Line("folder", program.folder, kWordBytes);
  }
  if (r.status().ok()) ReadEnvironment(root, r, program);
  return r.Finish();
}

absl::Status ReadRanks(const TomlValue& root, const SpecNames& names, RunSpec& spec) {
  for (const std::string_view table : SpecTables()) {
    if (!InProgram(table)) continue;
    TableReader r(root, std::string(table));
    ReadKeys(r, table, names, spec);
    for (const auto& [key, codec] :
         {std::pair("forward", &spec.boundary.forward), {"backward", &spec.boundary.backward}}) {
      r.Check(table != "boundary" || *codec == "none" || spec.schedule.stages > 1, key,
              "needs schedule.stages of at least 2: one stage has no boundary");
    }
    if (table == "outer") {
      r.Check(spec.outer.codec == "none" || spec.outer.groups > 1, "codec",
              "needs outer.groups of at least 2: one group meets nobody");
      r.Check(spec.schedule.stages * spec.outer.groups <= kMaxRanks, "groups",
              fmt::format("= {} with schedule.stages = {}; want a product of at most {}",
                          spec.outer.groups, spec.schedule.stages, kMaxRanks));
    }
    RETURN_IF_ERROR(r.Finish());
  }
  return absl::OkStatus();
}

std::string Quoted(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(TomlQuote(word));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

}  // namespace

bool HasProgram(const TomlValue& root) { return Find(root, "program") != nullptr; }

absl::StatusOr<RunSpec> ReadProgramSpec(const TomlValue& root, const SpecNames& names) {
  RunSpec spec{};
  spec.program = RunSpec::Program{};  // clang finds no emplace() for a nested struct with defaults
  spec.train.batch_rows = spec.train.microbatches = 1;
  spec.boundary.forward = spec.boundary.backward = "none";
  spec.net.transport = "loopback";
  RETURN_IF_ERROR(ReadRoot(root, names, spec));
  RETURN_IF_ERROR(ReadProgram(root, *spec.program));
  RETURN_IF_ERROR(ReadRanks(root, names, spec));
  return spec;
}

SpecLines ProgramLines(const RunSpec& spec) {
  if (!spec.program) return {};
  const RunSpec::Program& program = *spec.program;
  SpecLines lines = {{"program", "command", Quoted(program.command)}};
  if (!program.folder.empty()) lines.push_back({"program", "folder", TomlQuote(program.folder)});
  lines.push_back({"program", "timeout_s", TomlNumber(program.timeout_s)});
  if (!program.files.empty()) lines.push_back({"program", "files", Quoted(program.files)});
  for (const auto& [name, value] : program.environment) {
    lines.push_back({"program.environment", TomlQuote(name), TomlQuote(value)});
  }
  return lines;
}

}  // namespace longhaul
