// What each key of a scenario file may be at least and at most, written down here by hand, and
// where its value goes, with its unit: both ends are taken, the next number beyond is refused.
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planning/simulator/scenario_file.h"
#include "planning/simulator/simulate.h"

namespace longhaul::simulator {
namespace {

using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Bound {
  double least, most;
  bool whole;
  double unit;  // of the field, in the key's unit
  std::function<double(const Draft&)> field;
};
#define OF(name) [](const Draft& d) { return static_cast<double>(d.scenario.name); }
Bound Int(double least, double most, std::function<double(const Draft&)> field) {
  return {least, most, true, 1, std::move(field)};
}
Bound Num(double least, double most, double unit, std::function<double(const Draft&)> field) {
  return {least, most, false, unit, std::move(field)};
}

const std::map<std::string, Bound> kBounds = {
    {"node.devices", Int(1, 1e6, [](const Draft& d) { return static_cast<double>(d.devices); })},
    {"node.petaflops", Num(1e-3, 1e6, 1, [](const Draft& d) { return *d.petaflops; })},
    {"node.memory_gb", Num(1e-3, 1e9, 1, [](const Draft& d) { return *d.memory_gb; })},
    {"node.device_usd", Num(0.01, 1e9, 1, [](const Draft& d) { return *d.device_price; })},
    {"node.mfu", Num(0.001, 1, 1, OF(mfu))},
    {"model.parameters_b", Num(1e-3, 1e6, 1e9, OF(parameters))},
    {"model.active_b", Num(1e-3, 1e6, 1e9, OF(active_parameters))},
    {"model.moe_layers", Int(1, 10000, OF(moe_layers))},
    {"network.nodes", Int(1, 1e9, OF(nodes))},
    {"network.group_nodes", Int(2, 1e6, OF(group_nodes))},
    {"network.wan_mbps", Num(1e-3, 1e7, 1e6, OF(wan_up))},
    {"network.wan_up_mbps", Num(1e-3, 1e7, 1e6, OF(wan_up))},
    {"network.wan_down_mbps", Num(1e-3, 1e7, 1e6, OF(wan_down))},
    {"network.wan_rtt_ms", Num(0, 1e6, 1e-3, OF(wan_rtt))},
    {"network.regional_mbps", Num(1e-3, 1e7, 1e6, OF(regional_rate))},
    {"network.regional_rtt_ms", Num(0, 1e6, 1e-3, OF(regional_rtt))},
    {"training.gradient_ratio", Num(1, 1e6, 1, OF(gradient_ratio))},
    {"training.activation_ratio", Num(1, 1e6, 1, OF(activation_ratio))},
    {"training.backward_ratio",
     Num(1, 1e6, 1, [](const Draft& d) { return *d.scenario.backward_ratio; })},
    {"training.micro_batches", Int(1, 1e6, OF(micro_batches))},
    {"training.inner_steps",
     Int(1, 1e9, [](const Draft& d) { return static_cast<double>(*d.scenario.inner_steps); })},
    {"training.step_tokens", Num(1, 1e12, 1, OF(step_tokens))},
    {"training.years", Num(1e-6, 1000, 31'557'600, OF(wall_clock))},
    {"switches.tokens_per_parameter", Num(0.1, 1e6, 1, OF(switches.tokens_per_parameter))},
    {"switches.overtrain_target", Num(0.001, 1e6, 1, OF(switches.overtrain_target))},
};

// Choices and flags: each name, in the order of its enum.
struct Choice {
  std::vector<std::string> names;  // of a flag: false, true
  std::function<double(const Draft&)> field;
};
const std::map<std::string, Choice> kChoices = {
    {"case", {{"optimistic", "expected", "conservative"}, OF(expected)}},
    {"node.device",
     {{"a100", "h100", "gh200", "ascend-910b", "ascend-910c", "tpu-v4", "tpu-v5e", "tpu-v5p",
       "tpu-v6e"},
      [](const Draft& d) { return static_cast<double>(d.device - &Devices()[0]); }}},
    {"node.precision", {{"fp16", "fp8", "fp4"}, OF(precision)}},
    {"model.expert_parallel", {{"none", "global", "regional"}, OF(expert_parallel)}},
    {"network.topology", {{"flat", "hierarchical"}, OF(topology)}},
    {"switches.eta_c",
     {{"governance", "documentation", "latest-without-ef", "latest-with-ef"},
      OF(switches.gradient_table)}},
    {"switches.eta_act",
     {{"note", "first-pp", "latest", "documentation"}, OF(switches.activation_table)}},
    {"switches.replica",
     {{"linear", "linear-no-floor", "loss", "loss-without-h", "loss-in-chi"},
      OF(switches.replica)}},
    {"switches.straggler", {{"sync", "threshold", "backup", "relay"}, OF(switches.straggler)}},
    {"switches.pp_links", {{"regional", "wan"}, OF(switches.pipeline_links)}},
    {"switches.micro_compute", {{"per-stage", "whole-model"}, OF(switches.micro_compute)}},
    {"switches.chi", {{"false", "true"}, OF(switches.chi)}},
    {"switches.boundary_overlap", {{"false", "true"}, OF(switches.boundary_overlap)}},
    {"switches.stage_parallel_sync", {{"false", "true"}, OF(switches.stage_parallel_sync)}},
    {"switches.streaming", {{"false", "true"}, OF(switches.streaming)}},
};
#undef OF

absl::StatusOr<ScenarioFile> With(const std::string& key, TomlValue value) {
  TomlValue root = *ParseToml("", "plan.toml");
  EXPECT_TRUE(SetByPath(root, key, std::move(value)).ok()) << key;
  return ReadScenarioFile(root);
}

TomlValue Number(double value, bool whole) {
  if (whole) return {static_cast<int64_t>(value), "plan.toml:1"};
  return {value, "plan.toml:1"};
}

TEST(SimulatorBounds, EveryKeyIsHereAndNoOther) {
  std::set<std::string> keys;
  for (const ScenarioKey& key : ScenarioKeys()) {
    const std::string path =
        key.table.empty() ? std::string(key.name) : fmt::format("{}.{}", key.table, key.name);
    keys.insert(path);
    EXPECT_TRUE(kBounds.contains(path) || kChoices.contains(path))
        << "a new key: write its bounds or its names here, by hand: " << path;
  }
  EXPECT_EQ(keys.size(), kBounds.size() + kChoices.size());
}

TEST(SimulatorBounds, EachEndIsTakenInItsUnitAndTheNextValueBeyondItIsRefused) {
  for (const auto& [key, b] : kBounds) {
    for (const double end : {b.least, b.most}) {
      const absl::StatusOr<ScenarioFile> file = With(key, Number(end, b.whole));
      ASSERT_TRUE(file.ok()) << key << " = " << end << ": " << file.status();
      EXPECT_NEAR(b.field(file->draft), end * b.unit, 1e-12 * end * b.unit) << key;
    }
    const double below = b.whole ? b.least - 1 : std::nextafter(b.least, -kInf);
    const double above = b.whole ? b.most + 1 : std::nextafter(b.most, kInf);
    for (const double beyond : {below, above}) {
      const std::string want =
          b.whole
              ? fmt::format("'{}' is {:.0f}; want {:.0f} to {:.0f}", key, beyond, b.least, b.most)
              : fmt::format("'{}' is {}; want {} to {}", key, beyond, b.least, b.most);
      EXPECT_THAT(std::string(With(key, Number(beyond, b.whole)).status().message()),
                  HasSubstr(want));
    }
  }
}

TEST(SimulatorBounds, OneWanRateIsThatOfBothDirections) {
  const absl::StatusOr<ScenarioFile> file = With("network.wan_mbps", Number(7, false));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->draft.scenario.wan_up, 7e6);
  EXPECT_EQ(file->draft.scenario.wan_down, 7e6);
}

TEST(SimulatorBounds, EachNameIsItsOwnValue) {
  for (const auto& [key, choice] : kChoices) {
    const bool flag = choice.names[0] == "false";
    for (size_t i = 0; i < choice.names.size(); ++i) {
      const TomlValue value =
          flag ? TomlValue{i == 1, "plan.toml:1"} : TomlValue{choice.names[i], "plan.toml:1"};
      const absl::StatusOr<ScenarioFile> file = With(key, value);
      ASSERT_TRUE(file.ok()) << key << " = " << choice.names[i] << ": " << file.status();
      EXPECT_EQ(choice.field(file->draft), static_cast<double>(i)) << key << choice.names[i];
    }
    if (flag) continue;
    std::string known;
    for (const std::string& name : choice.names) known += (known.empty() ? "" : ", ") + name;
    EXPECT_THAT(
        std::string(With(key, TomlValue{std::string("x"), "plan.toml:1"}).status().message()),
        testing::EndsWith("known: " + known));
  }
}

TEST(SimulatorBounds, ListsOfTwoAreTwoScenariosOfTheirOwn) {
  const auto file = ReadScenarioFile(*ParseToml(R"(
[node]
device = ["a100", "h100"]
[network]
wan_up_mbps = [20, 30]
wan_down_mbps = 70
)",
                                                "plan.toml"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> seen;
  ASSERT_TRUE(file->ForEach([&](const Scenario& s, const std::vector<size_t>& at) {
                    seen.push_back(fmt::format("{} {} {}, {} {}", s.wan_up, s.wan_down,
                                               s.device_price, at[0], at[1]));
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_THAT(seen,
              testing::ElementsAre("20000000 70000000 15000, 0 0", "30000000 70000000 15000, 0 1",
                                   "20000000 70000000 30000, 1 0", "30000000 70000000 30000, 1 1"));
}

TEST(SimulatorBounds, ASearchReachesItsEndsAndNoFurther) {
  const auto error = [](const std::string& keys) {
    return std::string(
        ReadScenarioFile(*ParseToml("[search]\n" + keys, "plan.toml")).status().message());
  };
  EXPECT_EQ(error("at_least = [1, 1e40]\nmost_nodes = 1\n"), "");
  EXPECT_EQ(error("at_least = [1e24]\nmost_nodes = 1000000\n"), "");
  EXPECT_THAT(error("at_least = [1e24]\nmost_nodes = 0\n"), HasSubstr("want 1 to 1000000"));
  EXPECT_THAT(error("at_least = [1e24]\nmost_nodes = 1000001\n"), HasSubstr("want 1 to 1000000"));
  EXPECT_THAT(error("at_least = [0.999]\n"), HasSubstr("want 1 to 1e+40 FLOP"));
  EXPECT_THAT(error("at_least = [1e24, 1.0001e40]\n"), HasSubstr("want 1 to 1e+40 FLOP"));
  const auto title = [](size_t bytes) {
    return ReadScenarioFile(*ParseToml("title = '" + std::string(bytes, 't') + "'", "p")).ok();
  };
  EXPECT_TRUE(title(200));
  EXPECT_FALSE(title(201));
}

TEST(SimulatorBounds, TheProductReachesAMillionAndNoFurther) {
  const auto lists = [](int nodes) {
    std::string a, b;
    for (int i = 1; i <= nodes; ++i) a += fmt::format("{},", i);
    for (int i = 1; i <= 1000; ++i) b += fmt::format("{},", i);
    return ReadScenarioFile(
        *ParseToml("[network]\nnodes = [" + a + "]\nwan_mbps = [" + b + "]\n", "p"));
  };
  EXPECT_EQ(lists(1000)->size(), 1'000'000u);
  EXPECT_FALSE(lists(1001).ok());
}

}  // namespace
}  // namespace longhaul::simulator
