#include "experiments/train/coded_on.h"

#include <set>

#include <fmt/format.h>

#include "compressors/cuda/cuda_codec.h"
#include "experiments/train/traffic.h"

namespace longhaul {
namespace {

bool OnGpu(const RunSpec& spec) { return !spec.injected() && spec.train.device != "cpu"; }

// Of all boundaries and of the policy, ascending.
std::set<std::string> BoundaryCodecs(const RunSpec& spec) {
  std::set<std::string> names;
  if (spec.boundary.policy) {
    names.insert(spec.boundary.policy->forward.begin(), spec.boundary.policy->forward.end());
    names.insert(spec.boundary.policy->backward.begin(), spec.boundary.policy->backward.end());
  }
  const auto crossings = PlanCrossings(spec);
  for (size_t i = 0; crossings.ok() && i < crossings->size(); ++i) {
    const PlannedCrossing& c = (*crossings)[i];
    const bool boundary = c.direction == Direction::kForward || c.direction == Direction::kBackward;
    if (boundary) names.insert(c.codec);
  }
  names.erase("none");
  return names;
}

std::set<std::string> OnHost(const RunSpec& spec) {
  std::set<std::string> names = BoundaryCodecs(spec);
  constexpr DeviceApi kNone = {};  // a name needs no device
  if (OnGpu(spec) && DeviceCodecsAreBuilt()) {
    std::erase_if(names, [&](const std::string& n) { return MakeDeviceCodec(n, kNone).ok(); });
  }
  return names;
}

}  // namespace

std::string CodedOn(const RunSpec& spec) {
  const size_t all = BoundaryCodecs(spec).size();
  if (all == 0) return "";
  const std::set<std::string> host = OnHost(spec);
  if (host.size() == all) return "host";
  return host.empty() ? "device" : fmt::format("device; host: {}", fmt::join(host, ", "));
}

std::vector<std::string> CodedOnAdvice(const RunSpec& spec) {
  if (!OnGpu(spec)) return {};
  const std::set<std::string> host = OnHost(spec);
  if (host.empty()) return {};
  return {fmt::format(
      "note: train.device = \"{}\", but the host codes boundary tensors ({}), while the GPU waits: {}",
      spec.train.device, fmt::join(host, ", "),
      DeviceCodecsAreBuilt()
          ? "these codecs have no GPU kernels; `longhaul codecs` names others"
          : "this build has no GPU kernels; build with -DLONGHAUL_CUDA=ON (docs/cuda.md)")};
}

}  // namespace longhaul
