#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/spec/spec.h"

namespace longhaul {

// A catalogue of four codecs, two profiles and three schedules, as messages list them.
inline SpecNames TestNames() {
  const auto one_of = [](std::string_view kind, std::vector<std::string> known) {
    return [kind = std::string(kind), known](std::string_view name) -> absl::Status {
      std::string list;
      for (const std::string& k : known) {
        if (k == name) return absl::OkStatus();
        list += (list.empty() ? "" : ", ") + k;
      }
      return absl::NotFoundError("unknown " + kind + " '" + std::string(name) +
                                 "'; known: " + list);
    };
  };
  return {
      .codec = one_of("codec", {"none", "identity", "int8-b64", "int4-b64-h64"}),
      .profile = one_of("profile", {"regional", "continental-us"}),
      .schedule = [known = one_of("schedule", {"gpipe", "1f1b", "zigzag"})](std::string_view name) {
        return name == "csv" ? absl::OkStatus() : known(name);  // a file's
      }};
}

// What every arm of a small campaign shares; "rows = N" of [eval] is to follow.
inline constexpr char kArmsToml[] = R"([model]
kind = "gpt"
blocks = 8
width = 64
heads = 4
context = 128
vocab = 256
[data]
source = "headers"
[train]
batch_rows = 16
microbatches = 4
lr = 3e-3
[schedule]
kind = "1f1b"
[net]
transport = "loopback"
[eval]
)";

inline constexpr char kRunToml[] = R"(seed = 1
[model]
kind = "gpt"
blocks = 8
width = 64
heads = 4
context = 128
vocab = 256
[data]
source = "headers"
[train]
tokens = 400000
batch_rows = 16
microbatches = 4
lr = 3e-3
[schedule]
kind = "1f1b"
stages = 2
[boundary]
forward = "int4-b64-h64"
backward = "int8-b64"
[net]
transport = "ucx"
profile = "continental-us"
[eval]
rows = 64
)";

// A campaign of one arm; kArmsToml is to follow.
inline constexpr char kOneArmToml[] = R"([campaign]
name = "demo"
question = "What does a crossing cost?"
seeds = [1, 2, 3]
d0_tokens = 400_000
budgets = [0.5, 1.0]
[[arm]]
name = "s2"
stages = 2
forward = "int4-b64-h64"
backward = "int8-b64"
)";

// A run of two stages that takes its seconds from a table; [outer], [net] and [eval] are to follow.
inline std::string InjectedRunToml(const std::string& steps = "20",
                                   const std::string& forward_s = "0.5",
                                   const std::string& backward_s = "1.0") {
  return R"(seed = 1
[model]
kind = "gpt"
blocks = 8
width = 256
heads = 4
context = 64
vocab = 256
[data]
source = "headers"
[train]
batch_rows = 2
microbatches = 1
lr = 3e-3
steps = )" +
         steps + "\n[compute]\nforward_s = " + forward_s + "\nbackward_s = " + backward_s + R"(
optimizer_s = 0.25
[schedule]
kind = "1f1b"
stages = 2
[boundary]
forward = "none"
backward = "none"
)";
}

// kRunToml with `sets` laid over it.
inline absl::StatusOr<RunSpec> ReadWith(const std::vector<std::string>& sets) {
  TomlValue root = *ParseToml(kRunToml, "demo.toml");
  for (const std::string& set : sets) EXPECT_TRUE(SetByPath(root, set).ok()) << set;
  return ReadRunSpec(root, TestNames());
}

// Why that is refused.
inline std::string ErrorWith(const std::vector<std::string>& sets) {
  const absl::StatusOr<RunSpec> spec = ReadWith(sets);
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << spec.status();
  return std::string(spec.status().message());
}

}  // namespace longhaul
