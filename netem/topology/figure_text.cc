#include "netem/topology/figure_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/status_macros.h"

namespace longhaul {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kRates[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
constexpr Unit kTimes[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
constexpr Unit kShares[] = {{"%", 0.01}};

// `bare`: what to say of a number without a unit.
template <size_t kCount>
absl::StatusOr<double> WithUnit(std::string_view key, std::string_view text,
                                const Unit (&units)[kCount], std::string_view want,
                                const auto& bare) {
  double number = 0;
  std::string name;
  const bool read = TakeNumber(text, number, name) && std::isfinite(number);
  if (read && name.empty() && number == 0) return 0;
  if (read && name.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}={}: want its unit: {}", key, text, bare(number)));
  }
  for (const Unit& unit : units) {
    if (read && unit.name == name) return number * unit.factor;
  }
  return absl::InvalidArgumentError(fmt::format("{}={}: want {}", key, text, want));
}

constexpr double kUnclear = std::numeric_limits<double>::quiet_NaN();
constexpr Unit kTimesInHeadings[] = {
    {"s", 1},       {"sec", 1},      {"secs", 1},      {"second", 1},    {"seconds", 1},
    {"ms", 1e-3},   {"msec", 1e-3},  {"msecs", 1e-3},  {"millis", 1e-3}, {"millisecond", 1e-3},
    {"usec", 1e-6}, {"usecs", 1e-6}, {"micros", 1e-6}, {"ns", 1e-9},     {"milliseconds", 1e-3},
    {"nsec", 1e-9}, {"nanos", 1e-9}, {"minute", 60},   {"minutes", 60},  {"microseconds", 1e-6},
    {"hour", 3600}, {"hours", 3600}, {"day", 86400},   {"days", 86400},  {"nanoseconds", 1e-9}};
constexpr Unit kRatesInHeadings[] = {
    {"bit", 1},          {"bits", 1},         {"bps", 1},           {"kbit", 1e3},
    {"kbits", 1e3},      {"kbps", 1e3},       {"mbit", 1e6},        {"mbits", 1e6},
    {"mbps", 1e6},       {"gbit", 1e9},       {"gbits", 1e9},       {"gbps", 1e9},
    {"kb", kUnclear},    {"mb", kUnclear},    {"gb", kUnclear},     {"kib", kUnclear},
    {"mib", kUnclear},   {"gib", kUnclear},   {"byte", kUnclear},   {"bytes", kUnclear},
    {"kbyte", kUnclear}, {"mbyte", kUnclear}, {"kbytes", kUnclear}, {"mbytes", kUnclear}};

// Words are letters and digits; a capital B in a rate's unit is a byte.
template <size_t kCount>
std::vector<double> UnitsIn(std::string_view heading, const Unit (&units)[kCount]) {
  std::vector<double> found;
  std::string word, small;
  const auto take = [&] {
    for (const Unit& unit : units) {
      if (unit.name != small) continue;
      const double factor = word.find('B') == word.npos ? unit.factor : kUnclear;
      if (std::find(found.begin(), found.end(), factor) == found.end()) found.push_back(factor);
    }
    word.clear();
    small.clear();
  };
  for (const char c : heading) {
    const auto letter = static_cast<unsigned char>(c);
    if (isalnum(letter) == 0) {
      take();
      continue;
    }
    word.push_back(c);
    small.push_back(static_cast<char>(tolower(letter)));
  }
  take();
  return found;
}

}  // namespace

std::vector<double> TimeUnitsIn(std::string_view heading) {
  return UnitsIn(heading, kTimesInHeadings);
}

std::vector<double> RateUnitsIn(std::string_view heading) {
  return UnitsIn(heading, kRatesInHeadings);
}

bool TakeNumber(std::string_view text, double& number, std::string& unit) {
  const std::string whole(text);
  char* end = nullptr;
  number = strtod(whole.c_str(), &end);
  if (end == whole.c_str()) return false;
  unit = end;
  for (char& c : unit) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  return true;
}

absl::StatusOr<absl::Duration> ReadTime(std::string_view key, std::string_view text) {
  ASSIGN_OR_RETURN(const auto seconds,
                   WithUnit(key, text, kTimes, "a time such as 20ms, 300us or 1.5s", [&](double) {
                     const bool long_one = key == "outage" || key == "grace";
                     return long_one ? fmt::format("{0}s or {0}ms", text)
                                     : fmt::format("{0}ms, or {0}us, as tc reads it", text);
                   }));
  return absl::Seconds(seconds);
}

absl::StatusOr<BitsPerSecond> ReadRate(std::string_view key, std::string_view text) {
  const auto rate =
      WithUnit(key, text, kRates, "a rate such as 50mbit, 1gbit or 500kbit, or none",
               [&](double) { return fmt::format("{0}mbit, or {0}bit, as tc reads it", text); });
  if (!rate.ok()) return rate.status();
  return BitsPerSecond{*rate};
}

absl::StatusOr<double> ReadShare(std::string_view key, std::string_view text) {
  return WithUnit(key, text, kShares, "a share such as 1% or 0.05%", [&](double number) {
    return number > 1 ? fmt::format("{}%", text)
                      : fmt::format("{}%, as tc reads it, or {:g}% for a probability of {}", text,
                                    100 * number, text);
  });
}

}  // namespace longhaul
