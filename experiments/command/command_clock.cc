// `_clock`: how long steps and exchanges take by the clock of schedules, for Python's planning (python/longhaul/planning).
//
// Standard input: {"simulated": [ROW...]}. ROW, of one scenario of the planning model: "stages", "microbatches",
// "compute_s" of a micro-batch and stage, "forward_bytes" and "backward_bytes" of a message over a boundary of "rate" bit/s
// and "delay_s" one way; "sync_bytes" that a stage sends "peers" others over a line of "sync_rate" and "sync_delay_s".
// Standard output: {"simulated": [{"step_s": of a step of 1F1B in the steady state, "sync_s": of the exchange}...]}.
#include <iostream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/estimates/step_time.h"

namespace longhaul {
namespace {

using nlohmann::json;

// Passes one third forward and two thirds backward, both directions of a link at once, transfer under way while stages
// compute.
absl::StatusOr<double> StepOf(const json& row) {
  const auto number = [&row](const char* key) { return row.at(key).get<double>(); };
  const auto boundaries = static_cast<size_t>(number("stages")) - 1;
  if (boundaries == 0) return 0.0;
  const double compute_s = number("compute_s");
  const StageCost stage{.forward_s = compute_s / 3,
                        .backward_s = compute_s * 2 / 3,
                        .weight_gradient_s = compute_s / 3};
  const auto links = [&](const char* bytes) {
    return std::vector<BoundaryLink>(
        boundaries, BoundaryLink{number(bytes), number("rate"), number("delay_s")});
  };
  return PredictStepSeconds({.schedule = "1f1b",
                             .microbatches = row.at("microbatches").get<int>(),
                             .stages = std::vector<StageCost>(boundaries + 1, stage),
                             .forward = links("forward_bytes"),
                             .backward = links("backward_bytes")});
}

// Every stage sends what it changed to its peer in every other group over its own access line, all of them at once.
// Headers of frames and TCP's slow start included. 0: nobody to send to.
double SyncOf(const json& row) {
  const auto number = [&row](const char* key) { return row.at(key).get<double>(); };
  const double peers = number("peers");
  if (peers < 1) return 0;
  Connection fresh;
  return Take(
             ColdWireOf({number("sync_bytes"), number("sync_rate"), number("sync_delay_s")}, peers),
             0, &fresh)
      .arrived;
}

absl::Status AnswerClock() {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  try {
    json answer = {{"simulated", json::array()}};
    const json request = json::parse(text);
    for (const json& row : request.at("simulated")) {
      ASSIGN_OR_RETURN(const double step_s, StepOf(row));
      answer["simulated"].push_back({{"step_s", step_s}, {"sync_s", SyncOf(row)}});
    }
    fmt::print("{}\n", answer.dump());
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("_clock: {}", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace

void AddClockCommand(CLI::App& app, int* exit_status) {
  CLI::App* command = app.add_subcommand("_clock", "")->group("");
  command->callback([exit_status] { *exit_status = Fail(AnswerClock()); });
}

}  // namespace longhaul
