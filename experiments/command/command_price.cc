#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/command/output.h"
#include "experiments/price/price_input.h"
#include "experiments/price/price_run.h"
#include "experiments/price/price_told.h"
#include "experiments/record/whole_file.h"
#include "experiments/run/machine_check.h"
#include "experiments/run/machine_limits.h"
#include "experiments/run/run_view.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

constexpr char kSchema[] = "longhaul.price/1";
constexpr char kStdout[] = "-";

struct Arguments {
  PriceOptions price;
  int64_t threads = CoresAllowed();
  std::string json, csv, report;  // files; "": none; json "-": stdout
  bool quiet = false;
};

// How far it is, rewritten in place on a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) == 1) {}
  void Show(const PriceProgress& p) {
    const absl::Duration now = MonotonicClock().Now();
    // The clock starts behind the first pass: loading the model says nothing of the rest.
    if (!std::exchange(started_, true)) pace_.Observe(now, p.done);
    if (now - last_ < (terminal_ ? absl::Seconds(1) : absl::Seconds(15))) return;
    last_ = now;
    pace_.Observe(now, p.done);
    std::string text = fmt::format("  {}, {:.0f} % done", p.doing, 100 * p.done / p.all);
    if (const auto left = pace_.Left(p.all))
      text += fmt::format(", about {} left", RoughTime(*left));
    fmt::print(out_, "{}{:<78}{}", terminal_ ? "\r" : "", text, terminal_ ? "" : "\n");
    std::fflush(out_);
  }
  void Clear() {
    if (terminal_) fmt::print(out_, "\r{:<78}\r", "");
  }

 private:
  std::FILE* const out_;
  const bool terminal_;
  Pace pace_;
  bool started_ = false;
  absl::Duration last_ = MonotonicClock().Now();  // nothing for what takes no time
};

// What takes minutes is not computed for a file that cannot be written.
absl::Status CheckFiles(const Arguments& arguments) {
  for (const std::string& path : {arguments.json, arguments.csv, arguments.report}) {
    if (path.empty() || path == kStdout) continue;
    RETURN_IF_ERROR(CheckWritable(path));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Price(const Arguments& arguments, bool* documented) {
  constexpr int64_t kMostThreads = 4096;
  if (arguments.threads < 1 || arguments.threads > kMostThreads) {
    return absl::InvalidArgumentError(
        fmt::format("--threads {}: want 1 to {}", arguments.threads, kMostThreads));
  }
  ASSIGN_OR_RETURN(const PriceInput input, ReadPriceInput(arguments.price));
  RETURN_IF_ERROR(CheckFiles(arguments));
  if (!CanReadPrices()) return 1;
  ProgressLine line(stderr);
  const absl::StatusOr<PriceOutcome> outcome = RunPrice(
      input, arguments.threads,
      [&](const PriceProgress& p) {
        if (!arguments.quiet) line.Show(p);
      },
      [&](const PriceOutcome& seen) { return ChosenArms(input, seen); });
  line.Clear();
  if (!outcome.ok()) return outcome.status();
  ASSIGN_OR_RETURN(const PriceShown shown,
                   ShowPrices(input, *outcome, !arguments.csv.empty(), !arguments.report.empty()));
  *documented = arguments.json == kStdout;
  fmt::print("{}", *documented ? shown.json : shown.text);
  for (const auto& [path, text] : {std::pair(&arguments.json, &shown.json),
                                   {&arguments.csv, &shown.csv},
                                   {&arguments.report, &shown.page}}) {
    if (path->empty() || *path == kStdout) continue;
    RETURN_IF_ERROR(WriteWholeFile(*path, *text));
  }
  // A budget that nothing meets is said when everything else has been.
  if (!shown.unmet.empty()) return absl::FailedPreconditionError(shown.unmet);
  return 0;
}

void AddOptions(CLI::App* command, Arguments& a) {
  PriceOptions& o = a.price;
  command
      ->add_option("--weights", o.weights,
                   "model.safetensors, an index of several files, or a folder with one of them")
      ->required();
  command->add_option("--model", o.model,
                      "TOML file with the table [model] [default: model.toml next to the weights]");
  command
      ->add_option("--tokens", o.tokens,
                   "Token file to evaluate on, or text:FILE, tokens32:FILE (docs/models.md)")
      ->required();
  command->add_option("--codec", o.codecs, "Codec of the boundaries (repeatable)")
      ->required()
      ->take_all();
  command->add_option("--stages", o.stages, "Numbers of equal stages [default: 2,4,8]")
      ->delimiter(',');
  command
      ->add_option("--cuts", o.cuts,
                   "First blocks of stages 1, 2, ..., such as 7,15,22 (repeatable)")
      ->take_all();
  command->add_option("--rows", o.rows,
                      fmt::format("Rows of text to price on [default: {}]", kPriceRows));
  command->add_option(
      "--context", o.context,
      fmt::format("Tokens per row [default: {}, or the model's if that is less]", kPriceContext));
  command->add_option(
      "--budget", o.budget_nat,
      "Choose the cuts and codecs of the fewest bits within this loss (nat/token), and "
      "try the choice on as many other rows");
  command->add_option(
      "--move", o.move,
      fmt::format("With --budget: blocks by which a cut may move [default: {}]", kPriceMove));
  command
      ->add_option(
          "--allow", o.allowed_nat,
          "Report the fewest bits that keep the loss (nat/token) below each level [default: "
          "0.001,0.01,0.1]")
      ->delimiter(',');
  command->add_option(
      "--gradient-rows", o.gradient_rows,
      fmt::format("Rows whose gradients are compared, the slowest part; 0: none [default: {}]",
                  kPriceGradientRows));
  command->add_option("--seed", o.seed, "Seed of stochastic codecs [default: 1]");
  command
      ->add_option("--device", o.device,
                   "Where the model computes: cpu, cuda or cuda:N; codecs run on the host")
      ->capture_default_str();
  command
      ->add_option("--dtype", o.dtype,
                   "Type of the model's products and of crossing tensors: float32 or bfloat16")
      ->capture_default_str();
  command->add_option("--threads", a.threads,
                      "Threads of this process [default: all cores it may use]");
  command->add_option("--json", a.json, "Print one JSON document on stdout, or write it to FILE")
      ->expected(0, 1)
      ->default_str(kStdout)
      ->option_text("[FILE]");
  command->add_option("--csv", a.csv, "Write the losses of every row as CSV");
  command->add_option("--report", a.report, "Write an HTML page with tables and figures");
  command->add_flag("-q,--quiet", a.quiet, "Print no progress");
}

}  // namespace

void AddPriceCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "price", "Price compressed boundaries of existing weights, without training");
  command->group("Measure");
  command->footer(
      "Example:\n"
      "  longhaul price --weights smollm2 --tokens smollm2/python.bin --codec int4-b64-h64");
  AddOptions(command, *arguments);
  command->callback([arguments, exit_status] {
    bool documented = false;
    const absl::StatusOr<int> ended = Price(*arguments, &documented);
    const absl::Status& status = ended.status();
    if (!status.ok() && arguments->json == kStdout && !documented) {
      fmt::print("{}", ErrorJson(kSchema, status));
    }
    *exit_status = ended.ok() ? *ended : Fail(status);
  });
}

}  // namespace longhaul
