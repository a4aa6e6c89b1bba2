#include "experiments/train/codec_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "experiments/train/traffic.h"
#include "netem/topology/topology_file.h"
#include "plugin/core/coding.h"

namespace longhaul {
namespace {

constexpr char kChoiceTable[] = "boundary.policy";

// Sums in the order of the elements, in double: the same on every host.
double RootMeanSquare(ConstTensor x) {
  const auto* values = static_cast<const float*>(x.values);
  double sum = 0;
  const uint64_t n = x.shape.elements();
  for (uint64_t i = 0; i < n; ++i) sum += double{values[i]} * values[i];
  return std::sqrt(sum / static_cast<double>(n));
}

}  // namespace

absl::StatusOr<CodecChoice::List> CodecChoice::Make(const RunSpec& spec, const char* key,
                                                    const std::vector<std::string>& names) {
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("'{}.{}' {}", kChoiceTable, key, why));
  };
  const Shape shape = BoundaryShape(spec);
  const DType dtype = spec.train.dtype == "bfloat16" ? DType::kBF16 : DType::kF32;
  List list;
  for (const std::string& name : names) {
    Choice choice{.name = name, .codec = nullptr, .message_bytes = 0};
    if (name != "none") {
      ASSIGN_OR_RETURN(std::shared_ptr<const Codec> codec, MakeCodec(name));
      if (codec->NewState({1, 1}) != nullptr) {
        return refuse(
            fmt::format("has '{}', which keeps a state from tensor to tensor; want codecs "
                        "without (no +ef, +ef21, +mc, aqsgd)",
                        name));
      }
      choice.codec = std::move(codec);
    }
    const std::optional<double> bytes = MessageBytes(name, shape, dtype);
    if (!bytes) {
      return refuse(
          fmt::format("has '{}', which takes no tensor of {} x {}", name, shape.rows, shape.cols));
    }
    choice.message_bytes = *bytes;
    if (!list.empty() && list.back().message_bytes >= *bytes) {
      return refuse(
          fmt::format("has '{}' of {:.0f} bytes a message before '{}' of {:.0f}; want the "
                      "coarsest first, each with more bytes than the one before",
                      list.back().name, list.back().message_bytes, name, *bytes));
    }
    list.push_back(std::move(choice));
  }
  return list;
}

absl::StatusOr<CodecChoice> CodecChoice::Of(const RunSpec& spec) {
  CodecChoice choice;
  choice.policy_ = *spec.boundary.policy;
  for (const auto& [key, names, list] :
       {std::tuple("forward", &choice.policy_.forward, &choice.forward_),
        std::tuple("backward", &choice.policy_.backward, &choice.backward_)}) {
    ASSIGN_OR_RETURN(List made, Make(spec, key, *names));
    *list = std::move(made);
  }
  if (choice.policy_.by != "bandwidth") return choice;
  RETURN_IF_ERROR(choice.ReadLinks(spec));
  return choice;
}

absl::Status CodecChoice::ReadLinks(const RunSpec& spec) {
  ASSIGN_OR_RETURN(const Topology links,
                   MeshNamed(spec.net.profile, static_cast<int>(spec.workers())));
  const bool shared =
      !links.sites.empty() || std::any_of(links.nodes.begin(), links.nodes.end(),
                                          [](const NodeSpec& node) { return node.access; });
  const bool changes =
      !links.changes.empty() || std::any_of(links.paths.begin(), links.paths.end(),
                                            [](const PathSpec& path) { return path.rate_trace; });
  if (shared || changes) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}.by' = \"bandwidth\" takes the rate of each path, and in net.profile '{}' {}; want paths "
        "with a rate of their own",
        kChoiceTable, spec.net.profile, shared ? "paths share an access line" : "rates change"));
  }
  for (const PathSpec& path : links.paths) {
    bit_per_s_[{path.from, path.to}] =
        path.rate ? static_cast<double>(path.rate->value) : std::numeric_limits<double>::infinity();
  }
  return absl::OkStatus();
}

CodecChoice::Chosen CodecChoice::ByMagnitude(const List& list, ConstTensor x) const {
  const double rms = RootMeanSquare(x);
  size_t at = 0;
  while (at < policy_.bounds.size() && !(rms < policy_.bounds[at])) ++at;
  return {list[at].name, at < policy_.bounds.size()
                             ? fmt::format("rms {:.4g} < {:g}", rms, policy_.bounds[at])
                             : fmt::format("rms {:.4g} >= {:g}", rms, policy_.bounds.back())};
}

CodecChoice::Chosen CodecChoice::ByBandwidth(const List& list, int64_t from, int64_t to) const {
  const double rate = bit_per_s_.at({from, to});
  const auto ms = [&](const Choice& c) { return 8e3 * c.message_bytes / rate; };
  size_t at = list.size() - 1;
  while (at > 0 && ms(list[at]) > policy_.target_ms) --at;
  return {list[at].name, fmt::format("{:.4g} ms {} {:g} ms at {:g} Mbit/s", ms(list[at]),
                                     ms(list[at]) > policy_.target_ms ? ">" : "<=",
                                     policy_.target_ms, rate / 1e6)};
}

CodecChoice::Chosen CodecChoice::ByAccuracy(const List& list, ConstTensor x, uint64_t seed) const {
  double nmse = 0;
  std::vector<std::byte> frame, scratch(x.shape.elements() * sizeof(float));
  for (const Choice& choice : list) {
    nmse = 0;
    if (choice.codec != nullptr) {
      frame.resize(choice.codec->MaxFrameBytes(x.shape, x.dtype));
      const absl::StatusOr<size_t> bytes = choice.codec->Encode(x, seed, nullptr, frame);
      if (!bytes.ok()) return {list.back().name, "the tensor is not finite"};
      const absl::StatusOr<double> measured =
          FrameNmse(std::span(frame).first(*bytes), x, nullptr, scratch);
      nmse = measured.ok() ? *measured : std::numeric_limits<double>::infinity();
    }
    if (nmse < policy_.target_nmse) {
      return {choice.name, fmt::format("NMSE {:.4g} < {:g}", nmse, policy_.target_nmse)};
    }
  }
  return {list.back().name, fmt::format("NMSE {:.4g} >= {:g}, and no finer codec is listed", nmse,
                                        policy_.target_nmse)};
}

CodecChoice::Chosen CodecChoice::Choose(Direction direction, int64_t from, int64_t to,
                                        ConstTensor x, uint64_t seed) const {
  const List& list = ListOf(direction);
  if (policy_.by == "magnitude") return ByMagnitude(list, x);
  if (policy_.by == "bandwidth") return ByBandwidth(list, from, to);
  return ByAccuracy(list, x, seed);
}

std::vector<CodecFrom> CodecsOver(const RunSpec& spec, std::span<const CodecSwitchRow> switches,
                                  int64_t group, int64_t boundary, Direction direction) {
  const bool forward = direction == Direction::kForward;
  std::vector<CodecFrom> codecs;
  const auto& policy = spec.boundary.policy;
  if (policy && !(forward ? policy->forward : policy->backward).empty() && !switches.empty()) {
    codecs.push_back({1, "none"});
    for (const CodecSwitchRow& s : switches) {
      if (s.group_index != group || s.boundary != boundary || s.direction != direction) continue;
      codecs.push_back({s.step, s.to_codec});
    }
    std::stable_sort(codecs.begin(), codecs.end(),
                     [](const CodecFrom& a, const CodecFrom& b) { return a.step < b.step; });
    return codecs;
  }
  const RunSpec::Boundary::Cut own = CodecsOf(spec, boundary);
  const int64_t warmup = spec.boundary.warmup_steps.value_or(0);
  if (warmup > 0) codecs.push_back({1, "none"});
  codecs.push_back({warmup + 1, forward ? own.forward : own.backward});
  return codecs;
}

}  // namespace longhaul
