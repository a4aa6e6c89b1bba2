#include "experiments/command/command.h"
#include "experiments/run/event_folder.h"
#include "experiments/run/memory_plan.h"
#include "experiments/spec/known_names.h"
#include "experiments/spec/spec.h"
#include "experiments/spec/trace_steps.h"
#include "experiments/train/worker.h"
#include "experiments/train/worker_exit.h"

namespace longhaul {
namespace {

struct WorkerArguments {
  std::string spec;
  std::vector<std::string> sets;
  std::string checkpoints;
  std::string interface;
  std::string events;
  int events_fd = 1;
  int phase_fd = -1;
  int life = -1;
  bool resumes = false;
  std::string trace_steps;
  int serve_store = 0;
  int group = -1;
  std::string store;
};

// In a lab its reader takes a group that left for what it is; to another launcher, who would start
// it anew, it has done all it should.
int ExitStatus(const RunSpec& spec, const absl::Status& status, bool lab) {
  const int exit = WorkerExit(spec, status);
  return !lab && exit == kExitLeft ? 0 : exit;
}

int Work(const WorkerArguments& arguments) {
  if (arguments.serve_store > 0) {
    const absl::Status served = ServeStore(arguments.serve_store, STDIN_FILENO);
    return served.ok() ? 0 : Fail(served);
  }
  absl::StatusOr<RunSpec> spec = LoadRunSpec(arguments.spec, arguments.sets, CatalogNames());
  if (!spec.ok()) return Fail(spec.status());
  if (!arguments.trace_steps.empty()) {
    const absl::StatusOr<TraceSteps> steps = ParseTraceSteps(arguments.trace_steps, *spec);
    if (!steps.ok()) return Fail(steps.status());
    spec->trace = *steps;
  }
  absl::StatusOr<WorkerPlace> place = PlaceFromEnvironment();
  if (!place.ok()) return Fail(place.status());
  place->interface = arguments.interface;
  place->phase_fd = arguments.phase_fd;
  place->life = arguments.life;
  place->resumes = arguments.resumes;
  if (arguments.group >= 0) {
    const absl::Status placed = PlaceInGroup(*spec, arguments.group, arguments.store, &*place);
    if (!placed.ok()) return Fail(placed);
  }
  place->gpu_bytes = GpuBytesOfRank(*spec, place->rank);
  Fd file;
  if (!arguments.events.empty()) {
    absl::StatusOr<Fd> opened = OpenEventFile(arguments.events, *spec, place->rank);
    if (!opened.ok()) return Fail(opened.status());
    file = *std::move(opened);
  }
  FdEventSink sink(file.ok() ? file.get() : arguments.events_fd);
  const absl::Status status = RunWorker(*spec, *place, arguments.checkpoints, sink);
  if (status.ok()) return 0;
  // Told as an event; in a lab its reader says it, once for all ranks.
  if (arguments.phase_fd < 0) Fail(status);
  return ExitStatus(*spec, status, arguments.phase_fd >= 0);
}

}  // namespace

void AddWorkerCommand(CLI::App& app, int* exit_status) {
  auto arguments = std::make_shared<WorkerArguments>();
  CLI::App* command = app.add_subcommand(
      "worker",
      "one rank of a run, placed by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: what 'run' "
      "starts in every node, and what torchrun or Slurm start on a cluster");
  command->add_option("spec", arguments->spec, "the run's TOML file")->required();
  command->add_option("--set", arguments->sets, "override, e.g. --set boundary.forward=none");
  command->add_option("--checkpoints", arguments->checkpoints, "folder of this run's checkpoints");
  command->add_option(
      "--interface", arguments->interface,
      "the interface that all traffic must cross (default: LONGHAUL_INTERFACE, else the "
      "only one, or of several the one that leads to MASTER_ADDR)");
  command->add_option("--events", arguments->events,
                      "folder for this rank's events, from which 'ingest' makes the record");
  command->add_option("--events-fd", arguments->events_fd,
                      "descriptor for events, one JSON object a line (default: 1)");
  command->add_option("--phase-fd", arguments->phase_fd, "the lab's gate (default: none)");
  command->add_option("--life", arguments->life,
                      "how often the lab has started this rank's group before");
  command->add_flag("--resumes", arguments->resumes,
                    "where the lab starts groups anew: every rank has a checkpoint to go on from");
  command->add_option("--trace-steps", arguments->trace_steps,
                      "tell the lab's reader a trace of steps A:B (longhaul run --trace)");
  CLI::Option* const store = command->add_option(
      "--store", arguments->store, "HOST:PORT of the run's c10d store, of a worker --serve-store");
  command
      ->add_option("--group", arguments->group,
                   "this launcher's workers are this group, from 0, of a run that goes on without "
                   "a lost one: RANK and WORLD_SIZE are within it")
      ->needs(store);
  command
      ->add_option("--serve-store", arguments->serve_store,
                   "train nothing: serve the c10d store at this port until stdin ends")
      ->check(CLI::Range(1, 65535));
  command->callback([arguments, exit_status] { *exit_status = Work(*arguments); });
}

}  // namespace longhaul
