#include "experiments/train/worker.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>

#include <ATen/Parallel.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "experiments/elastic/round_store.h"
#include "experiments/elastic/store_membership.h"
#include "experiments/elastic/worker_join.h"
#include "experiments/train/boundary_codecs.h"
#include "experiments/train/check_training.h"
#include "experiments/train/gpu_of_worker.h"
#include "experiments/train/spec_corpus.h"
#include "experiments/train/spec_files.h"
#include "experiments/train/train_setup.h"
#include "experiments/train/worker_exit.h"
#include "plugin/core/ucx/interfaces.h"
#include "plugin/swarm/swarm_address.h"
#include "pp_group/c10d_status.h"
#include "pp_group/device_check.h"
#include "pp_group/memory/tensor_memory.h"

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
  ASSIGN_OR_RETURN(std::string text, Variable(name));
  int value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= 0) return value;
  return absl::FailedPreconditionError(absl::StrCat(name, " is '", text, "': want a number >= 0"));
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

// All ranks of a lab are on its machine.
std::optional<RanksHere> RanksOf(const WorkerPlace& place) {
  if (place.phase_fd >= 0) return RanksHere{place.rank, place.world_size};
  return RanksHereFromEnvironment();
}

void EmitSharing(const RunSpec& spec, const WorkerPlace& place, EventSink& sink) {
  if (!GpuOf(spec)) return;
  sink.Emit({{"event", "fact"},
             {"key", "gpu_shared_by"},
             {"value", SharedBy(spec.train.device, RanksOf(place), GpuCount())}});
}

absl::Status EmitFailure(const absl::Status& failure, const WorkerPlace& place, FdEventSink& sink) {
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

// One launcher for all ranks ends all of them when it loses one.
absl::Status CheckLauncher(const RunSpec& spec, const WorkerPlace& place) {
  const bool elastic = spec.outer.on_group_loss == "continue";
  if (elastic && place.life < 0 && !place.counts_lives) {
    return absl::InvalidArgumentError(
        "outer.on_group_loss = \"continue\": without the lab of 'longhaul run' every group needs a "
        "launcher of its own, and the run a store: 'longhaul worker SPEC --group G --store "
        "HOST:PORT' (docs/arrays.md)");
  }
  if (elastic || !place.counts_lives) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--group: these groups train together or not at all; a run whose groups come and go says "
      "outer.on_group_loss = \"continue\"");
}

// How others reach this process: where its other traffic goes.
absl::StatusOr<std::string> OwnAddress(const RunSpec& spec, const std::string& interface) {
  std::string ip = AddressOfInterface(interface);
  if (!ip.empty() || spec.outer.joiner_source != "swarm") return ip;
  return absl::FailedPreconditionError(
      absl::StrCat("outer.joiner_source = \"swarm\": ", interface, " has no IPv4 address"));
}

absl::Status CheckWorldSize(const RunSpec& spec, const WorkerPlace& place) {
  const int64_t ranks = spec.workers();
  if (place.world_size == ranks && place.rank < place.world_size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", place.rank, " of ", place.world_size, ": the spec's ", spec.ranks(),
                   spec.schedule.chunks == 1 ? " stages x " : " ranks x ", spec.outer.groups,
                   " groups need WORLD_SIZE=", ranks));
}

// What a rank has by itself.
struct OwnPart {
  std::shared_ptr<const Corpus> corpus;
  RunSpec spec;  // on its GPU
  std::string interface, ip;
  std::shared_ptr<Node> node;
};

// Whatever is wrong with this rank alone is said here, before any other one waits for it.
absl::StatusOr<OwnPart> Prepare(const RunSpec& spec, const WorkerPlace& place) {
  RETURN_IF_ERROR(CheckLauncher(spec, place));
  RETURN_IF_ERROR(CheckLabIsThere(spec, place));
  at::set_num_threads(static_cast<int>(spec.limits.threads));
  ASSIGN_OR_RETURN(std::shared_ptr<const Corpus> corpus, OpenCorpus(spec));
  OwnPart own;
  own.corpus = std::move(corpus);
  own.spec = OnGpu(spec, GpuNumber(RanksOf(place), place.rank));
  RETURN_IF_ERROR(CheckTraining(own.spec, *own.corpus));
  const absl::StatusOr<ChosenInterface> interface =
      ChooseInterface(place.interface, {place.master_address});
  if (!interface.ok()) return interface.status();
  own.interface = interface->name;
  ASSIGN_OR_RETURN(std::string ip, OwnAddress(spec, own.interface));
  own.ip = std::move(ip);
  ASSIGN_OR_RETURN(std::shared_ptr<Node> node,
                   Node::Create({.transport = TransportKind::kUcx,
                                 .interface = interface->name,
                                 .interface_why = interface->why,
                                 .peer_deadline = absl::Seconds(spec.net.peer_deadline_s)}));
  own.node = std::move(node);
  return own;
}

// null: groups do not come and go.
std::unique_ptr<StoreMembership> MembershipOf(const RunSpec& spec, const WorkerPlace& place,
                                              const OwnPart& own, const Joined& joined,
                                              EventSink& sink) {
  if (spec.outer.on_group_loss != "continue") return nullptr;
  return StoreMembership::Create(spec, joined.store, own.node,
                                 {.rank = joined.rank(),
                                  .life = joined.life,
                                  .phase_fd = place.phase_fd,
                                  .ip = own.ip,
                                  .interface = own.interface,
                                  .resumes = place.resumes},
                                 sink);
}

// What the first rank says for all.
void EmitFactsOfAll(const RunSpec& spec, const WorkerPlace& place, const Corpus& corpus,
                    EventSink& sink) {
  EmitRunFacts(spec, corpus, sink);
  if (place.phase_fd < 0) {  // a lab's run had them before it began
    sink.Emit({{"event", "fact"}, {"key", kNamedFilesFact}, {"value", ContentsText(spec.files)}});
  }
  EmitTcpFacts(sink);
  EmitSharing(spec, place, sink);
}

absl::StatusOr<std::unique_ptr<Trainer>> NewTrainer(const OwnPart& own, const Joined& joined,
                                                    const RunLoopOptions& options,
                                                    StoreMembership* membership,
                                                    const std::string& checkpoint_directory) {
  std::vector<LocalRank> local;
  for (const LocalTelemetry& stage : joined.stages) {
    local.push_back(
        ToLocalRank(stage, options.codecs.get(), options.capture.get(), options.trace.get()));
  }
  if (membership != nullptr) {
    const absl::Status met = membership->MeetAtFirst();
    if (!met.ok() && !checkpoint_directory.empty()) return met;
    local.front().outer = membership->ranks().front().outer;
  }
  return Trainer::Create(
      ToTrainSpec(own.spec), std::move(local), own.corpus, [] { return MonotonicClock().Now(); },
      membership);
}

// The rank has met the others. What fails before the first step is told before the groups are taken
// down, which is what its peers notice.
absl::Status Train(const WorkerPlace& place, const OwnPart& own, const Joined& joined,
                   StoreMembership* membership, const std::string& checkpoint_directory,
                   FdEventSink& sink) {
  if (absl::Status s = TakeGpu(own.spec, place.rank, place.gpu_bytes, sink); !s.ok()) {
    return EmitFailure(s, place, sink);
  }
  RunLoopOptions options = ToLoopOptions(own.spec, checkpoint_directory);
  options.membership = membership;
  options.resumes = place.life < 0 ? joined.life == 0 : place.resumes;
  options.interface = own.interface;
  options.phase_fd = place.phase_fd;
  absl::StatusOr<std::shared_ptr<BoundaryCodecs>> codecs = BoundaryCodecs::Of(own.spec);
  if (!codecs.ok()) return EmitFailure(codecs.status(), place, sink);
  options.codecs = *std::move(codecs);
  const absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      NewTrainer(own, joined, options, membership, checkpoint_directory);
  if (!trainer.ok()) return EmitFailure(trainer.status(), place, sink);
  sink.Emit({{"event", "started"},
             {"rank", place.rank},
             {"group", joined.rank().group},
             {"stage", joined.rank().stage},
             {"pid", getpid()},
             {"node", own.node->description()}});
  if (joined.life > 0) {
    const absl::StatusOr<bool> has_state = membership->Join(**trainer);
    if (!has_state.ok()) return EmitFailure(has_state.status(), place, sink);
    options.joins = true;
    if (!*has_state) {  // the run was over before it was its turn
      sink.Emit({{"event", "finished"}, {"rank", place.rank}});
      return sink.status();
    }
  }
  return RunLoop(**trainer, joined.stages, options, sink);
}

absl::Status Run(const RunSpec& spec, const WorkerPlace& place,
                 const std::string& checkpoint_directory, FdEventSink& sink) {
  RETURN_IF_ERROR(CheckWorldSize(spec, place));
  if (spec.outer.on_group_loss == "continue") sink.RunGoesOn();
  UseTensorMemory();
  ASSIGN_OR_RETURN(const OwnPart own, Prepare(spec, place));
  const absl::StatusOr<Joined> joined = JoinRun(spec, place, own.node);
  if (!joined.ok()) return EmitFailure(joined.status(), place, sink);
  if (absl::Status s = AgreeOnTheRun(spec, place, *joined, sink); !s.ok()) {
    return EmitFailure(s, place, sink);
  }
  const auto membership = MembershipOf(spec, place, own, *joined, sink);
  if (place.rank == 0 && joined->life == 0) EmitFactsOfAll(spec, place, *own.corpus, sink);
  const absl::Status trained =
      Train(place, own, *joined, membership.get(), checkpoint_directory, sink);
  return trained.ok() ? CheckFilesAtEnd(spec) : trained;
}

// A lab's workers have what was planned; those of another launcher find it out, each on its host,
// and compare it when they have met.
absl::Status TakeFiles(RunSpec& spec, const WorkerPlace& place) {
  if (place.phase_fd < 0) return PinFiles(spec, kMappedFiles);
  if (place.life > 0 || place.resumes) return CheckFiles(spec, kMappedFiles);
  return CheckFiles(spec, kFilesOfBegun);
}

}  // namespace

absl::StatusOr<WorkerPlace> PlaceFromEnvironment() {
  WorkerPlace place;
  for (auto [name, field] : {std::pair{"RANK", &place.rank},
                             {"WORLD_SIZE", &place.world_size},
                             {"MASTER_PORT", &place.master_port}}) {
    ASSIGN_OR_RETURN(int value, IntVariable(name));
    *field = value;
  }
  ASSIGN_OR_RETURN(std::string address, Variable("MASTER_ADDR"));
  place.master_address = address;
  return place;
}

absl::Status PlaceInGroup(const RunSpec& spec, int group, const std::string& store,
                          WorkerPlace* place) {
  const auto stages = static_cast<int>(spec.ranks());
  if (group < 0 || group >= spec.outer.groups) {
    return absl::InvalidArgumentError(
        absl::StrCat("--group ", group, ": the spec has ", spec.outer.groups, " groups, from 0"));
  }
  if (place->world_size != stages || place->rank >= stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", place->rank, " of ", place->world_size, " in group ", group,
                     ": the spec's ", stages, spec.schedule.chunks == 1 ? " stages" : " ranks",
                     " need WORLD_SIZE=", stages, " in the launcher of each group"));
  }
  const size_t colon = store.rfind(':');
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(store.substr(colon + 1), &place->master_port) || place->master_port < 1 ||
      place->master_port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--store '", store, "': want HOST:PORT of 'longhaul worker --serve-store'"));
  }
  place->master_address = store.substr(0, colon);
  place->rank += group * stages;
  place->world_size = stages * static_cast<int>(spec.outer.groups);
  place->counts_lives = true;
  return absl::OkStatus();
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
  // Where groups come and go, a wait in the store that ends in time for another look is in order.
  if (place.counts_lives) setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
  c10::initLogging();  // TORCH_CPP_LOG_LEVEL
  RunSpec own = spec;
  absl::Status status = TakeFiles(own, place);
  if (status.ok()) status = Run(own, place, checkpoint_directory, sink);
  if (!status.ok()) sink.EmitFailure(place.rank, 0, status);
  return status;
}

}  // namespace longhaul
