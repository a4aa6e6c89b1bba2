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
      "Start one rank of a run under torchrun or Slurm; RANK, WORLD_SIZE, MASTER_ADDR and "
      "MASTER_PORT place it");
  command->group("Cluster");
  command->footer(
      "Example:\n"
      "  torchrun --nproc-per-node 2 --no-python longhaul worker first.toml --events events");
  command->add_option("spec", arguments->spec, kSpecHelp)->required();
  command->add_option("--set", arguments->sets, kSetHelp);
  command->add_option("--checkpoints", arguments->checkpoints, "Folder of this run's checkpoints");
  command->add_option(
      "--interface", arguments->interface,
      "Interface that all traffic must cross [default: LONGHAUL_INTERFACE, else the one that "
      "leads to MASTER_ADDR]");
  command->add_option("--events", arguments->events,
                      "Folder for this rank's events; 'ingest' makes a record of them");
  command->add_option("--events-fd", arguments->events_fd,
                      "Descriptor for events, one JSON object per line [default: 1]");
  command->add_option("--phase-fd", arguments->phase_fd,
                      "Descriptor of the lab's gate [default: none]");
  command->add_option("--life", arguments->life,
                      "Number of earlier starts of this rank's group by the lab");
  command->add_flag("--resumes", arguments->resumes,
                    "Resume: every rank of a restarted group has a checkpoint");
  command->add_option("--trace-steps", arguments->trace_steps,
                      "Send a trace of these steps to the lab (longhaul run --trace)");
  CLI::Option* const store =
      command->add_option("--store", arguments->store,
                          "Address of the run's c10d store, of a worker with --serve-store");
  command
      ->add_option(
          "--group", arguments->group,
          "Number of this launcher's group, from 0, in a run that continues without a lost "
          "group; RANK and WORLD_SIZE count within the group")
      ->needs(store);
  command
      ->add_option("--serve-store", arguments->serve_store,
                   "Train nothing; serve the c10d store at this port until stdin ends")
      ->check(CLI::Range(1, 65535));
  command->callback([arguments, exit_status] { *exit_status = Work(*arguments); });
}

}  // namespace longhaul
