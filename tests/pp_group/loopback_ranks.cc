#include "tests/pp_group/loopback_ranks.h"

#include <ATen/Parallel.h>

#include "experiments/train/boundary_state.h"
#include "gtest/gtest.h"
#include "tests/backend/local_groups.h"

namespace longhaul {

std::vector<LocalRank> LoopbackRanks(const TrainSpec& spec, const CodecPolicy& codecs, int slots) {
  const auto nodes = MakeLoopbackNodes(spec.stages * spec.groups);
  const auto group_of = [&](const std::string& name, int first, int stride, int size,
                            const CodecPolicy& policy) {
    std::vector<std::shared_ptr<Node>> members;
    for (int i = 0; i < size; ++i) members.push_back(nodes[first + i * stride]);
    auto options = c10::make_intrusive<ProcessGroupLonghaul::Options>();
    options->group_name = name;
    options->codecs = policy;
    options->seed = spec.seed;
    options->ef_slots = slots;
    return MakeLocalGroup(members, *options);
  };
  std::vector<LocalRank> ranks;
  for (int g = 0; g < spec.groups; ++g) {
    const int first = g * spec.stages;
    const auto boundary = group_of("boundary" + std::to_string(g), first, 1, spec.stages, codecs);
    const auto plain = group_of("plain" + std::to_string(g), first, 1, spec.stages, {});
    for (int s = 0; s < spec.stages; ++s) {
      ranks.push_back({g, s, boundary[s], plain[s], nullptr, StateOfGroup(boundary[s])});
    }
    if (!spec.model.tied_head || spec.stages == 1) continue;
    const auto tied = group_of("tied" + std::to_string(g), first, spec.stages - 1, 2, {});
    ranks[first].tied = tied[0];
    ranks.back().tied = tied[1];
  }
  for (int s = 0; s < spec.stages && spec.groups > 1; ++s) {
    const auto peers = group_of("outer" + std::to_string(s), s, spec.stages, spec.groups, {});
    const auto experts = group_of("experts" + std::to_string(s), s, spec.stages, spec.groups, {});
    for (int g = 0; g < spec.groups; ++g) {
      ranks[g * spec.stages + s].outer = peers[g];
      ranks[g * spec.stages + s].experts = experts[g];
    }
  }
  return ranks;
}

History RunOver(const TrainSpec& spec, std::vector<LocalRank> ranks) {
  at::set_num_threads(1);
  History history;
  auto trainer = Trainer::Create(spec, std::move(ranks), SmallCorpus(), TestClock);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  if (trainer.ok()) RunSteps(**trainer, spec.steps, &history);
  return history;
}

}  // namespace longhaul
