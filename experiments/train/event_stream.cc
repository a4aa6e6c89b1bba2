#include "experiments/train/event_stream.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "experiments/record/row_json.h"

namespace longhaul {

void FdEventSink::Emit(const nlohmann::json& event) {
  if (!status_.ok()) return;
  std::string line = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  line += '\n';
  if (line.size() > PIPE_BUF) {
    status_ = absl::InternalError(absl::StrCat("event of ", line.size(), " bytes, limit ", PIPE_BUF,
                                               ": ", line.substr(0, 80), "..."));
    return;
  }
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t n = write(fd_, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      status_ = absl::UnavailableError(
          absl::StrCat("write an event to descriptor ", fd_, ": ", strerror(errno)));
      return;
    }
    written += n;
  }
}

bool IsGroupLoss(const absl::Status& failure) {
  return absl::IsUnavailable(failure) || absl::IsDeadlineExceeded(failure) ||
         absl::IsAborted(failure) || absl::IsCancelled(failure);
}

void FdEventSink::EmitFailure(int rank, int64_t step, const absl::Status& failure) {
  if (failed_) return;
  failed_ = true;
  std::string message(
      failure.message());  // torch's goes on with a stack trace below the first line
  message.resize(std::min({message.find('\n'), message.size(), size_t{2000}}));
  if (run_goes_on_ && IsGroupLoss(failure)) {
    Emit({{"event", "lost"}, {"rank", rank}, {"step", step}, {"message", message}});
    return;
  }
  Emit({{"event", "failed"},
        {"rank", rank},
        {"step", step},
        {"diverged", absl::IsOutOfRange(failure)},
        {"invalid", absl::IsAborted(failure)},
        {"stood_still", rank < 0 && absl::IsDeadlineExceeded(failure)},
        {"message", message}});
}

// An event is at most PIPE_BUF; what goes on for longer is another file.
constexpr size_t kLongestLine = 1 << 20;

absl::StatusOr<bool> EventReader::Fill() {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = read(fd_, buffer, sizeof buffer);
    if (n > 0) {
      pending_.append(buffer, n);
      if (pending_.size() > sizeof buffer + kLongestLine && pending_.find('\n') == pending_.npos) {
        return absl::DataLossError(absl::StrCat("not an event: a line of more than ", kLongestLine,
                                                " bytes: '", pending_.substr(0, 40), "...'"));
      }
      return true;
    }
    if (n == 0) return false;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
    return absl::UnavailableError(absl::StrCat("read events: ", strerror(errno)));
  }
}

bool EventReader::NextLine(std::string* line) {
  const size_t end = pending_.find('\n');
  if (end == std::string::npos) return false;
  *line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return true;
}

absl::StatusOr<nlohmann::json> EventReader::Parse(const std::string& line) {
  nlohmann::json event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!event.is_object() || !event.contains("event")) {
    return absl::DataLossError(absl::StrCat("not an event: '", line.substr(0, 120), "'"));
  }
  return event;
}

void EmitFault(const Fault& fault, int64_t step, const std::string& said, EventSink& sink) {
  sink.Emit(EventOf("fault", FaultRow{.number = 0,
                                      .step = step,
                                      .what = std::string(ToString(fault.what)),
                                      .place = ToString(fault.where),
                                      .group_index = fault.where.group,
                                      .said = said.empty() && fault.planned ? kByPlan : said}));
}

}  // namespace longhaul
