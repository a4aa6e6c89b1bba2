// RunSpec -> TOML. Beside the reader in spec.cc; the round trip is tested key by key.
#include <fmt/format.h>

#include "experiments/spec/spec.h"

namespace longhaul {
namespace {

class Printer {
 public:
  void Table(std::string_view name) { text_ += fmt::format("\n[{}]\n", name); }
  void Key(std::string_view key, int64_t v) { text_ += fmt::format("{} = {}\n", key, v); }
  void Key(std::string_view key, double v) {
    text_ += fmt::format("{} = {}\n", key, TomlNumber(v));
  }
  void Key(std::string_view key, const std::string& v) {
    text_ += fmt::format("{} = {}\n", key, TomlQuote(v));
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

void PrintTrain(Printer& p, const RunSpec::Train& train) {
  p.Table("train");
  if (train.tokens) p.Key("tokens", *train.tokens);
  if (train.steps) p.Key("steps", *train.steps);
  p.Key("batch_rows", train.batch_rows);
  p.Key("microbatches", train.microbatches);
  p.Key("lr", train.lr);
  p.Key("min_lr_fraction", train.min_lr_fraction);
  p.Key("warmup_steps", train.warmup_steps);
  p.Key("beta1", train.beta1);
  p.Key("beta2", train.beta2);
  p.Key("eps", train.eps);
  p.Key("weight_decay", train.weight_decay);
  p.Key("clip_norm", train.clip_norm);
}

void PrintNet(Printer& p, const RunSpec::Net& net) {
  p.Table("net");
  p.Key("transport", net.transport);
  if (!net.profile.empty()) p.Key("profile", net.profile);
  p.Key("emulator", net.emulator);
  p.Key("congestion_control", net.congestion_control);
  p.Key("peer_deadline_s", net.peer_deadline_s);
  p.Key("out_of_bounds", net.out_of_bounds);
}

}  // namespace

std::string ToToml(const RunSpec& spec) {
  Printer p;
  p.Key("seed", spec.seed);
  p.Table("model");
  p.Key("kind", spec.model.kind);
  p.Key("blocks", spec.model.blocks);
  p.Key("width", spec.model.width);
  p.Key("heads", spec.model.heads);
  p.Key("context", spec.model.context);
  p.Key("vocab", spec.model.vocab);
  p.Table("data");
  p.Key("source", spec.data.source);
  PrintTrain(p, spec.train);
  p.Table("schedule");
  p.Key("kind", spec.schedule.kind);
  p.Key("stages", spec.schedule.stages);
  p.Table("boundary");
  p.Key("forward", spec.boundary.forward);
  p.Key("backward", spec.boundary.backward);
  p.Key("nmse_every", spec.boundary.nmse_every);
  p.Table("outer");
  p.Key("groups", spec.outer.groups);
  p.Key("inner_steps", spec.outer.inner_steps);
  p.Key("lr", spec.outer.lr);
  p.Key("momentum", spec.outer.momentum);
  p.Key("codec", spec.outer.codec);
  PrintNet(p, spec.net);
  p.Table("eval");
  p.Key("rows", spec.eval.rows);
  p.Table("checkpoint");
  p.Key("every_steps", spec.checkpoint.every_steps);
  p.Table("limits");
  p.Key("threads", spec.limits.threads);
  return std::move(p).text();
}

}  // namespace longhaul
