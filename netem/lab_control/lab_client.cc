#include "netem/lab_control/lab_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace longhaul {
namespace {

constexpr absl::Duration kEndDeadline = absl::Seconds(5);

bool GoneWithin(const LabStore& store, const std::string& lab, absl::Duration deadline) {
  const absl::Time end = MonotonicNow() + deadline;
  while (store.Holder(lab)) {
    if (MonotonicNow() >= end) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

}  // namespace

absl::StatusOr<Received> AskLab(const LabStore& store, const std::string& lab,
                                const nlohmann::json& request, absl::Duration timeout,
                                int cancel_fd) {
  RETURN_IF_ERROR(CheckLabName(lab));
  ASSIGN_OR_RETURN(auto socket, store.Connect(lab));
  RETURN_IF_ERROR(SendLine(socket, request));
  auto answer = ReceiveLine(socket, timeout, cancel_fd);
  if (!answer.ok()) {
    return absl::Status(answer.status().code(),
                        fmt::format("lab '{}': {}", lab, std::string(answer.status().message())));
  }
  RETURN_IF_ERROR(StatusOfAnswer(answer->message));
  if (answer->message.value("protocol", kLabProtocol) != kLabProtocol) {
    return absl::FailedPreconditionError(fmt::format(
        "lab '{}' was started by another version of longhaul; take it down and up again", lab));
  }
  return answer;
}

std::vector<nlohmann::json> ListLabs(const LabStore& store) {
  std::vector<nlohmann::json> labs;
  for (const std::string& lab : store.Names()) {
    if (!store.Holder(lab)) {
      store.RemoveIfDead(lab);
      continue;
    }
    auto info = AskLab(store, lab, {{"do", "info"}});
    if (info.ok()) {
      labs.push_back(std::move(info->message));
    } else {
      labs.push_back({{"name", lab}, {"health", std::string(info.status().message())}});
    }
  }
  return labs;
}

absl::Status TakeDown(const LabStore& store, const std::string& lab) {
  RETURN_IF_ERROR(CheckLabName(lab));
  const std::vector<std::string> names = store.Names();
  if (std::find(names.begin(), names.end(), lab) == names.end()) {
    return absl::NotFoundError(fmt::format("no lab '{}' is up", lab));
  }
  Fd keeper = store.Keeper(lab);  // while its lab lives: afterwards nothing names it
  const absl::Status told = AskLab(store, lab, {{"do", "down"}}, kEndDeadline).status();
  if (absl::IsResourceExhausted(told)) return told;
  if (!told.ok() || !GoneWithin(store, lab, kEndDeadline)) {
    RETURN_IF_ERROR(store.Kill(lab));
  }
  if (!GoneWithin(store, lab, kEndDeadline) ||
      (keeper.ok() && !EndLabProcesses(std::move(keeper)))) {
    return absl::DeadlineExceededError(fmt::format("lab '{}' does not end", lab));
  }
  store.RemoveIfDead(lab);
  return absl::OkStatus();
}

}  // namespace longhaul
