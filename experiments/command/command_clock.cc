// `_clock`: what Python asks of the clock (pp_group/schedule/clock.h). Standard input: one JSON object whose only key names
// the question; standard output: the answer, in lines of JSON. The engine answers "scale" and "plan", too.
//
// "simulated": [ROW...], of scenarios of the planning model. ROW: "stages", "microbatches", "compute_s" of a micro-batch and
// stage, "forward_bytes" and "backward_bytes" of a message over a boundary of "rate" bit/s and "delay_s" one way;
// "sync_bytes" that a stage sends "peers" others over a line of "sync_rate" and "sync_delay_s". Answer: [{"step_s":
// of a step of 1F1B in the steady state, "sync_s": of the exchange}...].
//
// "steps": [{"spec": TOML, "pipelines": [PIPELINE...], "messages": [LINK...]}...], of pipelines whose costs Python has
// measured; the latter two where predictions are asked for. PIPELINE: {"stages": [{"forward_s", "backward_s", "optimizer_s",
// "encode_s", "decode_s", "other_s"}...], "forward": [LINK...], "backward": [LINK...], "tied": [LINK, LINK]}; LINK:
// {"message_bytes", "rate_bit_per_s" (null: not limited), "one_way_delay_s"}. Answer, of each: what the spec's ranks do, and
// {"pipelines": [{"p1_s", "p2_s", "p3_s"} or {"error"}...], "messages_s": [...]}; or {"error"}.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "experiments/command/command.h"
#include "experiments/spec/link_time.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/spec.h"
#include "pp_group/schedule/catalog.h"

namespace longhaul {
namespace {

using nlohmann::ordered_json;

void Tell(const ordered_json& line) {
  fmt::print("{}\n", line.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

// Passes one third forward and two thirds backward, both directions of a link at once, transfer under way while stages
// compute.
absl::StatusOr<double> StepOfRow(const ordered_json& row) {
  const auto number = [&row](const char* key) { return row.at(key).get<double>(); };
  const PipelineShape shape{.ranks = static_cast<int>(number("stages")),
                            .microbatches = row.at("microbatches").get<int>()};
  if (shape.ranks == 1) return 0.0;
  const Schedule schedule = *FindSchedule("1f1b");
  RETURN_IF_ERROR(CheckShape(schedule, shape));
  const PipelineProgram program = ProgramOf(schedule, shape);
  const double compute_s = number("compute_s");
  PipelineCosts costs =
      PipelineCosts::Of(program, {.forward_s = compute_s / 3, .backward_s = compute_s * 2 / 3},
                        WireOf({number("forward_bytes"), number("rate"), number("delay_s")}));
  for (Wire& wire : costs.gradients) {
    wire = WireOf({number("backward_bytes"), number("rate"), number("delay_s")});
  }
  return StepPeriod(program, costs);
}

// Every stage sends what it changed to its peer in every other group over its own access line, all of them at once.
// Headers of frames and TCP's slow start included. 0: nobody to send to.
double SyncOfRow(const ordered_json& row) {
  const auto number = [&row](const char* key) { return row.at(key).get<double>(); };
  const double peers = number("peers");
  if (peers < 1) return 0;
  Connection fresh;
  return Take(
             ColdWireOf({number("sync_bytes"), number("sync_rate"), number("sync_delay_s")}, peers),
             0, &fresh)
      .arrived;
}

absl::Status AnswerSimulated(const ordered_json& rows) {
  ordered_json answer = ordered_json::array();
  for (const ordered_json& row : rows) {
    ASSIGN_OR_RETURN(const double step_s, StepOfRow(row));
    answer.push_back({{"step_s", step_s}, {"sync_s", SyncOfRow(row)}});
  }
  Tell(answer);
  return absl::OkStatus();
}

BoundaryLink LinkOf(const ordered_json& j) {
  const ordered_json& rate = j.at("rate_bit_per_s");
  return {j.at("message_bytes").get<double>(),
          rate.is_null() ? std::numeric_limits<double>::infinity() : rate.get<double>(),
          j.at("one_way_delay_s").get<double>()};
}

PipelineCosts CostsOf(const ordered_json& j, const PipelineProgram& program, LinkPolicy policy) {
  PipelineCosts costs;
  costs.ranks.resize(program.ranks.size());
  for (const ordered_json& c : j.at("stages")) {
    const auto number = [&c](const char* key) { return c.at(key).get<double>(); };
    PipelineCosts::Rank& rank =
        costs.ranks[static_cast<size_t>(program.rank_of_stage[costs.stages.size()])];
    rank.encode_s = number("encode_s");
    rank.decode_s = number("decode_s");
    rank.step_s += number("optimizer_s") + number("other_s");
    // A stage's backward pass is not known to split: all of it is I.
    costs.stages.push_back({.forward_s = number("forward_s"),
                            .backward_s = number("backward_s"),
                            .input_gradient_s = number("backward_s")});
  }
  const auto wire = [policy](const ordered_json& link) { return WireOf(LinkOf(link), policy); };
  for (const ordered_json& link : j.at("forward")) costs.activations.push_back(wire(link));
  for (const ordered_json& link : j.at("backward")) costs.gradients.push_back(wire(link));
  if (j.contains("tied")) costs.tied = {wire(j["tied"].at(0)), wire(j["tied"].at(1))};
  return costs;
}

ordered_json ErrorOf(const absl::Status& status) {
  return {{"error", std::string(status.message())}};
}

ordered_json Predicted(const ordered_json& pipeline, const PipelineProgram& program) {
  const size_t stages = program.rank_of_stage.size();
  if (pipeline.at("stages").size() != stages || pipeline.at("forward").size() + 1 != stages ||
      pipeline.at("backward").size() + 1 != stages) {
    return ErrorOf(absl::InvalidArgumentError(
        fmt::format("_clock: want costs of {} stages and of their boundaries", stages)));
  }
  ordered_json predicted;
  for (const auto& [key, policy] : {std::pair("p1_s", LinkPolicy::kSerialSlots),
                                    {"p2_s", LinkPolicy::kFullDuplex},
                                    {"p3_s", LinkPolicy::kOneAReceiver}}) {
    const auto step_s = StepPeriod(program, CostsOf(pipeline, program, policy), policy);
    if (!step_s.ok()) return ErrorOf(step_s.status());
    predicted[key] = *step_s;
  }
  return predicted;
}

ordered_json StepsOf(const ordered_json& question) {
  const auto any = [](std::string_view) {
    return absl::OkStatus();
  };  // names that a catalogue has lost
  const absl::StatusOr<TomlValue> tree =
      ParseToml(question.at("spec").get<std::string>(), "record");
  if (!tree.ok()) return ErrorOf(tree.status());
  const absl::StatusOr<RunSpec> spec =
      ReadRunSpec(*tree, {.codec = any, .profile = any, .schedule = any});
  if (!spec.ok()) return ErrorOf(spec.status());
  const OuterPlan outer = OuterPlanOf(*spec);
  ordered_json answer = {
      {"meets_every_step", spec->outer.groups > 1 && outer.meets() && outer.round_steps() == 1}};
  const absl::StatusOr<PipelineProgram> program = PipelineOf(*spec);
  if (!program.ok()) {
    answer.update(ErrorOf(program.status()));
    return answer;
  }
  answer["ranks"] = spec->ranks();
  answer["microbatches"] = program->microbatches;
  answer["rank_of_stage"] = program->rank_of_stage;
  answer["messages"] = ordered_json::array();  // that a rank sends in a step; as many come
  const std::vector<RankCommunication> communication = Communication(*program);
  for (const RankCommunication& rank : communication)
    answer["messages"].push_back(std::max<size_t>(1, rank.sends.size()));
  if (!question.contains("pipelines")) return answer;
  answer["pipelines"] = ordered_json::array();
  for (const ordered_json& one : question["pipelines"])
    answer["pipelines"].push_back(Predicted(one, *program));
  answer["messages_s"] = ordered_json::array();
  for (const ordered_json& one : question.at("messages"))
    answer["messages_s"].push_back(MessageSeconds(LinkOf(one)));
  return answer;
}

absl::Status AnswerSteps(const ordered_json& questions) {
  ordered_json answers = ordered_json::array();
  for (const ordered_json& question : questions) answers.push_back(StepsOf(question));
  Tell(answers);
  return absl::OkStatus();
}

absl::Status AnswerClock(const std::map<std::string, ClockAnswer>& answers) {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  try {
    const ordered_json asked = ordered_json::parse(text);
    if (!asked.is_object() || asked.size() != 1) {
      return absl::InvalidArgumentError("_clock: want an object of one question");
    }
    const auto answer = answers.find(asked.begin().key());
    if (answer == answers.end()) {
      return absl::InvalidArgumentError(
          fmt::format("_clock: this binary has no answer to '{}'; `make build` builds one that has",
                      asked.begin().key()));
    }
    return answer->second(asked.begin().value());
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("_clock: {}", error.what()));
  }
}

}  // namespace

void AddClockCommand(CLI::App& app, std::map<std::string, ClockAnswer> answers, int* exit_status) {
  answers.emplace("simulated", AnswerSimulated);
  answers.emplace("steps", AnswerSteps);
  CLI::App* command = app.add_subcommand("_clock", "")->group("");
  command->callback(
      [answers = std::move(answers), exit_status] { *exit_status = Fail(AnswerClock(answers)); });
}

}  // namespace longhaul
