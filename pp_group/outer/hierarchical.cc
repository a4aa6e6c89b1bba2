#include "pp_group/outer/hierarchical.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"

namespace longhaul {

absl::StatusOr<std::unique_ptr<OuterAlgorithm>> Hierarchical::Create(const OuterSpec& spec,
                                                                     OuterRank rank) {
  std::unique_ptr<Hierarchical> all(new Hierarchical);
  for (int64_t level = 0; level < 2; ++level) {
    OuterSpec own = spec;
    OuterRank place = rank;
    place.place.fragment = level;
    if (level == 1) {
      if (!spec.global_codec.empty()) own.codec = spec.global_codec;
      place.place.noise_group = rank.place.group / static_cast<int>(spec.cluster);
    }
    auto made = Diloco::Create(own, std::move(place));
    if (!made.ok()) return made.status();
    all->levels_.push_back(*std::move(made));
  }
  return all;
}

absl::Status Hierarchical::Apply(const OuterExchange& e) {
  if (absl::Status s = At(e.fragment).Apply(OfOne(e)); !s.ok()) return s;
  if (e.fragment == 1) At(0).Restart();
  return absl::OkStatus();
}

std::vector<std::pair<std::string, at::Tensor>> Hierarchical::Tensors(int64_t step) const {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (size_t level = 0; level < levels_.size(); ++level) {
    for (auto& [name, tensor] : levels_[level]->Tensors(step)) {
      tensors.emplace_back(level == 0 ? name : absl::StrCat(name, ".of_clusters"), tensor);
    }
  }
  return tensors;
}

}  // namespace longhaul
