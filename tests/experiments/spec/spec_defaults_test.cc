// What a spec that leaves keys out says, by hand: every default, and the figures that follow from
// the length of a run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

// Steps of 16 x 128 = 2,048 tokens: half a step more is one step more.
TEST(SpecDefaults, TokensAreRoundedToTheNearestStepAndAtLeastOne) {
  const auto steps = [](int64_t tokens) {
    return Steps(*ReadWith({fmt::format("train.tokens={}", tokens)}));
  };
  EXPECT_EQ(steps(1), 1);
  EXPECT_EQ(steps(2 * 2048 + 1023), 2);
  EXPECT_EQ(steps(2 * 2048 + 1024), 3);
}

// 5 % of the steps, rounded up: of 195 that is 9.75, of 100 it is 5.
TEST(SpecDefaults, WarmUpIsATwentiethOfTheStepsRoundedUp) {
  EXPECT_EQ(*ReadWith({})->train.warmup_steps, 10);
  EXPECT_EQ(*ReadWith({"train.tokens=204800"})->train.warmup_steps, 5);
  EXPECT_EQ(*ReadWith({"train.tokens=206848"})->train.warmup_steps, 6) << "101 steps";
}

TEST(SpecDefaults, EveryKeyIsPrintedWithItsDefaultByHand) {
  EXPECT_EQ(ToToml(*ReadWith({})), R"(seed = 1

[model]
kind = "gpt"
blocks = 8
width = 64
heads = 4
context = 128
vocab = 256
engine = "auto"
kv_heads = 0
hidden = 0
tied_head = false
rope_theta = 10000.0
experts = 8
capacity_factor = 0.0
balance_loss = 0.01
expert_parallel = 1

[data]
source = "headers"

[train]
tokens = 400000
batch_rows = 16
microbatches = 4
lr = 0.003
min_lr_fraction = 0.1
warmup_steps = 10
beta1 = 0.9
beta2 = 0.95
eps = 1e-08
weight_decay = 0.1
clip_norm = 1.0
device = "cpu"
dtype = "float32"
recompute = false
attention = "math"

[schedule]
kind = "1f1b"
stages = 2
chunks = 1
depth = 1

[boundary]
forward = "int4-b64-h64"
backward = "int8-b64"
nmse_every = 16
mask_gradients = false

[outer]
groups = 1
algorithm = "diloco"
inner_steps = 0
lr = 0.7
momentum = 0.9
codec = "none"
on_group_loss = "end"
round_deadline_s = 120.0
joiner_source = "member"
joiner_up_mbit = inf
min_groups = 1

[net]
transport = "ucx"
profile = "continental-us"
emulator = "auto"
congestion_control = "system"
slow_start_after_idle = true
peer_deadline_s = 30.0
out_of_bounds = "stop"

[eval]
rows = 64

[checkpoint]
every_steps = 0
keep = 2

[limits]
threads = 1
)");
}

}  // namespace
}  // namespace longhaul
