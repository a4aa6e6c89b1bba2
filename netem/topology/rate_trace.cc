#include "netem/topology/rate_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "netem/topology/figure_text.h"
#include "netem/topology/queue_limits.h"
#include "netem/topology/text_file.h"
#include "netem/topology/toml_tree.h"

namespace longhaul {
namespace {

constexpr int64_t kMaxFileBytes = 32 << 20;
constexpr uint32_t kMaxTimeMs = 86'400'000;  // a day
constexpr int64_t kNsPerMs = 1'000'000;
constexpr size_t kShownBytes = 27;  // of a line that is no number
constexpr size_t kShownHeading = 60;

absl::Status Bad(const std::string& file, size_t line, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("{}:{}: {}", file, line, why));
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
  const int64_t length_ns = trace.length_ms * kNsPerMs;
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
    count -= at.end() - std::lower_bound(at.begin(), at.end(), trace.length_ms);
  }
  return count;
}

BitsPerSecond AsRate(int64_t opportunities, absl::Duration time, int mtu) {
  const double bits = static_cast<double>(opportunities * kOpportunityBytes * 8);
  return {bits / absl::ToDoubleSeconds(time) * static_cast<double>(FrameBytes(mtu)) / mtu};
}

constexpr double kMaxMbit = 1e6;
constexpr size_t kMostOpportunities = 20'000'000;

std::string_view TakeLine(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<double> NumberIn(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct TraceSample {
  double at_s, mbit;
};

// What a number of each column is: seconds, and Mbit/s. Told by the first line.
struct TraceUnits {
  double seconds, mbit;
};
absl::StatusOr<TraceUnits> UnitsOf(std::string_view heading, const std::string& file) {
  const size_t comma = heading.find(',');
  const std::vector<double> times = TimeUnitsIn(heading.substr(0, comma));
  const std::vector<double> rates = RateUnitsIn(heading.substr(comma + 1));
  const bool two_columns = heading.find(',', comma + 1) == heading.npos;
  if (two_columns && times.size() == 1 && rates.size() == 1 && !std::isnan(rates[0])) {
    return TraceUnits{times[0], rates[0] / 1e6};
  }
  return Bad(file, 1,
             fmt::format("'{}' does not name the units of two columns; begin the file with a line "
                         "such as 'seconds, Mbit/s' or 'ms, kbit/s'",
                         Shown(heading, kShownHeading)));
}

absl::StatusOr<std::vector<TraceSample>> ParseSamples(std::string_view text,
                                                      const std::string& file) {
  ASSIGN_OR_RETURN(const TraceUnits units, UnitsOf(TakeLine(text), file));
  std::vector<TraceSample> samples;
  for (size_t number = 2; !text.empty(); ++number) {
    const std::string_view line = TakeLine(text);
    const size_t comma = line.find(',');
    auto at = NumberIn(line.substr(0, comma));
    auto mbit = comma == line.npos ? std::nullopt : NumberIn(line.substr(comma + 1));
    if (!at || !mbit) {
      return Bad(
          file, number,
          fmt::format("'{}': want two numbers, a time and a rate", Shown(line, kShownBytes)));
    }
    *at *= units.seconds;
    *mbit *= units.mbit;
    // Also false for what is no number.
    const bool rate_fits = *mbit >= 0 && *mbit <= kMaxMbit;
    if (!rate_fits) {
      return Bad(file, number, fmt::format("{} Mbit/s: want 0 to {}", *mbit, kMaxMbit));
    }
    const bool time_fits =
        samples.empty() ? *at == 0 : *at > samples.back().at_s && *at <= kMaxTimeMs / 1e3;
    if (!time_fits) {
      return Bad(file, number,
                 samples.empty() ? fmt::format("the first time is {} s: want 0", *at)
                                 : fmt::format("{} s comes after {} s: want times that grow, up to "
                                               "a day",
                                               *at, samples.back().at_s));
    }
    samples.push_back({*at, *mbit});
  }
  if (samples.empty()) return Bad(file, 1, "no sample: want a time and a rate a line");
  return samples;
}

// An opportunity whenever the samples have added up to one more full frame.
absl::StatusOr<std::shared_ptr<const RateTrace>> FromSamples(std::string_view text,
                                                             const std::string& file) {
  ASSIGN_OR_RETURN(std::vector<TraceSample> samples, ParseSamples(text, file));
  const size_t n = samples.size();
  const double last = n == 1 ? 1 : samples[n - 1].at_s - samples[n - 2].at_s;
  samples.push_back({samples.back().at_s + last, 0});
  auto trace = std::make_shared<RateTrace>();
  trace->file = file;
  constexpr double kFrameBits = (kOpportunityBytes + 14) * 8.0, kRounding = 1e-12,
                   kRoundingMs = 1e-6;
  double bits = 0;  // sent before the sample
  for (size_t i = 0; i < n; ++i) {
    const auto& [at_s, mbit] = samples[i];
    const double length_s = samples[i + 1].at_s - at_s, more = mbit * 1e6 * length_s;
    const double have = static_cast<double>(trace->opportunities_ms.size());
    if ((bits + more) / kFrameBits > static_cast<double>(kMostOpportunities)) {
      return Bad(file, i + 2, fmt::format("more than {} frames up to here", kMostOpportunities));
    }
    // Sums of fractions are a little off: a frame that is whole but for that is whole.
    const double whole = (bits + more) * (1 + kRounding);
    for (double k = have + 1; mbit > 0 && k * kFrameBits <= whole; ++k) {
      const double at_ms = 1e3 * (at_s + std::max(0.0, k * kFrameBits - bits) / (mbit * 1e6));
      trace->opportunities_ms.push_back(static_cast<uint32_t>(at_ms + kRoundingMs));
    }
    bits += more;
  }
  trace->length_ms = static_cast<uint32_t>(std::llround(1e3 * samples.back().at_s));
  if (trace->opportunities_ms.empty() || trace->length_ms == 0) {
    return Bad(file, n + 1, "its rates do not add up to one frame of 1514 bytes");
  }
  return trace;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RateTrace>> ParseRateTrace(std::string_view text,
                                                                const std::string& file) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // as some editors begin a file
  if (text.substr(0, text.find('\n')).find(',') != text.npos) return FromSamples(text, file);
  auto trace = std::make_shared<RateTrace>();
  trace->file = file;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::string_view line = TakeLine(text);
    uint64_t ms = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), ms);
    const bool huge = error == std::errc::result_out_of_range || ms > kMaxTimeMs;
    if (error == std::errc::invalid_argument || end != line.data() + line.size()) {
      return Bad(
          file, number,
          fmt::format("'{}': want one whole number of milliseconds{}", Shown(line, kShownBytes),
                      number == 1 ? "; a file of times and rates begins with a line that "
                                    "names both units, 'seconds, Mbit/s'"
                                  : ""));
    }
    if (huge) {
      return Bad(
          file, number,
          fmt::format("'{}': want at most {} ms, a day", Shown(line, kShownBytes), kMaxTimeMs));
    }
    if (!trace->opportunities_ms.empty() && ms < trace->opportunities_ms.back()) {
      return Bad(file, number,
                 fmt::format("{} ms comes after {} ms: want times that never decrease; a file of "
                             "rates begins with a line that names units, 'seconds, Mbit/s'",
                             ms, trace->opportunities_ms.back()));
    }
    trace->opportunities_ms.push_back(static_cast<uint32_t>(ms));
  }
  if (number == 0) return Bad(file, 1, "an empty rate trace: want a millisecond a line");
  if (trace->opportunities_ms.back() == 0) {
    return Bad(file, number, "the last time is 0 ms: the trace would last no time");
  }
  trace->length_ms = trace->opportunities_ms.back();
  return trace;
}

absl::StatusOr<std::shared_ptr<const RateTrace>> ReadRateTrace(const std::string& file) {
  if (file.empty()) return absl::InvalidArgumentError("rate trace: no file is named");
  ASSIGN_OR_RETURN(const auto text, ReadBounded(file));
  return ParseRateTrace(text, file);
}

absl::Duration LengthOf(const RateTrace& trace) { return absl::Milliseconds(trace.length_ms); }

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
  uint32_t longest = at.front() + trace.length_ms - at.back();  // over the end of a turn
  for (size_t i = 1; i < at.size(); ++i) longest = std::max(longest, at[i] - at[i - 1]);
  return absl::Milliseconds(longest);
}

int64_t OpportunityNs(const RateTrace& trace, int64_t k) {
  const auto size = static_cast<int64_t>(trace.opportunities_ms.size());
  const int64_t turn = k / size;
  return (turn * trace.length_ms + trace.opportunities_ms[k % size]) * kNsPerMs;
}

int64_t FirstOpportunityAfter(const RateTrace& trace, int64_t ns) {
  return ns < 0 ? 0 : CountBefore(trace, ns, Edge::kClosed);
}

}  // namespace longhaul
