#include "pp_group/outer/diloco.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/kernels/kernels.h"

namespace longhaul {
namespace {

at::Tensor In(const at::Tensor& flat, const FlatRange& range) {
  return flat.narrow(0, range.begin, range.end - range.begin);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Diloco>> Diloco::Create(const OuterSpec& spec, OuterRank rank) {
  std::unique_ptr<Diloco> diloco(new Diloco(rank.plan));
  diloco->lr_ = spec.lr;
  diloco->mu_ = static_cast<float>(spec.momentum);
  diloco->mix_ = spec.kept();
  diloco->alone_ = spec.lr == 1 && spec.momentum == 0 && spec.codec == "none" &&
                   spec.overlap() == 0 && spec.steady() && spec.rate_warmup() == 0;
  diloco->theta_ = rank.host_parameters;
  diloco->theta_start_ = rank.host_parameters.clone();
  diloco->momentum_ = at::zeros_like(rank.host_parameters);
  const int64_t groups = rank.place.groups;
  for (Fragment& fragment : FragmentsOf(rank.stage->layout(), spec.parts())) {
    GroupAverage::Place place = rank.place;
    place.parts = fragment.parts;
    place.fragment += static_cast<int64_t>(diloco->parts_.size());
    place.over_senders = spec.mean == "senders";
    ASSIGN_OR_RETURN(auto exchange,
                     GroupAverage::Create(spec.codec, std::move(place), fragment.elements));
    const int64_t n = fragment.elements;
    diloco->parts_.push_back({.fragment = std::move(fragment),
                              .exchange = std::move(exchange),
                              .delta = at::empty({n}, at::kFloat),
                              .left_out = at::zeros({groups}, at::kFloat)});
  }
  return diloco;
}

void Diloco::Restart() { theta_start_.copy_(theta_); }

absl::Status Diloco::Encode(const OuterExchange& exchange) {
  Part& part = At(exchange.fragment);
  int64_t at = 0;
  for (const FlatRange& range : part.fragment.ranges) {
    at::Tensor delta = part.delta.narrow(0, at, range.end - range.begin);
    at::sub_out(delta, In(theta_start_, range), In(theta_, range));
    at += delta.numel();
  }
  return part.exchange->Encode(exchange.begun, part.delta);
}

absl::StatusOr<std::vector<double>> Diloco::SquaredNorms(int64_t fragment) {
  Part& part = At(fragment);
  RETURN_IF_ERROR(part.exchange->Receive());
  return part.exchange->SquaredNorms(part.delta);
}

absl::Status Diloco::Average(int64_t fragment, const std::vector<bool>& left_out) {
  Part& part = At(fragment);
  ASSIGN_OR_RETURN(const at::Tensor average, part.exchange->Average(part.delta, left_out));
  for (size_t i = 0; i < left_out.size(); ++i) {
    part.left_out.data_ptr<float>()[i] = left_out[i] ? 1.0f : 0.0f;
  }
  return absl::OkStatus();
}

std::vector<bool> Diloco::left_out(int64_t fragment) const {
  const Part& part = At(fragment);
  std::vector<bool> out;
  for (size_t i = 0; i < part.exchange->members().size(); ++i) {
    out.push_back(part.left_out.const_data_ptr<float>()[i] != 0);
  }
  return out;
}

absl::Status Diloco::Apply(const OuterExchange& exchange) {
  const Part& part = At(exchange.fragment);
  // Groups end equal.
  const double mix = exchange.begun == plan_.steps() ? 0 : mix_;
  const auto lr = static_cast<float>(lr_ * plan_.RateShare(exchange.applied));
  const float* average = part.exchange->average().const_data_ptr<float>();
  for (const FlatRange& range : part.fragment.ranges) {
    const at::Tensor theta = In(theta_, range), start = In(theta_start_, range);
    if (alone_ && part.exchange->members().size() == 1) {
      start.copy_(theta);
      continue;
    }
    const at::Tensor local = mix == 0 ? at::Tensor() : theta.clone();
    BestKernels().nesterov(average, static_cast<size_t>(theta.numel()), lr, mu_,
                           In(momentum_, range).data_ptr<float>(), start.data_ptr<float>(),
                           theta.data_ptr<float>());
    if (local.defined()) theta.copy_(at::lerp(start, local, mix));
    average += theta.numel();
  }
  return absl::OkStatus();
}

std::vector<std::pair<std::string, at::Tensor>> Diloco::Tensors(int64_t step) const {
  std::vector<std::pair<std::string, at::Tensor>> tensors = {{"outer.theta_start", theta_start_},
                                                             {"outer.momentum", momentum_}};
  for (const OuterExchange& e : plan_.InFlightAfter(step)) {
    const Part& part = At(e.fragment);
    tensors.emplace_back(absl::StrCat("outer.average.", e.fragment), part.exchange->average());
    tensors.emplace_back(absl::StrCat("outer.left_out.", e.fragment), part.left_out);
  }
  return tensors;
}

}  // namespace longhaul
