#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "experiments/spec/spec.h"
#include "experiments/train/event_stream.h"

namespace longhaul {

// Where one worker process stands. From the standard torch environment (RANK, WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT), so torchrun or Slurm can start workers on a cluster too.
struct WorkerPlace {
  int rank;
  int world_size;  // must be S x G
  std::string master_address;
  int master_port;
  std::string interface;  // "net0" in the lab; empty: as NodeOptions::interface
  int phase_fd = -1;      // phase_gate.h; -1: no lab
  int life = -1;          // of its group, where the lab starts groups anew; -1: it does not
  bool resumes = false;   // the lab sees a checkpoint of which every rank has a file
  // Its group has a launcher of its own (PlaceInGroup): the store counts the group's lives.
  bool counts_lives = false;
  int64_t gpu_bytes = 0;  // of its GPU, at most (memory_plan.h); not from the environment
};

// Where each group of a run that goes on without a lost one has a launcher of its own: `place`,
// from the environment, is one within `group`, and becomes one within the run, whose c10d store is
// served at `store`, "HOST:PORT". InvalidArgument.
absl::Status PlaceInGroup(const RunSpec& spec, int group, const std::string& store,
                          WorkerPlace* place);

// FailedPrecondition naming the variable that is missing or not a number.
absl::StatusOr<WorkerPlace> PlaceFromEnvironment();

// Serves a c10d store at `port` until `keys` ends; each line there is a key to set.
absl::Status ServeStore(int port, int keys);

// How a worker process ends with what RunWorker returned (worker_exit.h).
int WorkerExit(const RunSpec& spec, const absl::Status& status);

// Runs one rank over ucx to the end of the run. Errors are emitted as "failed" and returned.
absl::Status RunWorker(const RunSpec& spec, const WorkerPlace& place,
                       const std::string& checkpoint_directory, FdEventSink& sink);

}  // namespace longhaul
