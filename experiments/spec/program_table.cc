#include "experiments/spec/program_table.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/spec/spec_keys.h"
#include "netem/topology/table_reader.h"

namespace longhaul {
namespace {

constexpr size_t kWords = 256, kWordBytes = 4096, kVariables = 256;
constexpr double kLongestS = 30 * 86'400;
constexpr std::string_view kTables[] = {"program",  "train", "schedule",
                                        "boundary", "outer", "limits"};

absl::Status ReadRoot(const TomlValue& root, RunSpec& spec) {
  TableReader r(root, "");
  r.Require("seed", &spec.seed);
  for (const std::string_view table : kTables) r.Skip(std::string(table));
  for (const std::string_view table : SpecTables()) {
    const bool read = std::find(std::begin(kTables), std::end(kTables), table) != std::end(kTables);
    r.Check(read || !r.Has(std::string(table)), std::string(table),
            "is of longhaul's own models; what a [program] trains is its own");
  }
  r.Within("seed", spec.seed, 0, std::numeric_limits<int64_t>::max());
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
  TableReader train(root, "train"), schedule(root, "schedule"), boundary(root, "boundary"),
      outer(root, "outer"), limits(root, "limits");
  train.Allow("tokens", &spec.train.tokens);
  schedule.Require("stages", &spec.schedule.stages);
  if (schedule.status().ok()) schedule.Within("stages", spec.schedule.stages, 1, kMaxRanks);
  for (const auto& [key, codec] :
       {std::pair("forward", &spec.boundary.forward), {"backward", &spec.boundary.backward}}) {
    boundary.Allow(key, codec);
    if (boundary.Has(key)) boundary.Known(key, *codec, names.codec);
    boundary.Check(*codec == "none" || spec.schedule.stages > 1, key,
                   "needs schedule.stages of at least 2: one stage has no boundary");
  }
  outer.Allow("groups", &spec.outer.groups);
  outer.Allow("codec", &spec.outer.codec);
  outer.Within("groups", spec.outer.groups, 1, kMaxRanks);
  if (outer.Has("codec")) outer.Known("codec", spec.outer.codec, names.codec);
  outer.Check(spec.outer.codec == "none" || spec.outer.groups > 1, "codec",
              "needs outer.groups of at least 2: one group meets nobody");
  outer.Check(spec.schedule.stages * spec.outer.groups <= kMaxRanks, "groups",
              fmt::format("= {} with schedule.stages = {}; want a product of at most {}",
                          spec.outer.groups, spec.schedule.stages, kMaxRanks));
  limits.Allow("threads", &spec.limits.threads);
  limits.Within("threads", spec.limits.threads, 1, 256);
  for (TableReader* reader : {&train, &schedule, &boundary, &outer, &limits}) {
    if (absl::Status s = reader->Finish(); !s.ok()) return s;
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
  if (absl::Status s = ReadRoot(root, spec); !s.ok()) return s;
  if (absl::Status s = ReadProgram(root, *spec.program); !s.ok()) return s;
  if (absl::Status s = ReadRanks(root, names, spec); !s.ok()) return s;
  return spec;
}

std::string ProgramToml(const RunSpec& spec) {
  const RunSpec::Program& program = *spec.program;
  std::string text =
      fmt::format("seed = {}\n\n[program]\ncommand = {}\n", spec.seed, Quoted(program.command));
  if (!program.folder.empty()) text += fmt::format("folder = {}\n", TomlQuote(program.folder));
  text += fmt::format("timeout_s = {}\n", TomlNumber(program.timeout_s));
  if (!program.files.empty()) text += fmt::format("files = {}\n", Quoted(program.files));
  if (!program.environment.empty()) text += "\n[program.environment]\n";
  for (const auto& [name, value] : program.environment) {
    text += fmt::format("{} = {}\n", TomlQuote(name), TomlQuote(value));
  }
  if (spec.train.tokens) text += fmt::format("\n[train]\ntokens = {}\n", *spec.train.tokens);
  return text + fmt::format(
                    "\n[schedule]\nstages = {}\n\n[boundary]\nforward = {}\nbackward = {}\n\n"
                    "[outer]\ngroups = {}\ncodec = {}\n\n[limits]\nthreads = {}\n",
                    spec.schedule.stages, TomlQuote(spec.boundary.forward),
                    TomlQuote(spec.boundary.backward), spec.outer.groups,
                    TomlQuote(spec.outer.codec), spec.limits.threads);
}

}  // namespace longhaul
