#include "netem/topology/rate_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "netem/topology/queue_limits.h"
#include "netem/topology/text_file.h"

namespace longhaul {
namespace {

constexpr int64_t kMaxFileBytes = 32 << 20;
constexpr uint32_t kMaxTimeMs = 86'400'000;  // a day
constexpr int64_t kNsPerMs = 1'000'000;

absl::Status Bad(const std::string& file, size_t line, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("{}:{}: {}", file, line, why));
}

// What stands in a line that is no number, fit to be shown.
std::string Shown(std::string_view line) {
  std::string text;
  for (char c : line.substr(0, 24)) text += c >= ' ' && c <= '~' ? c : '?';
  return line.size() > 24 ? text + ".." : text;
}

absl::StatusOr<std::string> ReadBounded(const std::string& file) {
  FilesRead::Note(file);
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  // Looked at before it is opened: a pipe without a writer would be waited for.
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return absl::InvalidArgumentError(file + ": rate trace: no regular file");
  }
  const auto size = static_cast<int64_t>(fs::file_size(file, error));
  if (error) return absl::NotFoundError(fmt::format("{}: rate trace: {}", file, error.message()));
  if (size > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: rate trace of {} bytes: want at most {}", file, size, kMaxFileBytes));
  }
  std::ifstream in(file, std::ios::binary);
  std::string text(static_cast<size_t>(size), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in) return absl::NotFoundError(file + ": rate trace: cannot be read whole");
  return text;
}

// Opportunities in the first `ns` of the endless trace, or at their end as well.
enum class Edge { kOpen, kClosed };
int64_t CountBefore(const RateTrace& trace, int64_t ns, Edge edge) {
  const auto& at = trace.opportunities_ms;
  const int64_t length_ns = at.back() * kNsPerMs;
  // Of the turn that `ns` is in; at a turn's very end an opportunity of the next one may be at 0.
  const int64_t turn = ns / length_ns, rest_ns = ns % length_ns;
  const auto before = [&](int64_t limit_ns) {
    const auto less = [&](uint32_t ms, int64_t limit) {
      return edge == Edge::kOpen ? ms * kNsPerMs < limit : ms * kNsPerMs <= limit;
    };
    return std::lower_bound(at.begin(), at.end(), limit_ns, less) - at.begin();
  };
  int64_t count = turn * static_cast<int64_t>(at.size()) + before(rest_ns);
  if (edge == Edge::kOpen && turn > 0 && rest_ns == 0) {
    // The last ones of the turn before come at this very moment: they are not before it.
    count -= at.end() - std::lower_bound(at.begin(), at.end(), at.back());
  }
  return count;
}

BitsPerSecond AsRate(int64_t opportunities, absl::Duration time, int mtu) {
  const double bits = static_cast<double>(opportunities * kOpportunityBytes * 8);
  return {bits / absl::ToDoubleSeconds(time) * static_cast<double>(FrameBytes(mtu)) / mtu};
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RateTrace>> ParseRateTrace(std::string_view text,
                                                                const std::string& file) {
  auto trace = std::make_shared<RateTrace>();
  trace->file = file;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    uint64_t ms = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), ms);
    const bool huge = error == std::errc::result_out_of_range || ms > kMaxTimeMs;
    if (error == std::errc::invalid_argument || end != line.data() + line.size()) {
      return Bad(file, number,
                 fmt::format("'{}': want one whole number of milliseconds", Shown(line)));
    }
    if (huge) {
      return Bad(file, number,
                 fmt::format("'{}': want at most {} ms, a day", Shown(line), kMaxTimeMs));
    }
    if (!trace->opportunities_ms.empty() && ms < trace->opportunities_ms.back()) {
      return Bad(file, number,
                 fmt::format("{} ms comes after {} ms: want times that never decrease", ms,
                             trace->opportunities_ms.back()));
    }
    trace->opportunities_ms.push_back(static_cast<uint32_t>(ms));
  }
  if (number == 0) return Bad(file, 1, "an empty rate trace: want a millisecond a line");
  if (trace->opportunities_ms.back() == 0) {
    return Bad(file, number, "the last time is 0 ms: the trace would last no time");
  }
  return trace;
}

absl::StatusOr<std::shared_ptr<const RateTrace>> ReadRateTrace(const std::string& file) {
  if (file.empty()) return absl::InvalidArgumentError("rate trace: no file is named");
  const auto text = ReadBounded(file);
  if (!text.ok()) return text.status();
  return ParseRateTrace(*text, file);
}

absl::Duration LengthOf(const RateTrace& trace) {
  return absl::Milliseconds(trace.opportunities_ms.back());
}

BitsPerSecond MeanRate(const RateTrace& trace, int mtu) {
  return AsRate(static_cast<int64_t>(trace.opportunities_ms.size()), LengthOf(trace), mtu);
}

RateRange RatesWithin(const RateTrace& trace, int mtu, absl::Duration window) {
  const int64_t window_ns = std::max<int64_t>(1, absl::ToInt64Nanoseconds(window));
  const auto& at = trace.opportunities_ms;
  int64_t most = 0, least = INT64_MAX;
  for (uint32_t ms : at) {
    const int64_t from_ns = ms * kNsPerMs, to_ns = from_ns + window_ns;
    // [from, to] is the fullest that begins here, and what lies between the two the emptiest.
    most = std::max(
        most, CountBefore(trace, to_ns, Edge::kClosed) - CountBefore(trace, from_ns, Edge::kOpen));
    least = std::min(
        least, CountBefore(trace, to_ns, Edge::kOpen) - CountBefore(trace, from_ns, Edge::kClosed));
  }
  return {AsRate(std::max<int64_t>(0, least), window, mtu), AsRate(most, window, mtu)};
}

absl::Duration LongestWait(const RateTrace& trace) {
  const auto& at = trace.opportunities_ms;
  uint32_t longest = at.front();  // from the end of the turn before
  for (size_t i = 1; i < at.size(); ++i) longest = std::max(longest, at[i] - at[i - 1]);
  return absl::Milliseconds(longest);
}

int64_t OpportunityNs(const RateTrace& trace, int64_t k) {
  const auto size = static_cast<int64_t>(trace.opportunities_ms.size());
  const int64_t turn = k / size;
  return (turn * trace.opportunities_ms.back() + trace.opportunities_ms[k % size]) * kNsPerMs;
}

int64_t FirstOpportunityAfter(const RateTrace& trace, int64_t ns) {
  return ns < 0 ? 0 : CountBefore(trace, ns, Edge::kClosed);
}

}  // namespace longhaul
