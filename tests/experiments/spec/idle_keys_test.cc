// A key that nothing of the run looks at is refused, beside what makes it idle and beside what does not.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/spec/campaign.h"
#include "experiments/spec/known_names.h"
#include "tests/experiments/spec/specs.h"

namespace longhaul {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Sets = std::vector<std::string>;
absl::Status ReadWith(const Sets& sets) {
  const std::string file = testing::TempDir() + "/idle_keys.toml";
  std::ofstream(file) << kRunToml;
  return LoadRunSpec(file, sets, CatalogNames(), IdleKeys::kRefused).status();
}

struct Idle {
  const char *name, *key, *value;
  Sets beside;   // with these it changes nothing
  Sets used_by;  // with these in their place it does
  const char* why;
};
void PrintTo(const Idle& idle, std::ostream* out) { *out << idle.name; }

Sets Gradients(std::string algorithm, Sets more = {}) {
  more.insert(more.begin(),
              {"outer.groups=2", "outer.codec=int8-b64", "outer.algorithm=" + algorithm});
  return more;
}
const Sets kDeltas = {"outer.groups=2", "outer.codec=none", "outer.inner_steps=2"};
Sets Deltas(Sets more) {
  more.insert(more.begin(), kDeltas.begin(), kDeltas.end());
  return more;
}

class KeysThatAreIdle : public testing::TestWithParam<Idle> {};

TEST_P(KeysThatAreIdle, AreRefusedWhereNothingLooksAtThem) {
  const Idle& idle = GetParam();
  const std::string set = std::string(idle.key) + "=" + idle.value;
  EXPECT_EQ(ReadWith(idle.beside), absl::OkStatus()) << "without the key";
  Sets sets = idle.beside;
  sets.push_back(set);
  const absl::Status refused = ReadWith(sets);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(std::string("'") + idle.key + "' = "),
                    HasSubstr("would change nothing"), HasSubstr(idle.why)));
  sets = idle.used_by;
  sets.push_back(set);
  EXPECT_EQ(ReadWith(sets), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(
    Table, KeysThatAreIdle,
    testing::Values(
        Idle{"Beta1",
             "train.beta1",
             "0.5",
             {"train.optimizer=sign-sgd"},
             {"train.optimizer=sgd"},
             "no moment"},
        Idle{"Beta2",
             "train.beta2",
             "0.9",
             {"train.optimizer=sgd"},
             {"train.optimizer=muon"},
             "no second moment"},
        Idle{"Eps", "train.eps", "1e-6", {"train.optimizer=plain-sgd"}, {}, "no second moment"},
        Idle{"Clip",
             "train.clip_norm",
             "0.5",
             {"train.optimizer=plain-sgd"},
             Gradients("dgc", {"outer.codec=dgc"}),
             "clips no gradient"},
        Idle{"Depth",
             "schedule.depth",
             "4",
             {"schedule.kind=zb-h1"},
             {"schedule.kind=1f1b-deep"},
             "1f1b-deep"},
        Idle{"Mask",
             "boundary.mask_gradients",
             "true",
             {"boundary.forward=none", "boundary.backward=none"},
             {"boundary.forward=topk-409of4096+fp16", "boundary.backward=none"},
             "cross as they are"},
        Idle{"OuterRate", "outer.lr", "0.3", Gradients("dp"), kDeltas, "no outer step"},
        Idle{"OuterMomentum", "outer.momentum", "0.3", Gradients("swarm"), kDeltas,
             "no outer step"},
        Idle{"Mean", "outer.mean", "senders", Deltas({"outer.algorithm=noloco"}),
             Deltas({"outer.algorithm=sparseloco", "outer.codec=sparseloco"}), "no outer deltas"},
        Idle{"WarmUp", "outer.warmup_steps", "2", Gradients("dp", {"outer.codec=none"}),
             Gradients("dp"), "cross whole anyway"},
        Idle{"Deadline", "outer.round_deadline_s", "9", kDeltas,
             Deltas({"outer.on_group_loss=continue"}), "continue"},
        Idle{"Least", "outer.min_groups", "2", kDeltas, Deltas({"outer.on_group_loss=continue"}),
             "continue"},
        Idle{"Keep", "checkpoint.keep", "3", {}, {"checkpoint.every_steps=1"}, "every_steps is 0"}),
    [](const auto& info) { return info.param.name; });

// A default says nothing, wherever it is written.
TEST(SomeIdleKeys, MayStandWithTheirDefaults) {
  EXPECT_EQ(ReadWith({"schedule.depth=1", "checkpoint.keep=2", "outer.min_groups=1"}),
            absl::OkStatus());
  EXPECT_EQ(ReadWith(Gradients("swarm", {"outer.lr=1.0", "outer.momentum=0.0"})), absl::OkStatus());
}

// What all arms share may be idle in one of them; what an arm says itself may not.
TEST(SomeIdleKeys, OfACampaignAreAnArmsOwn) {
  const auto read = [](const std::string& shared, const std::string& own) {
    std::string base = kArmsToml;
    base.replace(base.find("[schedule]\n"), 11, "[schedule]\n" + shared);
    return ReadCampaign(*ParseToml(kOneArmToml + own + base + "rows = 1\n", "campaign.toml"),
                        CatalogNames())
        .status();
  };
  EXPECT_EQ(read("depth = 4\n", ""), absl::OkStatus());
  EXPECT_EQ(read("", "schedule.kind = \"1f1b-deep\"\nschedule.depth = 4\n"), absl::OkStatus());
  EXPECT_THAT(std::string(read("", "schedule.depth = 4\n").message()),
              AllOf(HasSubstr("'schedule.depth' = 4"), HasSubstr("or take 1, its default")));
}

}  // namespace
}  // namespace longhaul
