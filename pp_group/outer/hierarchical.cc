#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/outer/diloco.h"

namespace longhaul {
namespace {

// DiLoCo in levels: the groups of a cluster take an outer step together after every round, and after
// some of them, right behind it, the clusters do, over what they have moved since they last met. Each
// level has its own start, momentum and codec. Groups of a cluster are equal when clusters meet: group
// g meets those with its place in the other clusters, and all that encode one value for their cluster
// draw the same noise, so that clusters stay equal within.
class Hierarchical : public OuterAlgorithm {
 public:
  static absl::StatusOr<std::unique_ptr<OuterAlgorithm>> Create(const OuterSpec& spec,
                                                                OuterRank rank) {
    std::unique_ptr<Hierarchical> all(new Hierarchical);
    for (int64_t level = 0; level < 2; ++level) {
      OuterSpec own = spec;
      OuterRank place = rank;
      place.place.fragment = level;
      if (level == 1) {
        if (!spec.global_codec.empty()) own.codec = spec.global_codec;
        place.place.noise_group =
            rank.place.group / static_cast<int>(spec.cluster_groups.value_or(1));
      }
      ASSIGN_OR_RETURN(auto made, Diloco::Create(own, std::move(place)));
      all->levels_.push_back(std::move(made));
    }
    return all;
  }

  absl::Status Encode(const OuterExchange& e) override { return At(e.fragment).Encode(OfOne(e)); }
  absl::StatusOr<std::vector<double>> SquaredNorms(int64_t level) override {
    return At(level).SquaredNorms(0);
  }
  absl::Status Average(int64_t level, const std::vector<bool>& left_out) override {
    return At(level).Average(0, left_out);
  }
  absl::Status Apply(const OuterExchange& e) override {
    RETURN_IF_ERROR(At(e.fragment).Apply(OfOne(e)));
    if (e.fragment == 1) At(0).Restart();
    return absl::OkStatus();
  }

  GroupAverage& exchange(int64_t level = 0) override { return At(level).exchange(); }
  int64_t fragments() const override { return 2; }
  std::vector<bool> left_out(int64_t level) const override {
    return levels_[static_cast<size_t>(level)]->left_out(0);
  }
  std::vector<std::pair<std::string, at::Tensor>> Tensors(int64_t step) const override {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    for (size_t level = 0; level < levels_.size(); ++level) {
      for (auto& [name, tensor] : levels_[level]->Tensors(step)) {
        tensors.emplace_back(level == 0 ? name : absl::StrCat(name, ".of_clusters"), tensor);
      }
    }
    return tensors;
  }

 private:
  static OuterExchange OfOne(OuterExchange e) {
    e.fragment = 0;
    return e;
  }
  Diloco& At(int64_t level) { return *levels_[static_cast<size_t>(level)]; }

  std::vector<std::unique_ptr<Diloco>> levels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OuterAlgorithm>> NewHierarchical(const OuterSpec& spec,
                                                                OuterRank rank) {
  return Hierarchical::Create(spec, std::move(rank));
}

}  // namespace longhaul
