#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "netem/lab_control/lab_messages.h"
#include "netem/lab_control/lab_store.h"

namespace longhaul {

// One request (lab_messages.h) and its answer; an answer that is an error comes as that status.
// FailedPrecondition: the lab is of another version. Cancelled: `cancel_fd` has become readable.
absl::StatusOr<Received> AskLab(const LabStore& store, const std::string& lab,
                                const nlohmann::json& request,
                                absl::Duration timeout = absl::Seconds(10), int cancel_fd = -1);

// "info" of every lab that is up, by name; removes what dead ones left. A lab that does not answer
// is {"name": ..., "health": why}.
std::vector<nlohmann::json> ListLabs(const LabStore& store);

// Ends a lab, by force where it does not answer, and waits until it is gone. OK for one that was
// dead already and had left files. NotFound: no lab of that name.
absl::Status TakeDown(const LabStore& store, const std::string& lab);

}  // namespace longhaul
