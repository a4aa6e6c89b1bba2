// What Python asks of the engine.
//
// `_clock-steps`: how long steps take by the clock of schedules, of pipelines whose costs Python has measured.
//
// Standard input: [{"spec": TOML, "pipelines": [PIPELINE...], "messages": [LINK...]}...], the latter two where predictions
// are asked for. PIPELINE: {"stages": [{"forward_s", "backward_s", "optimizer_s", "encode_s", "decode_s", "other_s"}...],
// "forward": [LINK...], "backward": [LINK...], "tied": [LINK, LINK]}; LINK: {"message_bytes", "rate_bit_per_s" (null: not
// limited), "one_way_delay_s"}. Standard output, of each: what the spec's ranks do, and
// {"pipelines": [{"p1_s", "p2_s", "p3_s"} or {"error"}...], "messages_s": [...]}; or {"error"}.
//
// `_frame-bytes ROWS COLS CODEC`: the most bytes of the codec's frame of a float32 tensor.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compressors/catalog.h"
#include "experiments/command/command.h"
#include "experiments/estimates/step_time.h"
#include "experiments/spec/plans_of_spec.h"
#include "experiments/spec/spec.h"

namespace longhaul {
namespace {

using nlohmann::ordered_json;

BoundaryLink ClockedLink(const ordered_json& j) {
  const ordered_json& rate = j.at("rate_bit_per_s");
  return {j.at("message_bytes").get<double>(),
          rate.is_null() ? std::numeric_limits<double>::infinity() : rate.get<double>(),
          j.at("one_way_delay_s").get<double>()};
}

std::vector<BoundaryLink> ClockedLinks(const ordered_json& all) {
  std::vector<BoundaryLink> links;
  for (const ordered_json& one : all) links.push_back(ClockedLink(one));
  return links;
}

Pipeline ClockedPipeline(const ordered_json& j, const RunSpec& spec,
                         const PipelineProgram& program) {
  Pipeline p{spec.schedule.kind,
             program.microbatches,
             {},
             ClockedLinks(j.at("forward")),
             ClockedLinks(j.at("backward"))};
  p.program = program;
  for (const ordered_json& c : j.at("stages")) {
    p.stages.push_back({.forward_s = c.at("forward_s").get<double>(),
                        .backward_s = c.at("backward_s").get<double>(),
                        .encode_s = c.at("encode_s").get<double>(),
                        .decode_s = c.at("decode_s").get<double>(),
                        .optimizer_s = c.at("optimizer_s").get<double>(),
                        .other_s = c.at("other_s").get<double>()});
  }
  if (j.contains("tied")) p.tied = {ClockedLink(j["tied"].at(0)), ClockedLink(j["tied"].at(1))};
  return p;
}

ordered_json ErrorOf(const absl::Status& status) {
  return {{"error", std::string(status.message())}};
}

ordered_json Predicted(const Pipeline& pipeline) {
  const absl::StatusOr<double> p2_s = PredictStepSeconds(pipeline), p3_s = OneWireSeconds(pipeline);
  if (!p2_s.ok()) return ErrorOf(p2_s.status());
  if (!p3_s.ok()) return ErrorOf(p3_s.status());
  return {{"p1_s", SerialSlotSeconds(pipeline)}, {"p2_s", *p2_s}, {"p3_s", *p3_s}};
}

ordered_json Answer(const ordered_json& question) {
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
  for (const ordered_json& one : question["pipelines"]) {
    answer["pipelines"].push_back(Predicted(ClockedPipeline(one, *spec, *program)));
  }
  answer["messages_s"] = ordered_json::array();
  for (const ordered_json& one : question.at("messages"))
    answer["messages_s"].push_back(MessageSeconds(ClockedLink(one)));
  return answer;
}

absl::Status ClockSteps() {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  try {
    const ordered_json questions = ordered_json::parse(text);
    ordered_json answers = ordered_json::array();
    for (const ordered_json& question : questions) answers.push_back(Answer(question));
    fmt::print("{}\n", answers.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("_clock-steps: {}", error.what()));
  }
  return absl::OkStatus();
}

struct FrameArguments {
  Shape shape{};
  std::string codec;
};

absl::Status FrameBytes(const FrameArguments& asked) {
  const auto codec = MakeCodec(asked.codec);
  if (!codec.ok()) return codec.status();
  fmt::print("{}\n", (*codec)->MaxFrameBytes(asked.shape, DType::kF32));
  return absl::OkStatus();
}

}  // namespace

void AddAskedCommands(CLI::App& app, int* exit_status) {
  CLI::App* steps = app.add_subcommand("_clock-steps", "")->group("");
  steps->callback([exit_status] { *exit_status = Fail(ClockSteps()); });
  auto asked = std::make_shared<FrameArguments>();
  CLI::App* frame = app.add_subcommand("_frame-bytes", "")->group("");
  frame->add_option("rows", asked->shape.rows)->required();
  frame->add_option("cols", asked->shape.cols)->required();
  frame->add_option("codec", asked->codec)->required();
  frame->callback(Calling(FrameBytes, asked, exit_status));
}

}  // namespace longhaul
