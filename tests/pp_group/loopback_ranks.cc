#include "tests/pp_group/loopback_ranks.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "experiments/train/boundary_state.h"
#include "gtest/gtest.h"
#include "pp_group/train_spec.h"
#include "tests/backend/local_groups.h"

namespace longhaul {

std::vector<LocalRank> LoopbackRanks(const TrainSpec& spec, const CodecPolicy& codecs, int slots) {
  const std::vector<int> rank_of_stage = RanksOfStages(spec);
  const int count = spec.stages / spec.chunks;
  const auto nodes = MakeLoopbackNodes(count * spec.groups);
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
    const int first = g * count;
    const auto boundary = group_of("boundary" + std::to_string(g), first, 1, count, codecs);
    const auto plain = group_of("plain" + std::to_string(g), first, 1, count, {});
    for (int s = 0; s < spec.stages; ++s) {
      const int r = rank_of_stage[s];
      const bool lowest =
          std::find(rank_of_stage.begin(), rank_of_stage.end(), r) == rank_of_stage.begin() + s;
      ranks.push_back(
          {g, s, boundary[r], plain[r], nullptr, lowest ? StateOfGroup(boundary[r]) : nullptr});
    }
    const int ends = rank_of_stage.back() - rank_of_stage.front();
    if (!spec.model.tied_head || ends == 0) continue;
    const auto tied = group_of("tied" + std::to_string(g), first, ends, 2, {});
    ranks[static_cast<size_t>(g * spec.stages)].tied = tied[0];
    ranks.back().tied = tied[1];
  }
  for (int s = 0; s < spec.stages && spec.groups > 1; ++s) {
    const int r = rank_of_stage[s];
    const auto peers = group_of("outer" + std::to_string(s), r, count, spec.groups, {});
    const auto experts = group_of("experts" + std::to_string(s), r, count, spec.groups, {});
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
