#include "pp_group/state/handover.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pp_group/c10d_status.h"

namespace longhaul {
namespace {

struct Named {
  std::string file;
  at::Tensor tensor;  // [N] f32
};

// The same on every member.
std::vector<Named> Common(const RankState& state) {
  std::vector<Named> common = {{"outer_start.f32", state.outer->theta_start()}};
  for (const auto& [section, tensor] : state.outer->state()) {
    common.push_back({section.substr(section.find('.') + 1) + ".f32", tensor});
  }
  return common;
}

// A member's own.
std::vector<Named> Moments(const RankState& state) {
  if (state.optimizer == nullptr) return {};
  return {{"first.f32", state.optimizer->first_moment()},
          {"second.f32", state.optimizer->second_moment()}};
}

// In the order in which they travel.
std::vector<at::Tensor> HandedOver(const RankState& state) {
  std::vector<at::Tensor> tensors;
  for (const Named& x : Common(state)) tensors.push_back(x.tensor);
  for (const Named& x : Moments(state)) tensors.push_back(x.tensor);
  return tensors;
}

void SetParametersToStart(RankState* state) {
  state->stage->parameters().copy_(state->outer->theta_start());
  state->stage->ParametersChanged();
}

at::Tensor SliceOf(const at::Tensor& moment, size_t place, size_t givers) {
  const auto n = moment.numel(), k = static_cast<int64_t>(place),
             all = static_cast<int64_t>(givers);
  return moment.slice(0, k * n / all, (k + 1) * n / all);
}

absl::Status Failed(const char* what, const std::string& path, int error) {
  const std::string text = absl::StrCat(what, " ", path, ": ", strerror(error));
  return error == ENOSPC ? absl::ResourceExhaustedError(text) : absl::FailedPreconditionError(text);
}

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return Failed("make folder", path, errno);
}

absl::Status WriteTensor(const at::Tensor& x, const std::string& path) {
  const at::Tensor host = x.cpu().contiguous();
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return Failed("create", path, errno);
  const char* at = static_cast<const char*>(host.const_data_ptr());
  size_t left = host.nbytes();
  while (left > 0) {
    const ssize_t n = write(fd, at, left);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    at += n;
    left -= static_cast<size_t>(n);
  }
  const int error = left > 0 ? errno : 0;
  close(fd);
  return error == 0 ? absl::OkStatus() : Failed("write", path, error);
}

absl::Status ReadTensor(const std::string& path, const at::Tensor& x) {
  const at::Tensor host = at::empty(x.sizes(), at::kFloat);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::DataLossError(absl::StrCat("open ", path, ": ", strerror(errno)));
  char* at = static_cast<char*>(host.mutable_data_ptr());
  size_t left = host.nbytes();
  struct stat about {};
  const bool fits = fstat(fd, &about) == 0 && about.st_size == static_cast<off_t>(left);
  while (fits && left > 0) {
    const ssize_t n = read(fd, at, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += n;
    left -= static_cast<size_t>(n);
  }
  close(fd);
  if (!fits || left > 0) {
    return absl::DataLossError(absl::StrCat(path, " has ", about.st_size, " bytes; want ",
                                            host.nbytes(), ": of another model or torn"));
  }
  x.copy_(host);
  return absl::OkStatus();
}

}  // namespace

std::string MomentsPart(int place) { return absl::StrCat("moments-", place); }

void CopyState(const RankState& from, RankState* to) {
  const std::vector<at::Tensor> sources = HandedOver(from), targets = HandedOver(*to);
  for (size_t i = 0; i < sources.size(); ++i) targets[i].copy_(sources[i]);
  SetParametersToStart(to);
}

bool CopyStateOfAll(const std::vector<const RankState*>& givers, RankState* to) {
  const auto any = std::find_if(givers.begin(), givers.end(), [](auto* g) { return g != nullptr; });
  if (any == givers.end()) return false;
  CopyState(**any, to);
  const std::vector<Named> targets = Moments(*to);
  for (size_t k = 0; k < givers.size(); ++k) {
    for (size_t i = 0; i < targets.size(); ++i) {
      const at::Tensor slice = SliceOf(targets[i].tensor, k, givers.size());
      if (givers[k] == nullptr) {
        slice.zero_();
      } else {
        slice.copy_(SliceOf(Moments(*givers[k])[i].tensor, k, givers.size()));
      }
    }
  }
  return true;
}

absl::Status SendState(const RankState& state, c10d::Backend& to, int peer) {
  return StatusFromTorch("hand the state over", [&] {
    std::vector<WorkPtr> sent;
    for (const at::Tensor& x : HandedOver(state)) sent.push_back(SendTensor(to, x, peer));
    for (WorkPtr& work : sent) WaitAndReset(&work);
  });
}

absl::Status ReceiveState(RankState* state, c10d::Backend& from, int peer) {
  const absl::Status taken = StatusFromTorch("take the state over", [&] {
    std::vector<WorkPtr> received;
    for (const at::Tensor& x : HandedOver(*state)) received.push_back(ReceiveTensor(from, x, peer));
    for (WorkPtr& work : received) WaitAndReset(&work);
  });
  if (taken.ok()) SetParametersToStart(state);
  return taken;
}

absl::Status WriteState(const RankState& state, int place, int givers, const std::string& folder) {
  const std::string common = absl::StrCat(folder, "/", kStatePart);
  RETURN_IF_ERROR(MakeFolder(common));
  for (const Named& x : Common(state)) {
    RETURN_IF_ERROR(WriteTensor(x.tensor, absl::StrCat(common, "/", x.file)));
  }
  const std::vector<Named> moments = Moments(state);
  if (moments.empty()) return absl::OkStatus();
  const std::string own = absl::StrCat(folder, "/", MomentsPart(place));
  RETURN_IF_ERROR(MakeFolder(own));
  for (const Named& x : moments) {
    const at::Tensor slice =
        SliceOf(x.tensor, static_cast<size_t>(place), static_cast<size_t>(givers));
    RETURN_IF_ERROR(WriteTensor(slice, absl::StrCat(own, "/", x.file)));
  }
  return absl::OkStatus();
}

absl::Status ReadState(const std::string& folder, const std::vector<bool>& lost, RankState* state) {
  for (const Named& x : Common(*state)) {
    RETURN_IF_ERROR(ReadTensor(absl::StrCat(folder, "/", kStatePart, "/", x.file), x.tensor));
  }
  for (const Named& x : Moments(*state)) {
    for (size_t k = 0; k < lost.size(); ++k) {
      const at::Tensor slice = SliceOf(x.tensor, k, lost.size());
      if (lost[k]) {
        slice.zero_();
        continue;
      }
      const std::string part = MomentsPart(static_cast<int>(k));
      RETURN_IF_ERROR(ReadTensor(absl::StrCat(folder, "/", part, "/", x.file), slice));
    }
  }
  SetParametersToStart(state);
  return absl::OkStatus();
}

}  // namespace longhaul
