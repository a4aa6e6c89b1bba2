// Published systems that the project names: each keeps its codec, algorithm or boundary method, and
// the page says which.
#include <cctype>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "compressors/catalog.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {
namespace {

using testing::HasSubstr;

struct System {
  const char* name;  // first cell of its row in docs/codecs.md
  std::vector<std::string> codecs;
  std::string outer = {};     // a name of outer.algorithm
  std::string boundary = {};  // a key of [boundary]
  std::string spec = {};      // of experiments/specs, which names one of them
};
const System kSystems[] = {
    {"COAT", {"fp8-e4m3-g16", "fp8-e5m2-g16"}},
    {"SWARM FP8", {"fp8-e4m3-g128", "dyn8-b4096"}, "swarm", "", "outer-swarm.toml"},
    {"TAH-Quant", {"tah4-g64", "tah4-g32"}},
    {"GACT", {"gact4-g256"}, "", "", "boundary-gact.toml"},
    {"Protocol Models", {}, "", "subspace", "boundary-subspace.toml"},
    {"Quartet MXFP4", {"mxfp4-h32", "mxfp4-h32+sr"}},
    {"AQ-SGD", {"aqsgd2", "aqsgd4", "aqsgd8"}, "", "", "boundary-aqsgd.toml"},
    {"EF", {"int4-b64+ef"}},
    {"EF21", {"int4-b64+ef21"}},
    {"TopK", {"topk-410of4096+fp16"}},
    {"RandK", {"randk-952of4096+int4-b64", "16x-randk"}},
    {"PowerSGD", {"powersgd-r4"}, "powersgd", "", "outer-powersgd.toml"},
    {"1-bit SGD", {"onebit-sgd"}},
    {"QSGD", {"qsgd4", "qsgd8"}},
    {"DGC", {"dgc"}, "dgc", "", "outer-dgc.toml"},
    {"INTELLECT-1 int8", {"stat8", "int8-b64"}},
    {"MuLoCo", {"stat2+ef95"}, "muloco", "", "outer-muloco.toml"},
    {"SparseLoCo", {"sparseloco"}, "sparseloco", "", "outer-sparseloco.toml"},
    {"DiLoCoX", {"diloco-x"}, "diloco-x", "", "outer-diloco-x.toml"},
    {"DeMo", {"demo-dct"}, "demo", "", "outer-demo.toml"},
};

// The row of the page's table whose first cell is `name`; "": there is none.
std::string RowOf(const std::string& name) {
  std::ifstream page(LONGHAUL_CODECS_PAGE);
  std::string line;
  while (std::getline(page, line)) {
    if (absl::StartsWith(line, "| " + name + " |")) return line;
  }
  return "";
}

class SeedSystems : public testing::TestWithParam<System> {};
INSTANTIATE_TEST_SUITE_P(All, SeedSystems, testing::ValuesIn(kSystems), [](const auto& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
});

TEST_P(SeedSystems, KeepTheirNamesAndThePageHasThem) {
  const System& system = GetParam();
  const std::string row = RowOf(system.name);
  ASSERT_NE(row, "") << LONGHAUL_CODECS_PAGE << " has no row for it";
  for (const std::string& codec : system.codecs) {
    EXPECT_TRUE(MakeCodec(codec).ok()) << codec << ": " << MakeCodec(codec).status();
    EXPECT_THAT(row, HasSubstr("`" + codec + "`"));
  }
  if (!system.outer.empty()) {
    EXPECT_NE(FindOuterRule(system.outer), nullptr) << system.outer;
    EXPECT_THAT(row, HasSubstr("outer `" + system.outer + "`"));
  }
  if (!system.boundary.empty()) {
    EXPECT_THAT(row, HasSubstr("boundary `" + system.boundary + "`"));
  }
  if (system.spec.empty()) return;
  EXPECT_THAT(row, HasSubstr("`" + system.spec + "`"));
  const std::string path = std::string(LONGHAUL_SPECS) + "/" + system.spec;
  const absl::StatusOr<RunSpec> spec = LoadRunSpec(path, {}, CatalogNames());
  ASSERT_TRUE(spec.ok()) << spec.status();
  if (!system.outer.empty()) {
    EXPECT_EQ(spec->outer.algorithm, system.outer);
  } else if (!system.boundary.empty()) {
    EXPECT_TRUE(spec->boundary.subspace.has_value());
  } else {
    EXPECT_THAT(system.codecs, testing::Contains(spec->boundary.forward));
  }
}

}  // namespace
}  // namespace longhaul
