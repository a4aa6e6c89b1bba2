// `schedule cuts`: where stages begin, by measured seconds of blocks.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/schedule_best.h"
#include "experiments/estimates/table.h"
#include "experiments/record/record.h"
#include "experiments/record/whole_file.h"
#include "experiments/spec/known_names.h"
#include "netem/topology/text_file.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {
namespace {

struct CutsOptions {
  std::string spec, from, times, save;
  std::vector<std::string> set;
  int64_t run = 0, stages = 0;
};

// Seconds of each block of `spec`'s model, forward and backward in a step of one group.
struct BlockSeconds {
  std::vector<double> seconds;  // [blocks]
  int64_t blocks_of_stage = 1;  // of the largest stage that was measured: its blocks share its time
  std::string source;
};

constexpr char kHead[] = "block,seconds";

// As few stages as hold the blocks in order, none above `most`.
int64_t StagesFor(const std::vector<double>& seconds, double most) {
  int64_t stages = 1;
  double own = 0;
  for (const double s : seconds) {
    if (own + s > most) {
      ++stages;
      own = 0;
    }
    own += s;
  }
  return stages;
}

// The least that the slowest stage can take, to the last bits.
double LeastOfTheSlowest(const std::vector<double>& seconds, int64_t stages) {
  double low = *std::max_element(seconds.begin(), seconds.end());
  double high = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (StagesFor(seconds, low) <= stages) return low;
  for (int i = 0; i < 100; ++i) {
    const double middle = low + (high - low) / 2;
    (StagesFor(seconds, middle) <= stages ? high : low) = middle;
  }
  return high;
}

// The blocks with which stages begin, 0 first, and their number last.
std::vector<int64_t> Begins(const RunSpec& spec) {
  std::vector<int64_t> begins = {0};
  for (int64_t s = 1; s < spec.schedule.stages; ++s) {
    begins.push_back(spec.schedule.cuts.empty() ? s * spec.model.blocks / spec.schedule.stages
                                                : spec.schedule.cuts[static_cast<size_t>(s) - 1]);
  }
  begins.push_back(spec.model.blocks);
  return begins;
}

// Where stages 1, 2, ... of `stages` begin so that the slowest stage takes least, and among such cuts
// the squares of the stages' seconds add up to least. `seconds` [blocks], each above 0; no more
// stages than blocks.
std::vector<int64_t> BalancedCuts(const std::vector<double>& seconds, int64_t stages) {
  const auto blocks = static_cast<int64_t>(seconds.size());
  const double most = LeastOfTheSlowest(seconds, stages) * (1 + 1e-12);
  constexpr double kNone = std::numeric_limits<double>::infinity();
  // Of stages 0 .. s over the first n blocks: the least sum of squares, and where stage s begins.
  std::vector<double> least(static_cast<size_t>(blocks) + 1, kNone);
  least[0] = 0;
  std::vector<std::vector<int64_t>> begin;
  for (int64_t s = 0; s < stages; ++s) {
    std::vector<double> next(least.size(), kNone);
    std::vector<int64_t>& from = begin.emplace_back(least.size(), 0);
    for (int64_t n = s + 1; n <= blocks; ++n) {
      double own = 0;
      for (int64_t b = n - 1; b >= s; --b) {
        own += seconds[static_cast<size_t>(b)];
        if (own > most) break;
        const double sum = least[static_cast<size_t>(b)] + own * own;
        if (sum >= next[static_cast<size_t>(n)]) continue;
        next[static_cast<size_t>(n)] = sum;
        from[static_cast<size_t>(n)] = b;
      }
    }
    least = std::move(next);
  }
  std::vector<int64_t> cuts;
  int64_t end = blocks;
  for (int64_t s = stages - 1; s > 0; --s) {
    end = begin[static_cast<size_t>(s)][static_cast<size_t>(end)];
    cuts.insert(cuts.begin(), end);
  }
  return cuts;
}

// "block,seconds" and a line a block, in order. InvalidArgument: the line that is none, a block that
// is missing.
absl::StatusOr<BlockSeconds> ReadBlockSeconds(const std::string& path, const RunSpec& spec) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  std::istringstream file(absl::StrReplaceAll(text, {{"\r\n", "\n"}}));
  std::string line;
  if (!std::getline(file, line) || line != kHead) {
    return absl::InvalidArgumentError(
        fmt::format("{}: line 1 is '{:.80}'; want '{}'", path, line, kHead));
  }
  BlockSeconds read{.seconds = {}, .source = path};
  for (int64_t number = 2; std::getline(file, line); ++number) {
    const char *at = line.data(), *const end = at + line.size();
    int64_t block = -1;
    double seconds = 0;
    const auto first = std::from_chars(at, end, block);
    const bool comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
    const auto second = comma ? std::from_chars(first.ptr + 1, end, seconds)
                              : std::from_chars_result{end, std::errc::invalid_argument};
    const auto wanted = static_cast<int64_t>(read.seconds.size());
    if (second.ec != std::errc() || second.ptr != end || block != wanted || !(seconds > 0) ||
        !(seconds < 1e9)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: line {} is '{:.80}'; want '{},SECONDS', more than 0 and less than 1e9",
                      path, number, line, wanted));
    }
    read.seconds.push_back(seconds);
  }
  if (static_cast<int64_t>(read.seconds.size()) != spec.model.blocks) {
    return absl::InvalidArgumentError(fmt::format("{}: {} blocks; the spec's model.blocks = {}",
                                                  path, read.seconds.size(), spec.model.blocks));
  }
  return read;
}

// From a run's record, the last one in `results` or `run`, if that is not 0: medians over its steps,
// the first tenth left out. The embedding counts for the first block, the head for the last.
// InvalidArgument: of another model or micro-batch, or one in which nothing was computed.
absl::StatusOr<BlockSeconds> MeasuredBlockSeconds(const std::string& results, int64_t run,
                                                  const RunSpec& spec) {
  ASSIGN_OR_RETURN(const Record record, Record::Open(results, Record::Mode::kRead));
  if (run == 0) {
    ASSIGN_OR_RETURN(const auto experiments, record.Experiments());
    for (const ExperimentRow& e : experiments) {
      ASSIGN_OR_RETURN(const auto runs, record.Runs(e.id));
      for (const RunRow& r : runs) run = std::max(run, r.id);
    }
  }
  ASSIGN_OR_RETURN(const RunRow row, record.Run(run));
  ASSIGN_OR_RETURN(const auto steps, record.RowsOf<StepRow>(run));
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("run {} of {}: {}", run, results, why));
  };
  const absl::StatusOr<TomlValue> toml = ParseToml(row.spec_toml, "its spec");
  if (!toml.ok()) return refuse(std::string(toml.status().message()));
  const absl::StatusOr<RunSpec> of = ReadRunSpec(*toml, CatalogNames());
  if (!of.ok()) return refuse(std::string(of.status().message()));
  const auto sizes = [](const RunSpec& s) {
    return fmt::format("a {} of {} blocks of width {}, {} rows of {} tokens a micro-batch",
                       s.model.kind, s.model.blocks, s.model.width,
                       s.train.batch_rows / s.train.microbatches, s.model.context);
  };
  if (sizes(*of) != sizes(spec)) {
    return refuse(fmt::format("it trained {}; this spec has {}", sizes(*of), sizes(spec)));
  }
  if (of->injected()) return refuse("its compute was injected, not measured");
  std::map<int64_t, std::vector<double>> by_stage;
  for (const StepRow& s : steps) {
    if (s.step * 10 > Steps(*of)) by_stage[s.stage].push_back(s.forward_s + s.backward_s);
  }
  const std::vector<int64_t> begins = Begins(*of);
  if (by_stage.size() + 1 != begins.size()) return refuse("it has not the steps of all stages");
  BlockSeconds measured{.seconds = {}, .source = fmt::format("run {} of {}", run, results)};
  for (auto& [stage, seconds] : by_stage) {
    const int64_t blocks =
        begins[static_cast<size_t>(stage) + 1] - begins[static_cast<size_t>(stage)];
    std::sort(seconds.begin(), seconds.end());
    const size_t half = seconds.size() / 2;
    const double median =
        seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
    const double own = median / static_cast<double>(blocks);
    if (!(own > 0)) return refuse(fmt::format("stage {} took no time", stage));
    measured.blocks_of_stage = std::max(measured.blocks_of_stage, blocks);
    measured.seconds.insert(measured.seconds.end(), static_cast<size_t>(blocks), own);
  }
  return measured;
}

// As ReadBlockSeconds takes it.
std::string TextOf(const BlockSeconds& blocks) {
  std::string text = fmt::format("{}\n", kHead);
  for (size_t b = 0; b < blocks.seconds.size(); ++b) {
    text += fmt::format("{},{}\n", b, blocks.seconds[b]);
  }
  return text;
}

absl::Status ChooseCuts(const CutsOptions& o) {
  // The spec may name stages that do not divide its blocks, which is what cuts are for.
  const absl::StatusOr<RunSpec> spec = LoadRunSpec(o.spec, o.set, CatalogNames());
  if (!spec.ok()) return spec.status();
  const int64_t stages = o.stages == 0 ? spec->stages() : o.stages;
  if (stages < 1 || stages > spec->model.blocks) {
    return absl::InvalidArgumentError(
        fmt::format("--stages is {}; want 1 to model.blocks = {}", stages, spec->model.blocks));
  }
  if (o.from.empty() == o.times.empty()) {
    return absl::InvalidArgumentError(
        "seconds of each block: --from RESULTS, of a run that measured them, or --times FILE");
  }
  ASSIGN_OR_RETURN(const BlockSeconds blocks, o.times.empty()
                                                  ? MeasuredBlockSeconds(o.from, o.run, *spec)
                                                  : ReadBlockSeconds(o.times, *spec));
  if (!o.save.empty()) {
    RETURN_IF_ERROR(WriteWholeFile(o.save, TextOf(blocks)));
  }
  const std::vector<int64_t> cuts = BalancedCuts(blocks.seconds, stages);
  fmt::print("{} blocks by {}{}\n", blocks.seconds.size(), blocks.source,
             blocks.blocks_of_stage == 1
                 ? ""
                 : fmt::format(", in stages of up to {}, whose blocks share their time alike; of "
                               "each block its own: a run with schedule.stages = {}",
                               blocks.blocks_of_stage, blocks.seconds.size()));
  Table table{.columns = {"stage", "blocks", "seconds a step"}};
  double all = 0, slowest = 0;
  for (int64_t s = 0; s < stages; ++s) {
    const int64_t begin = s == 0 ? 0 : cuts[static_cast<size_t>(s) - 1];
    const int64_t end = s + 1 == stages ? spec->model.blocks : cuts[static_cast<size_t>(s)];
    double own = 0;
    for (int64_t b = begin; b < end; ++b) own += blocks.seconds[static_cast<size_t>(b)];
    all += own;
    slowest = std::max(slowest, own);
    table.Add({s, fmt::format("{} to {}", begin, end - 1), Cell(own, "{:.4g}")});
  }
  fmt::print("{}\nthe slowest stage takes {:.4g} of an even share\n", GridText(table),
             slowest * static_cast<double>(stages) / all);
  if (stages > 1) {
    fmt::print("--set schedule.stages={} --set 'schedule.cuts=[{}]'\n", stages,
               fmt::join(cuts, ", "));
  }
  return absl::OkStatus();
}

}  // namespace

void AddScheduleCuts(CLI::App& schedule, int* exit_status) {
  auto cuts = std::make_shared<CutsOptions>();
  CLI::App* c = schedule.add_subcommand("cuts", "Balance stages by the measured times of blocks");
  c->footer("Example:\n  longhaul schedule cuts spec.toml -S 4 --from results/blocks");
  c->add_option("spec", cuts->spec, kSpecHelp)->required();
  c->add_option("--set", cuts->set, kSetHelp);
  c->add_option("-S,--stages", cuts->stages, "Stages to cut into [default: the spec's]");
  c->add_option("--from", cuts->from,
                "Record of a run of the same model, best one with a stage for each block");
  c->add_option("--run", cuts->run, "Number of the run in it [default: the last]");
  c->add_option("--times", cuts->times, "File of block,seconds in place of a record");
  c->add_option("--save", cuts->save, "Write the measured times as such a file");
  c->callback(Calling(ChooseCuts, cuts, exit_status));
}

}  // namespace longhaul
