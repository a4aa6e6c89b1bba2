#include "netem/lab/lab_answer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "netem/kernel/posix.h"
#include "netem/lab/lab.h"

namespace longhaul {

absl::StatusOr<std::string> AskInLab(const std::function<absl::StatusOr<std::string>()>& question) {
  int answer[2];
  if (pipe2(answer, O_CLOEXEC) != 0) return ErrnoStatus("lab: pipe", errno);
  const Fd reader(answer[0]);
  Fd writer(answer[1]);
  auto lab = StartLab(
      [&] {
        const absl::StatusOr<std::string> found = question();
        std::string text(1, static_cast<char>(found.status().code()));
        text += found.ok() ? *found : std::string(found.status().message());
        return write(writer.get(), text.data(), text.size()) < 0 ? 1 : 0;
      },
      {writer.get()});
  writer.reset();
  if (!lab.ok()) return lab.status();
  std::string text;
  char buffer[1024];
  for (ssize_t n = 0; (n = read(reader.get(), buffer, sizeof buffer)) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
  }
  int status = 0;
  waitpid(lab->pid, &status, 0);
  if (text.empty()) {
    return absl::InternalError(fmt::format("lab: it ended without an answer, status {}", status));
  }
  const auto code = static_cast<absl::StatusCode>(text[0]);
  if (code != absl::StatusCode::kOk) return absl::Status(code, text.substr(1));
  return text.substr(1);
}

}  // namespace longhaul
