#include "experiments/train/worker.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>

#include <ATen/Parallel.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "experiments/train/check_training.h"
#include "experiments/train/spec_corpus.h"
#include "experiments/train/store_membership.h"
#include "experiments/train/train_setup.h"
#include "experiments/train/worker_exit.h"
#include "plugin/swarm/swarm_address.h"
#include "pp_group/c10d_status.h"
#include "pp_group/sha256.h"
#include "pp_group/tensor_memory.h"

namespace longhaul {
namespace {

absl::StatusOr<std::string> Variable(const char* name) {
  const char* value = getenv(name);
  if (value != nullptr && *value != '\0') return std::string(value);
  return absl::FailedPreconditionError(
      absl::StrCat("the environment has no ", name,
                   ": start workers with 'longhaul run', torchrun or another launcher that sets "
                   "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"));
}

absl::StatusOr<int> IntVariable(const char* name) {
  absl::StatusOr<std::string> text = Variable(name);
  if (!text.ok()) return text.status();
  int value = 0;
  if (absl::SimpleAtoi(*text, &value) && value >= 0) return value;
  return absl::FailedPreconditionError(absl::StrCat(name, " is '", *text, "': want a number >= 0"));
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// Rank 0 serves the store; it must outlive the others' rendezvous, so it lives as long as the run.
struct Joined {
  c10::intrusive_ptr<c10d::Store> store;
  LocalTelemetry rank;
};

absl::StatusOr<Joined> Connect(const RunSpec& spec, const WorkerPlace& place,
                               std::shared_ptr<Node> node) {
  const int stages = static_cast<int>(spec.schedule.stages);
  const int groups = static_cast<int>(spec.outer.groups);
  LocalTelemetry rank{
      .rank = place.rank, .group = place.rank / stages, .stage = place.rank % stages};
  rank.life = std::max(0, place.life);
  c10::intrusive_ptr<c10d::TCPStore> store;
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(place.master_port);
    const bool elastic = spec.outer.on_group_loss == "continue";
    options.waitWorkers = !elastic;
    options.isServer =
        place.rank == 0 && place.life < 0 && getenv("TORCHELASTIC_USE_AGENT_STORE") == nullptr;
    options.numWorkers = place.world_size;
    options.timeout =
        std::chrono::milliseconds(static_cast<int64_t>(spec.net.peer_deadline_s * 1000) + 60'000);
    store = c10::make_intrusive<c10d::TCPStore>(place.master_address, options);
    const auto join = [&](GroupKind kind, int index, int group_rank, int size) {
      auto group_options = ToGroupOptions(spec, kind, index, node);
      if (place.life > 0) absl::StrAppend(&group_options->group_name, "/life", place.life);
      auto prefixed = c10::make_intrusive<c10d::PrefixStore>(group_options->group_name, store);
      return c10::make_intrusive<ProcessGroupLonghaul>(prefixed, group_rank, size, group_options);
    };
    rank.boundary = join(GroupKind::kBoundary, rank.group, rank.stage, stages);
    rank.plain = join(GroupKind::kPlain, rank.group, rank.stage, stages);
    if (groups > 1 && !elastic)
      rank.outer = join(GroupKind::kOuter, rank.stage, rank.group, groups);
    if (spec.model.expert_parallel > 1)
      rank.experts = join(GroupKind::kExperts, rank.stage, rank.group, groups);
  } catch (const c10::Error& e) {  // the first line: the rest is torch's stack trace
    return absl::UnavailableError(
        absl::StrCat("rank ", place.rank, " joining through the store at ", place.master_address,
                     ":", place.master_port, ": ", FirstLine(e.what_without_backtrace())));
  } catch (const std::exception& e) {
    return absl::UnavailableError(
        absl::StrCat("rank ", place.rank, " joining through the store at ", place.master_address,
                     ":", place.master_port, ": ", FirstLine(e.what())));
  }
  return Joined{std::move(store), std::move(rank)};
}

// Rank 0's answer for every rank: over the pipelines, then over the groups. Throws what c10d does.
int64_t FromRankZero(const LocalTelemetry& rank, int64_t own) {
  int64_t value = rank.rank == 0 ? own : INT64_MAX;
  for (const auto& group : {rank.plain, rank.outer}) {
    if (group == nullptr || group->getSize() == 1) continue;
    std::vector<at::Tensor> input = {at::full({1}, value, at::kLong)};
    std::vector<std::vector<at::Tensor>> all(1);
    for (int r = 0; r < group->getSize(); ++r) all[0].push_back(at::empty({1}, at::kLong));
    group->allgather(all, input, {})->wait();
    for (const at::Tensor& theirs : all[0]) value = std::min(value, theirs.item<int64_t>());
  }
  return value;
}

// All ranks have met, and train the same: told as "attempt", with one number for all of them.
// InvalidArgument: this rank was started with another spec than rank 0.
absl::Status AgreeWithRankZero(const RunSpec& spec, const LocalTelemetry& rank, EventSink& sink) {
  int64_t id = absl::ToUnixMicros(absl::Now());
  const std::string text = ToToml(spec);
  const auto own_spec = static_cast<int64_t>(
      std::stoull(Sha256Hex(std::as_bytes(std::span(text))).substr(0, 15), nullptr, /*base=*/16));
  int64_t spec_of_rank_0 = 0;
  try {
    id = FromRankZero(rank, id);
    spec_of_rank_0 = FromRankZero(rank, own_spec);
  } catch (...) {
    return StatusOfCurrentException("agreeing with rank 0");
  }
  if (spec_of_rank_0 != own_spec) {
    return absl::InvalidArgumentError(
        "this rank's spec, with its --set, is not rank 0's: start all ranks with the same");
  }
  sink.Emit({{"event", "attempt"}, {"id", id}});
  return absl::OkStatus();
}

// What TCP in this node really uses, as the kernel names it.
void EmitTcpFacts(EventSink& sink) {
  for (const char* name :
       {"tcp_congestion_control", "tcp_slow_start_after_idle", "tcp_rmem", "tcp_wmem"}) {
    std::string value;
    std::getline(std::ifstream(absl::StrCat("/proc/sys/net/ipv4/", name)), value);
    const bool control = std::string(name) == "tcp_congestion_control";
    sink.Emit(
        {{"event", "fact"}, {"key", control ? "congestion_control" : name}, {"value", value}});
  }
}

absl::Status Told(const absl::Status& failure, const WorkerPlace& place, FdEventSink& sink) {
  sink.EmitFailure(place.rank, 0, failure);
  return failure;
}

// Part of a script is done by the lab.
absl::Status CheckLabIsThere(const RunSpec& spec, const WorkerPlace& place) {
  if (place.phase_fd >= 0 || spec.outer.on_group_loss != "continue") return absl::OkStatus();
  for (const Fault& fault : ScriptOf(spec)) {
    if (!fault.planned && !IsOfLab(fault)) continue;
    const std::string what = fault.planned ? kByPlan
                                           : absl::StrCat("'", std::string(ToString(fault.what)),
                                                          "' at '", ToString(fault.where), "'");
    return absl::InvalidArgumentError(
        absl::StrCat(fault.written, ": ", what,
                     " is done by the lab of 'longhaul run'; these workers have none"));
  }
  return absl::OkStatus();
}

absl::Status Run(const RunSpec& spec, const WorkerPlace& place,
                 const std::string& checkpoint_directory, FdEventSink& sink) {
  const int64_t ranks = spec.schedule.stages * spec.outer.groups;
  if (place.world_size != ranks || place.rank >= place.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", place.rank, " of ", place.world_size, ": the spec's ", spec.schedule.stages,
        " stages x ", spec.outer.groups, " groups need WORLD_SIZE=", ranks));
  }
  if (spec.outer.on_group_loss == "continue") sink.RunGoesOn();
  UseTensorMemory();
  if (absl::Status s = CheckLabIsThere(spec, place); !s.ok()) return s;
  at::set_num_threads(static_cast<int>(spec.limits.threads));
  absl::StatusOr<std::shared_ptr<const Corpus>> corpus = OpenCorpus(spec);
  if (!corpus.ok()) return corpus.status();
  // Before any other rank waits for this one.
  if (absl::Status s = CheckTraining(spec, **corpus); !s.ok()) return s;
  absl::StatusOr<std::shared_ptr<Node>> node =
      Node::Create({.transport = TransportKind::kUcx,
                    .interface = place.interface,
                    .peer_deadline = absl::Seconds(spec.net.peer_deadline_s)});
  if (!node.ok()) return node.status();
  absl::StatusOr<Joined> joined = Connect(spec, place, *node);
  // Told before the groups are taken down, which is what its peers notice.
  if (!joined.ok()) return Told(joined.status(), place, sink);
  const LocalTelemetry& rank = joined->rank;
  std::unique_ptr<StoreMembership> membership;
  if (spec.outer.on_group_loss == "continue") {
    membership = StoreMembership::Create(spec, joined->store, *node,
                                         {.rank = rank,
                                          .life = std::max(0, place.life),
                                          .phase_fd = place.phase_fd,
                                          .ip = AddressToward(place.master_address),
                                          .interface = place.interface,
                                          .resumes = place.resumes},
                                         sink);
  } else if (absl::Status s = AgreeWithRankZero(spec, rank, sink); !s.ok()) {
    return Told(s, place, sink);
  }
  if (place.rank == 0 && place.life <= 0) {
    EmitRunFacts(spec, **corpus, sink);
    EmitTcpFacts(sink);
  }
  RunLoopOptions options = ToLoopOptions(spec, checkpoint_directory);
  LocalRank local = ToLocalRank(rank, options.capture.get());
  if (membership != nullptr) {
    const absl::Status met = membership->MeetAtFirst();
    if (!met.ok() && !checkpoint_directory.empty()) return Told(met, place, sink);
    local.outer = membership->ranks().front().outer;
  }
  absl::StatusOr<std::unique_ptr<Trainer>> trainer = Trainer::Create(
      ToTrainSpec(spec), {std::move(local)}, *corpus, [] { return MonotonicClock().Now(); },
      membership.get());
  if (!trainer.ok()) return Told(trainer.status(), place, sink);
  options.membership = membership.get();
  options.resumes = place.life < 0 || place.resumes;
  sink.Emit({{"event", "started"},
             {"rank", place.rank},
             {"group", rank.group},
             {"stage", rank.stage},
             {"pid", getpid()},
             {"node", (*node)->description()}});
  options.interface = place.interface;
  options.phase_fd = place.phase_fd;
  if (place.life > 0) {
    const absl::StatusOr<bool> has_state = membership->Join(**trainer);
    if (!has_state.ok()) return Told(has_state.status(), place, sink);
    options.joins = true;
    if (!*has_state) {  // the run was over before it was its turn
      sink.Emit({{"event", "finished"}, {"rank", place.rank}});
      return sink.status();
    }
  }
  return RunLoop(**trainer, {rank}, options, sink);
}

}  // namespace

absl::StatusOr<WorkerPlace> PlaceFromEnvironment() {
  WorkerPlace place;
  for (auto [name, field] : {std::pair{"RANK", &place.rank},
                             {"WORLD_SIZE", &place.world_size},
                             {"MASTER_PORT", &place.master_port}}) {
    absl::StatusOr<int> value = IntVariable(name);
    if (!value.ok()) return value.status();
    *field = *value;
  }
  absl::StatusOr<std::string> address = Variable("MASTER_ADDR");
  if (!address.ok()) return address.status();
  place.master_address = *address;
  return place;
}

int WorkerExit(const RunSpec& spec, const absl::Status& status) {
  if (status.ok()) return 0;
  if (spec.outer.on_group_loss != "continue" || !IsGroupLoss(status)) return 1;
  return absl::IsCancelled(status) ? kExitLeft : kExitGroupLost;
}

absl::Status ServeStore(int port, int keys) {
  c10::initLogging();  // TORCH_CPP_LOG_LEVEL
  return StatusFromTorch(absl::StrCat("serve the c10d store at port ", port), [&] {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(port);
    options.isServer = true;
    options.waitWorkers = false;
    const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
    std::string pending;
    char buffer[4096];
    for (ssize_t n = 0; (n = read(keys, buffer, sizeof buffer)) > 0;) {
      pending.append(buffer, static_cast<size_t>(n));
      for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
        store->set(pending.substr(0, end), std::vector<uint8_t>{'1'});
        store->add(kLossesKey, 1);
      }
    }
  });
}

absl::Status RunWorker(const RunSpec& spec, const WorkerPlace& place,
                       const std::string& checkpoint_directory, FdEventSink& sink) {
  c10::initLogging();  // TORCH_CPP_LOG_LEVEL
  const absl::Status status = Run(spec, place, checkpoint_directory, sink);
  if (!status.ok()) sink.EmitFailure(place.rank, 0, status);
  return status;
}

}  // namespace longhaul
