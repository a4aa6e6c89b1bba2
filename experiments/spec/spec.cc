#include "experiments/spec/spec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "experiments/spec/table_reader.h"

namespace longhaul {
namespace {

bool Positive(double x) { return x > 0; }  // false for NaN
bool Fraction(double x) { return x >= 0 && x < 1; }

// A name that a catalogue must know; its own message lists the known ones.
void CheckName(TableReader& reader, const std::string& key, const std::string& name,
               const std::function<absl::Status(std::string_view)>& known) {
  if (!reader.Has(key)) return;
  const absl::Status status = known(name);
  if (!status.ok()) reader.Fail(key, ": " + std::string(status.message()));
}

absl::Status ReadModel(const TomlValue& root, RunSpec::Model& model) {
  TableReader r(root, "model");
  r.Require("kind", &model.kind);
  r.Require("blocks", &model.blocks);
  r.Require("width", &model.width);
  r.Require("heads", &model.heads);
  r.Require("context", &model.context);
  r.Require("vocab", &model.vocab);
  r.OneOf("kind", model.kind, {"gpt"});
  r.Check(model.blocks >= 1, "blocks", "must be at least 1");
  r.Check(model.width >= 1, "width", "must be at least 1");
  r.Check(model.heads >= 1, "heads", "must be at least 1");
  r.Check(model.context >= 1, "context", "must be at least 1");
  r.Check(model.vocab >= 2 && model.vocab <= 65536, "vocab", "must lie in 2..65536 (uint16 ids)");
  if (model.heads >= 1) {
    r.Check(model.width % model.heads == 0, "heads",
            fmt::format("= {} does not divide model.width = {}", model.heads, model.width));
  }
  return r.Finish();
}

absl::Status ReadSource(const TomlValue& root, RunSpec::Data& source, int64_t vocab) {
  TableReader r(root, "data");
  r.Require("source", &source.source);
  const bool text = source.source == "headers" || source.source.starts_with("text:");
  r.Check(text || source.source.starts_with("tokens:"), "source",
          fmt::format("is '{}'; known: headers, text:PATH, tokens:PATH", source.source));
  r.Check(!source.source.ends_with(':'), "source", "names no path after the ':'");
  r.Check(!text || vocab >= 256, "source",
          fmt::format("is bytes and needs model.vocab >= 256, not {}", vocab));
  return r.Finish();
}

absl::Status ReadTrain(const TomlValue& root, RunSpec::Train& train) {
  TableReader r(root, "train");
  r.Allow("tokens", &train.tokens);
  r.Allow("steps", &train.steps);
  r.Require("batch_rows", &train.batch_rows);
  r.Require("microbatches", &train.microbatches);
  r.Require("lr", &train.lr);
  r.Allow("min_lr_fraction", &train.min_lr_fraction);
  r.Allow("warmup_steps", &train.warmup_steps);
  r.Allow("beta1", &train.beta1);
  r.Allow("beta2", &train.beta2);
  r.Allow("eps", &train.eps);
  r.Allow("weight_decay", &train.weight_decay);
  r.Allow("clip_norm", &train.clip_norm);
  r.Check(train.tokens.has_value() != train.steps.has_value(), train.tokens ? "tokens" : "steps",
          "exactly one of train.tokens and train.steps must be given");
  r.Check(!train.tokens || *train.tokens >= 1, "tokens", "must be at least 1");
  r.Check(!train.steps || *train.steps >= 1, "steps", "must be at least 1");
  r.Check(train.batch_rows >= 1, "batch_rows", "must be at least 1");
  r.Check(train.microbatches >= 1, "microbatches", "must be at least 1");
  if (train.microbatches >= 1) {
    r.Check(train.batch_rows % train.microbatches == 0, "microbatches",
            fmt::format("= {} does not divide train.batch_rows = {}", train.microbatches,
                        train.batch_rows));
  }
  r.Check(Positive(train.lr) && std::isfinite(train.lr), "lr", "must be above 0");
  r.Check(train.min_lr_fraction >= 0 && train.min_lr_fraction <= 1, "min_lr_fraction",
          "must lie in 0..1");
  r.Check(train.warmup_steps >= 0, "warmup_steps", "must not be negative");
  r.Check(Fraction(train.beta1), "beta1", "must lie in [0, 1)");
  r.Check(Fraction(train.beta2), "beta2", "must lie in [0, 1)");
  r.Check(Positive(train.eps), "eps", "must be above 0");
  r.Check(train.weight_decay >= 0, "weight_decay", "must not be negative");
  r.Check(Positive(train.clip_norm), "clip_norm", "must be above 0 (inf: off)");
  return r.Finish();
}

absl::Status ReadSchedule(const TomlValue& root, RunSpec::Schedule& schedule, int64_t blocks,
                          const SpecNames& names) {
  TableReader r(root, "schedule");
  r.Require("kind", &schedule.kind);
  r.Require("stages", &schedule.stages);
  CheckName(r, "kind", schedule.kind, names.schedule);
  r.Check(schedule.stages >= 1, "stages", "must be at least 1");
  if (schedule.stages >= 1) {
    r.Check(blocks % schedule.stages == 0, "stages",
            fmt::format("= {} does not divide model.blocks = {}", schedule.stages, blocks));
  }
  return r.Finish();
}

absl::Status ReadBoundary(const TomlValue& root, RunSpec::Boundary& boundary,
                          const SpecNames& names) {
  TableReader r(root, "boundary");
  r.Require("forward", &boundary.forward);
  r.Require("backward", &boundary.backward);
  r.Allow("nmse_every", &boundary.nmse_every);
  CheckName(r, "forward", boundary.forward, names.codec);
  CheckName(r, "backward", boundary.backward, names.codec);
  r.Check(boundary.nmse_every >= 0, "nmse_every", "must not be negative");
  return r.Finish();
}

absl::Status ReadOuter(const TomlValue& root, RunSpec::Outer& outer, const SpecNames& names) {
  TableReader r(root, "outer");
  r.Allow("groups", &outer.groups);
  r.Allow("inner_steps", &outer.inner_steps);
  r.Allow("lr", &outer.lr);
  r.Allow("momentum", &outer.momentum);
  r.Allow("codec", &outer.codec);
  CheckName(r, "codec", outer.codec, names.codec);
  r.Check(outer.groups >= 1, "groups", "must be at least 1");
  r.Check(outer.inner_steps >= 0, "inner_steps", "must not be negative");
  r.Check(outer.groups == 1 || outer.inner_steps >= 1, "inner_steps",
          fmt::format("must be at least 1 with outer.groups = {}", outer.groups));
  r.Check(outer.inner_steps == 0 || r.Has("codec"), "codec",
          "is missing (a choice: 'none' sends the outer delta lossless)");
  r.Check(Positive(outer.lr), "lr", "must be above 0");
  r.Check(Fraction(outer.momentum), "momentum", "must lie in [0, 1)");
  return r.Finish();
}

absl::Status ReadNet(const TomlValue& root, RunSpec::Net& net, const SpecNames& names) {
  TableReader r(root, "net");
  r.Require("transport", &net.transport);
  r.Allow("profile", &net.profile);
  r.Allow("emulator", &net.emulator);
  r.Allow("congestion_control", &net.congestion_control);
  r.Allow("slow_start_after_idle", &net.slow_start_after_idle);
  r.Allow("peer_deadline_s", &net.peer_deadline_s);
  r.Allow("out_of_bounds", &net.out_of_bounds);
  r.OneOf("transport", net.transport, {"loopback", "ucx"});
  r.Check(net.transport != "ucx" || r.Has("profile"), "profile",
          "is missing (needed with net.transport = \"ucx\")");
  if (!net.profile.empty()) CheckName(r, "profile", net.profile, names.profile);
  r.OneOf("emulator", net.emulator, {"auto", "netem", "tap"});
  r.OneOf("out_of_bounds", net.out_of_bounds, {"stop", "flag"});
  r.Check(!net.congestion_control.empty(), "congestion_control", "must not be empty");
  r.Check(Positive(net.peer_deadline_s) && std::isfinite(net.peer_deadline_s), "peer_deadline_s",
          "must be above 0");
  return r.Finish();
}

absl::Status ReadSmallTables(const TomlValue& root, RunSpec& spec) {
  TableReader eval(root, "eval");
  eval.Require("rows", &spec.eval.rows);
  eval.Check(spec.eval.rows >= 1, "rows", "must be at least 1");
  if (absl::Status s = eval.Finish(); !s.ok()) return s;
  TableReader checkpoint(root, "checkpoint");
  checkpoint.Allow("every_steps", &spec.checkpoint.every_steps);
  checkpoint.Check(spec.checkpoint.every_steps >= 0, "every_steps", "must not be negative");
  if (absl::Status s = checkpoint.Finish(); !s.ok()) return s;
  TableReader limits(root, "limits");
  limits.Allow("threads", &spec.limits.threads);
  limits.Check(spec.limits.threads >= 1, "threads", "must be at least 1");
  return limits.Finish();
}

}  // namespace

int64_t TokensPerStep(const RunSpec& spec) {
  return spec.train.batch_rows * spec.model.context * spec.outer.groups;
}

int64_t Steps(const RunSpec& spec) {
  if (spec.train.steps) return *spec.train.steps;
  const int64_t per_step = TokensPerStep(spec);
  return std::max<int64_t>(1, (*spec.train.tokens + per_step / 2) / per_step);
}

int64_t TrainTokens(const RunSpec& spec) { return Steps(spec) * TokensPerStep(spec); }

absl::StatusOr<RunSpec> ReadRunSpec(const TomlValue& root, const SpecNames& names) {
  RunSpec spec{};
  TableReader top(root, "");
  top.Require("seed", &spec.seed);
  top.Check(spec.seed >= 0, "seed", "must not be negative");
  for (const char* table : {"model", "data", "train", "schedule", "boundary", "outer", "net",
                            "eval", "checkpoint", "limits"}) {
    top.Skip(table);
  }
  if (absl::Status s = top.Finish(); !s.ok()) return s;
  if (absl::Status s = ReadModel(root, spec.model); !s.ok()) return s;
  if (absl::Status s = ReadSource(root, spec.data, spec.model.vocab); !s.ok()) return s;
  if (absl::Status s = ReadTrain(root, spec.train); !s.ok()) return s;
  if (absl::Status s = ReadSchedule(root, spec.schedule, spec.model.blocks, names); !s.ok())
    return s;
  if (absl::Status s = ReadBoundary(root, spec.boundary, names); !s.ok()) return s;
  if (absl::Status s = ReadOuter(root, spec.outer, names); !s.ok()) return s;
  if (absl::Status s = ReadNet(root, spec.net, names); !s.ok()) return s;
  if (absl::Status s = ReadSmallTables(root, spec); !s.ok()) return s;
  return spec;
}

absl::StatusOr<RunSpec> LoadRunSpec(const std::string& path, const std::vector<std::string>& sets,
                                    const SpecNames& names) {
  absl::StatusOr<TomlValue> root = ReadTomlFile(path);
  if (!root.ok()) return root.status();
  if (const TomlValue* campaign = Find(*root, "campaign")) {
    return absl::InvalidArgumentError(campaign->where +
                                      ": this file is a campaign; use `longhaul measure`");
  }
  for (const std::string& set : sets) {
    if (absl::Status s = SetByPath(*root, set); !s.ok()) return s;
  }
  return ReadRunSpec(*root, names);
}

}  // namespace longhaul
