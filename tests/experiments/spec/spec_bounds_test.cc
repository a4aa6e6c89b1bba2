// What each key of a run spec may be at least and at most, written down here by hand: both ends are
// taken and reach their field, the next number beyond either is refused and told the range.
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/spec_keys.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
using Sets = std::vector<std::string>;  // "model.kind=moe"; "-train.tokens" takes a key out

template <typename T>
struct Ends {
  T least, most;
};
struct Texts {  // any line of 1 to so many bytes
  size_t most_bytes;
};
// A name that stands for all of its form, the last of its list.
constexpr std::string_view kOfAFile = "python:mine.py:Mine";

struct Names {  // these and no other
  std::vector<std::string> all;
  std::map<std::string, Sets> with = {};  // of a name, in place of the bound's
};
struct Switch {};

template <typename T>
using Field = std::function<T(const RunSpec&)>;
struct Bound {
  std::variant<Ends<int64_t>, Ends<double>, Texts, Names, Switch> may;
  std::variant<Field<int64_t>, Field<double>, Field<std::string>, Field<bool>> field;
  Sets with = {};  // so that nothing else refuses what the key's own bounds take
};

Bound Int(int64_t least, int64_t most, Field<int64_t> field, Sets with = {}) {
  return {Ends<int64_t>{least, most}, std::move(field), std::move(with)};
}
Bound Num(double least, double most, Field<double> field, Sets with = {}) {
  return {Ends<double>{least, most}, std::move(field), std::move(with)};
}
Bound Text(size_t most_bytes, Field<std::string> field, Sets with = {}) {
  return {Texts{most_bytes}, std::move(field), std::move(with)};
}
Bound OneOf(std::vector<std::string> names, Field<std::string> field, Sets with = {}) {
  return {Names{std::move(names), {}}, std::move(field), std::move(with)};
}
Bound Flag(Field<bool> field, Sets with = {}) { return {Switch{}, std::move(field), with}; }

Sets Plus(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Sets kLlama = {"model.kind=llama"}, kMoe = {"model.kind=moe"};
const Sets kOneStage = {"schedule.stages=1"};
const Sets kRounds = {"outer.inner_steps=4", "outer.codec=none", "schedule.stages=1"};
const Sets kElastic = Plus(kRounds, {"outer.on_group_loss=continue"});
const Sets kLevels = {"outer.algorithm=hierarchical",
                      "outer.inner_steps=4",
                      "outer.codec=none",
                      "outer.groups=1024",
                      "schedule.stages=1",
                      "outer.cluster_groups=1",
                      "outer.global_every=1"};
const Sets kSwarm = Plus(kElastic, {"outer.joiner_source=swarm"});
const Sets kSpread =
    Plus(kMoe, {"model.experts=1024", "outer.groups=1024", "outer.algorithm=dp", "outer.codec=none",
                "schedule.stages=1", "net.transport=loopback"});
const Sets kBySteps = {"-train.tokens", "train.batch_rows=4"};

#define OF(name) [](const RunSpec& s) { return s.name; }
const std::map<std::string, Bound> kBounds = {
    {"seed", Int(0, kLargest, OF(seed))},

    {"model.kind", OneOf({"gpt", "llama", "moe"}, OF(model.kind))},
    {"model.blocks", Int(1, 1024, OF(model.blocks), kOneStage)},
    {"model.width", Int(1, 65536, OF(model.width), {"model.heads=1"})},
    {"model.heads", Int(1, 1024, OF(model.heads), {"model.width=1024"})},
    {"model.context", Int(1, 1048576, OF(model.context))},
    {"model.vocab", Int(2, 4194304, OF(model.vocab), {"data.source=tokens:x"})},
    {"model.engine", OneOf({"auto", "cpu", "aten"}, OF(model.engine))},
    {"model.kv_heads",
     Int(0, 1024, OF(model.kv_heads), Plus(kLlama, {"model.heads=1024", "model.width=1024"}))},
    {"model.hidden", Int(0, 1048576, OF(model.hidden), kLlama)},
    {"model.tied_head", Flag(OF(model.tied_head), kLlama)},
    {"model.rope_theta", Num(1.001, 1e12, OF(model.rope_theta), kLlama)},
    {"model.experts", Int(2, 1024, OF(model.experts), kMoe)},
    {"model.capacity_factor", Num(0, 1024, OF(model.capacity_factor), kMoe)},
    {"model.balance_loss", Num(0, 1024, OF(model.balance_loss), kMoe)},
    {"model.expert_parallel", Int(1, 1024, OF(model.expert_parallel), kSpread)},
    {"model.init", Text(1024, OF(model.init))},
    {"model.save", Text(1024, OF(model.save))},

    {"data.source", Text(1024, OF(data.source))},
    {"data.eval", Text(1024, OF(data.eval))},

    {"train.tokens", Int(1, 1'000'000'000'000'000, [](const RunSpec& s) { return *s.train.tokens; },
                         {"model.context=64", "train.batch_rows=4"})},
    {"train.steps",
     Int(
         1, 1'000'000'000, [](const RunSpec& s) { return *s.train.steps; }, kBySteps)},
    {"train.batch_rows", Int(1, 1048576, OF(train.batch_rows), {"train.microbatches=1"})},
    {"train.microbatches", Int(1, 65536, OF(train.microbatches), {"train.batch_rows=65536"})},
    {"train.lr", Num(1e-30, 1e30, OF(train.lr))},
    {"train.schedule", OneOf({"cosine", "wsd"}, OF(train.schedule))},
    {"train.decay_share", Num(1e-30, 1, [](const RunSpec& s) { return *s.train.decay_share; },
                              {"train.schedule=wsd", "train.warmup_steps=0"})},
    {"train.min_lr_fraction", Num(0, 1, OF(train.min_lr_fraction))},
    {"train.warmup_steps",
     Int(
         0, 1'000'000'000, [](const RunSpec& s) { return *s.train.warmup_steps; },
         Plus(kBySteps, {"train.steps=1000000000"}))},
    {"train.optimizer",
     OneOf({"adamw", "muon", "nadam", "onebit-adam", "plain-sgd", "sgd", "sign-sgd"},
           OF(train.optimizer))},
    {"train.beta1", Num(0, 0.999999, OF(train.beta1))},
    {"train.beta2", Num(0, 0.999999, OF(train.beta2))},
    {"train.eps", Num(1e-30, 1, OF(train.eps))},
    {"train.weight_decay", Num(0, 1e30, OF(train.weight_decay))},
    {"train.clip_norm", Num(1e-30, kInf, OF(train.clip_norm))},
    {"train.device", Text(64, OF(train.device))},
    {"train.dtype", OneOf({"float32", "bfloat16"}, OF(train.dtype))},
    {"train.recompute", Flag(OF(train.recompute))},
    {"train.hash_every",
     Int(0, 1'000'000'000, [](const RunSpec& s) { return *s.train.hash_every; })},
    {"train.attention", OneOf({"math", "fused"}, OF(train.attention), {"train.device=cuda"})},

    {"schedule.kind", OneOf({"gpipe", "1f1b", "zigzag"}, OF(schedule.kind))},
    {"schedule.stages", Int(1, 1024, OF(schedule.stages), {"model.blocks=1024"})},
    {"schedule.chunks", Int(1, 64, OF(schedule.chunks),
                            {"schedule.kind=zigzag", "schedule.stages=64", "model.blocks=64"})},
    {"schedule.depth", Int(0, 65536, OF(schedule.depth))},
    {"schedule.csv", Text(1024, OF(schedule.csv), {"schedule.kind=csv"})},
    // Of one value; how many there may be is CutsAreAsManyAsStagesButOne.
    {"schedule.cuts",
     Int(1, 1023, [](const RunSpec& s) { return s.schedule.cuts.at(0); }, {"model.blocks=1024"})},

    {"boundary.forward",
     OneOf({"none", "identity", "int8-b64", "int4-b64-h64"}, OF(boundary.forward))},
    {"boundary.backward",
     OneOf({"none", "identity", "int8-b64", "int4-b64-h64"}, OF(boundary.backward))},
    {"boundary.warmup_steps",
     Int(
         0, 999'999'999, [](const RunSpec& s) { return *s.boundary.warmup_steps; },
         Plus(kBySteps, {"train.steps=1000000000"}))},
    {"boundary.subspace", Int(1, 65536, [](const RunSpec& s) { return *s.boundary.subspace; },
                              {"model.heads=1", "model.width=65536"})},
    {"boundary.nmse_every", Int(0, 1'000'000, OF(boundary.nmse_every))},
    {"boundary.mask_gradients", Flag(OF(boundary.mask_gradients))},
    {"boundary.capture", Text(1024, OF(boundary.capture))},

    {"outer.groups", Int(1, 1024, OF(outer.groups), kRounds)},
    {"outer.algorithm",
     {Names{{"diloco", "streaming", "diloco-x", "eager", "muloco", "sparseloco", "noloco",
             "hierarchical", "dp", "powersgd", "dgc", "onebit-adam", "demo", "swarm",
             std::string(kOfAFile)},
            {{"dgc", {}}, {"onebit-adam", {"outer.warmup_steps=1"}}}},
      Field<std::string>(OF(outer.algorithm)),
      {"outer.codec=none"}}},
    {"outer.inner_steps", Int(0, 1'000'000'000, OF(outer.inner_steps), {"outer.codec=none"})},
    {"outer.lr", Num(1e-30, 1e30, OF(outer.lr))},
    {"outer.momentum", Num(0, 0.999999, OF(outer.momentum))},
    {"outer.codec", OneOf({"none", "identity", "int8-b64", "int4-b64-h64"}, OF(outer.codec))},
    {"outer.fragments", Int(1, 1024, [](const RunSpec& s) { return *s.outer.fragments; },
                            {"outer.algorithm=streaming", "outer.inner_steps=1024",
                             "outer.codec=none", "model.blocks=1024"})},
    {"outer.overlap_steps",
     Int(0, 1'000'000'000, [](const RunSpec& s) { return *s.outer.overlap_steps; },
         {"outer.algorithm=streaming", "outer.inner_steps=1000000000", "outer.codec=none"})},
    {"outer.mix", Num(0, 1, [](const RunSpec& s) { return *s.outer.mix; },
                      {"outer.algorithm=streaming", "outer.codec=none"})},
    {"outer.mean", OneOf({"all", "senders"}, OF(outer.mean))},
    {"outer.cluster_groups",
     Int(
         1, 1024, [](const RunSpec& s) { return *s.outer.cluster_groups; }, kLevels)},
    {"outer.global_every",
     Int(
         1, 1'000'000'000, [](const RunSpec& s) { return *s.outer.global_every; }, kLevels)},
    {"outer.global_codec",
     OneOf({"none", "identity", "int8-b64", "int4-b64-h64"}, OF(outer.global_codec), kLevels)},
    {"outer.warmup_steps",
     Int(
         0, 1'000'000'000, [](const RunSpec& s) { return *s.outer.warmup_steps; },
         Plus(kBySteps, {"outer.algorithm=dp", "outer.codec=none", "train.steps=1000000000"}))},
    {"outer.lr_schedule", OneOf({"constant", "linear", "cosine"}, OF(outer.lr_schedule))},
    {"outer.lr_warmup_rounds",
     Int(
         0, 1'000'000'000, [](const RunSpec& s) { return *s.outer.lr_warmup_rounds; },
         Plus(kBySteps, {"outer.inner_steps=1", "outer.codec=none", "train.steps=1000000000"}))},
    {"outer.on_group_loss", OneOf({"end", "continue"}, OF(outer.on_group_loss), kRounds)},
    {"outer.round_deadline_s", Num(0.1, 86400, OF(outer.round_deadline_s))},
    {"outer.joiner_source", OneOf({"member", "swarm"}, OF(outer.joiner_source), kElastic)},
    {"outer.joiner_up_mbit", Num(0.3, kInf, OF(outer.joiner_up_mbit), kSwarm)},
    {"outer.min_groups", Int(1, 1024, OF(outer.min_groups), Plus(kRounds, {"outer.groups=1024"}))},

    {"net.transport", OneOf({"loopback", "ucx"}, OF(net.transport))},
    {"net.profile", OneOf({"regional", "continental-us"}, OF(net.profile))},
    {"net.emulator", OneOf({"auto", "netem", "tap"}, OF(net.emulator))},
    {"net.congestion_control", Text(64, OF(net.congestion_control))},
    {"net.slow_start_after_idle", Flag(OF(net.slow_start_after_idle))},
    {"net.clock", OneOf({"simulated"}, OF(net.clock),
                        {"net.transport=loopback", "compute.forward_s=1", "compute.backward_s=1"})},
    {"net.peer_deadline_s", Num(0.1, 86400, OF(net.peer_deadline_s))},
    {"net.out_of_bounds", OneOf({"stop", "flag"}, OF(net.out_of_bounds))},

    {"eval.rows", Int(1, 1'000'000'000, OF(eval.rows))},

    {"checkpoint.every_steps", Int(0, 1'000'000'000, OF(checkpoint.every_steps))},
    {"checkpoint.keep", Int(2, 1'000'000, OF(checkpoint.keep))},
    {"checkpoint.from", Text(1024, OF(checkpoint.from))},

    {"limits.threads", Int(1, 256, OF(limits.threads))},
};
#undef OF

// The names of kBounds that a list takes one of.
bool IsList(const std::string& key) { return key == "schedule.cuts"; }

absl::StatusOr<RunSpec> With(const std::string& key, const Bound& bound, TomlValue value) {
  TomlValue root = *ParseToml(kRunToml, "demo.toml");
  for (const std::string& set : bound.with) {
    if (set.starts_with('-')) {
      Erase(root, set.substr(1));
    } else {
      EXPECT_TRUE(SetByPath(root, set).ok()) << set;
    }
  }
  if (IsList(key)) value = TomlValue{TomlValue::Array{std::move(value)}, "demo.toml:1"};
  EXPECT_TRUE(SetByPath(root, key, std::move(value)).ok()) << key;
  return ReadRunSpec(root, TestNames());
}

template <typename T>
absl::StatusOr<RunSpec> With(const std::string& key, const Bound& bound, T value) {
  return With(key, bound, TomlValue{std::move(value), "demo.toml:1"});
}

// A value that is taken stands in the field afterwards; `given`: as a message would show it.
template <typename T>
void ExpectTaken(const std::string& key, const Bound& bound, T value) {
  const absl::StatusOr<RunSpec> spec = With(key, bound, value);
  ASSERT_TRUE(spec.ok()) << key << " = " << value << ": " << spec.status();
  EXPECT_EQ(std::get<Field<T>>(bound.field)(*spec), value) << key;
}

template <typename T>
void ExpectRefused(const std::string& key, const Bound& bound, T value, const std::string& why) {
  const absl::StatusOr<RunSpec> spec = With(key, bound, value);
  ASSERT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << key << " = " << value;
  const std::string told = fmt::format("demo.toml:1: '{}' is {}", key, why);
  EXPECT_THAT(std::string(spec.status().message()), HasSubstr(told));
}

void Check(const std::string& key, const Bound& bound, const Ends<int64_t>& ends) {
  ExpectTaken(key, bound, ends.least);
  ExpectTaken(key, bound, ends.most);
  const std::string range = ends.most == kLargest ? fmt::format("{} or more", ends.least)
                                                  : fmt::format("{} to {}", ends.least, ends.most);
  ExpectRefused(key, bound, ends.least - 1, fmt::format("{}; want {}", ends.least - 1, range));
  if (ends.most == kLargest) return;
  ExpectRefused(key, bound, ends.most + 1, fmt::format("{}; want {}", ends.most + 1, range));
}

void Check(const std::string& key, const Bound& bound, const Ends<double>& ends) {
  ExpectTaken(key, bound, ends.least);
  ExpectTaken(key, bound, ends.most);
  const std::string range = fmt::format("; want {} to {}", ends.least, ends.most);
  const double below = std::nextafter(ends.least, -kInf), above = std::nextafter(ends.most, kInf);
  ExpectRefused(key, bound, below, fmt::format("{}{}", below, range));
  if (ends.most < kInf) ExpectRefused(key, bound, above, fmt::format("{}{}", above, range));
  ExpectRefused(key, bound, std::nan(""), "nan" + range);
}

void Check(const std::string& key, const Bound& bound, const Texts& texts) {
  // Where a file's place has a kind ahead, so has this.
  const std::string ahead = key.starts_with("data.") ? "text:" : "";
  const std::string longest = ahead + std::string(texts.most_bytes - ahead.size(), 'x');
  ExpectTaken(key, bound, ahead + "x");
  ExpectTaken(key, bound, longest);
  const auto refused = [&](const std::string& text) {
    const absl::StatusOr<RunSpec> spec = With(key, bound, text);
    EXPECT_THAT(std::string(spec.status().message()),
                HasSubstr(fmt::format("of {} bytes; want 1 to {} without control characters",
                                      text.size(), texts.most_bytes)))
        << key;
  };
  refused("");
  refused(longest + "x");
  refused(ahead + "\x1f");
  refused(ahead + "\x7f");
  ExpectTaken(key, bound, ahead + " ~");  // the printable ones next to them
}

void Check(const std::string& key, const Bound& bound, const Names& names) {
  for (const std::string& name : names.all) {
    Bound own = bound;
    if (const auto at = names.with.find(name); at != names.with.end()) own.with = at->second;
    ExpectTaken(key, own, name);
  }
  const absl::Status status = With(key, bound, std::string("nothing")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << key;
  EXPECT_THAT(std::string(status.message()), testing::EndsWith("known: " + [&] {
                std::string list;
                for (const std::string& name : names.all) list += (list.empty() ? "" : ", ") + name;
                if (list.ends_with(kOfAFile)) {
                  list.replace(list.size() - kOfAFile.size(), kOfAFile.size(), "python:FILE:CLASS");
                }
                return list;
              }()));
}

void Check(const std::string& key, const Bound& bound, const Switch&) {
  ExpectTaken(key, bound, true);
  ExpectTaken(key, bound, false);
}

TEST(SpecBounds, EveryKeyHasItsBoundsHereAndNoOther) {
  std::set<std::string> keys;
  for (const SpecKey& key : SpecKeys()) {
    keys.insert(key.table.empty() ? std::string(key.name)
                                  : fmt::format("{}.{}", key.table, key.name));
  }
  for (const std::string& key : keys) {
    EXPECT_TRUE(kBounds.contains(key)) << "a new key: write its bounds here, by hand: " << key;
  }
  for (const auto& [key, bound] : kBounds) EXPECT_TRUE(keys.contains(key)) << "is gone: " << key;
}

TEST(SpecBounds, EachEndIsTakenAndTheNextValueBeyondItIsRefused) {
  for (const auto& [key, bound] : kBounds) {
    std::visit([&, k = key, &b = bound](const auto& may) { Check(k, b, may); }, bound.may);
  }
}

// 0 for a list of one would be out of the range of each: here it is how many.
TEST(SpecBounds, CutsAreAsManyAsStagesButOne) {
  const auto cut_at = [](const char* cuts, const char* stages = "3") {
    const absl::StatusOr<RunSpec> spec =
        ReadWith({std::string("schedule.stages=") + stages, std::string("schedule.cuts=") + cuts});
    return std::string(spec.status().message());
  };
  EXPECT_EQ(cut_at("[1, 7]"), "") << "blocks 0, 1 to 6 and 7";
  EXPECT_EQ(cut_at("[3, 4]"), "") << "a stage of one block";
  EXPECT_THAT(std::string(cut_at("[1, 8]")), HasSubstr("want ascending numbers of blocks from 1"));
  EXPECT_THAT(std::string(cut_at("[4, 4]")), HasSubstr("want ascending numbers of blocks from 1"));
  EXPECT_THAT(std::string(cut_at("[5, 4]")), HasSubstr("want ascending numbers of blocks from 1"));
  EXPECT_THAT(std::string(cut_at("[4]")), HasSubstr("has 1 values; want 2"));
  EXPECT_THAT(std::string(cut_at("[1, 2, 3]")), HasSubstr("has 3 values; want 2"));
}

TEST(SpecBounds, ProductsReachTheirBoundAndNoFurther) {
  const Sets rounds = {"outer.inner_steps=1", "outer.codec=none", "model.blocks=1024"};
  EXPECT_TRUE(ReadWith(Plus(rounds, {"schedule.stages=32", "outer.groups=32"})).ok());
  EXPECT_THAT(ErrorWith(Plus(rounds, {"schedule.stages=32", "outer.groups=33"})),
              HasSubstr("want a product of at most 1024 ranks"));
  const Sets wide = {"model.blocks=1024", "train.batch_rows=65536"};
  EXPECT_TRUE(ReadWith(Plus(wide, {"schedule.stages=64", "train.microbatches=16384"})).ok());
  EXPECT_THAT(ErrorWith(Plus(wide, {"schedule.stages=128", "train.microbatches=16384"})),
              HasSubstr("want a product of at most 1048576"));
  // 1e9 steps of 1e6 tokens are 1e15; one row more in each is more.
  const auto tokens = [](const char* rows) {
    TomlValue root = *ParseToml(kRunToml, "demo.toml");
    Erase(root, "train.tokens");
    for (const std::string& set :
         Sets{"train.steps=1000000000", "train.microbatches=1", "model.context=1000",
              std::string("train.batch_rows=") + rows}) {
      EXPECT_TRUE(SetByPath(root, set).ok());
    }
    return ReadRunSpec(root, TestNames()).status();
  };
  EXPECT_TRUE(tokens("1000").ok()) << tokens("1000");
  EXPECT_THAT(std::string(tokens("1001").message()), HasSubstr("want at most 1000000000000000"));
}

TEST(SpecBounds, BytesNeedAVocabularyOf256) {
  EXPECT_TRUE(ReadWith({"model.vocab=256"}).ok());
  EXPECT_THAT(ErrorWith({"model.vocab=255"}), HasSubstr("needs model.vocab >= 256, not 255"));
}

}  // namespace
}  // namespace longhaul
