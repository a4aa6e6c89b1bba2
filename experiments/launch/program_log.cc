#include "experiments/launch/program_log.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace longhaul {
namespace {

using nlohmann::json;

constexpr uint64_t kMostBytes = 256 << 20;
constexpr int64_t kMostCount = int64_t{1} << 53;  // whole numbers that a JSON writer keeps exact

// Reads one line's fields and remembers the first that is wrong.
class Line {
 public:
  explicit Line(const json& object) : object_(object) {}

  std::optional<double> Number(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end() || found->is_null()) return std::nullopt;
    if (found->is_number() && std::isfinite(found->get<double>())) return found->get<double>();
    Wrong(key, "a finite number");
    return std::nullopt;
  }
  // Of training that diverged: "nan".
  std::optional<double> Loss(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end() && *found == "nan") return std::nan("");
    return Number(key);
  }
  int64_t Count(const char* key, int64_t least, int64_t most) {
    const auto found = object_.find(key);
    if (found == object_.end()) return least;
    if (found->is_number_integer()) {
      const auto value = found->get<int64_t>();
      if (value >= least && value <= most) return value;
    }
    Wrong(key, fmt::format("a whole number, {} to {}", least, most));
    return least;
  }
  std::string Word(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end() && found->is_string() && found->get<std::string>().size() <= 256) {
      return found->get<std::string>();
    }
    Wrong(key, "text of at most 256 bytes");
    return "";
  }
  const std::string& wrong() const { return wrong_; }

 private:
  void Wrong(const char* key, const std::string& want) {
    if (wrong_.empty()) wrong_ = fmt::format("'{}': want {}", key, want);
  }
  const json& object_;
  std::string wrong_;
};

double NmseSum(const CrossingRow& row) {
  return row.nmse_mean.value_or(0) * static_cast<double>(row.nmse_samples);
}

// Rows of one peer and direction are one row of the record; what another group sent there adds.
// Of a codec's row and one of exact tensors the latter leaves the direction: it would be counted as
// the codec's bits.
void Add(CrossingRow row, std::vector<CrossingRow>& rows) {
  for (CrossingRow& known : rows) {
    if (known.dst_rank != row.dst_rank || known.direction != row.direction) continue;
    if (row.direction != Direction::kOther && (known.codec == "none") != (row.codec == "none")) {
      if (known.codec == "none") std::swap(known, row);
      row.direction = Direction::kOther;
      Add(std::move(row), rows);
      return;
    }
    if (known.codec != row.codec) known.codec = "several";
    const double nmse_sum = NmseSum(known) + NmseSum(row);
    known.tensors += row.tensors;
    known.elements += row.elements;
    known.payload_bytes += row.payload_bytes;
    known.message_bytes += row.message_bytes;
    known.encode_s += row.encode_s;
    known.decode_s += row.decode_s;
    known.nmse_samples += row.nmse_samples;
    if (known.nmse_samples > 0) {
      known.nmse_mean = nmse_sum / static_cast<double>(known.nmse_samples);
      known.nmse_max = std::max(known.nmse_max.value_or(0), row.nmse_max.value_or(0));
    }
    return;
  }
  rows.push_back(std::move(row));
}

// "": taken.
std::string TakeCrossing(const json& object, int64_t rank, int64_t ranks, ProgramLog& log) {
  if (!object.is_object()) return "'crossing': want an object";
  Line line(object);
  const std::string kind = line.Word("kind");
  CrossingRow row{.src_rank = rank,
                  .dst_rank = line.Count("peer", 0, ranks - 1),
                  .direction = kind == "activation" ? Direction::kForward
                               : kind == "gradient" ? Direction::kBackward
                                                    : Direction::kOther,
                  .codec = line.Word("codec"),
                  .tensors = line.Count("tensors", 0, kMostCount),
                  .elements = line.Count("elements", 0, kMostCount),
                  .payload_bytes = line.Count("payload_bytes", 0, kMostCount),
                  .message_bytes = line.Count("message_bytes", 0, kMostCount)};
  row.encode_s = line.Number("encode_s").value_or(0);
  row.decode_s = line.Number("decode_s").value_or(0);
  row.nmse_samples = line.Count("nmse_samples", 0, kMostCount);
  const int64_t collective = line.Count("collective_bytes", 0, kMostCount);
  const double sum = line.Number("nmse_sum").value_or(0);
  if (row.nmse_samples > 0) {
    row.nmse_mean = sum / static_cast<double>(row.nmse_samples);
    row.nmse_max = line.Number("nmse_max");
  }
  if (!line.wrong().empty()) return line.wrong();
  if (row.dst_rank == rank) return "'peer': want another rank than its own";
  log.payload_by_codec[{row.direction, row.codec}] += row.payload_bytes;
  if (collective > 0 && row.codec != "none") {
    log.payload_by_codec[{Direction::kOther, row.codec}] += collective;
    Add({.src_rank = rank,
         .dst_rank = row.dst_rank,
         .direction = Direction::kOther,
         .codec = row.codec,
         .tensors = 0,
         .elements = 0,
         .payload_bytes = 0,
         .message_bytes = collective},
        log.crossings);
  }
  if (row.tensors > 0) Add(std::move(row), log.crossings);
  return "";
}

// "": taken.
std::string TakeEnvironment(const json& object, ProgramLog& log) {
  if (!object.is_object()) return "'environment': want an object";
  Line line(object);
  for (const auto& [name, value] : object.items()) {
    log.environment[name.substr(0, 256)] = line.Word(name.c_str());
  }
  return line.wrong();
}

// "": taken.
std::string TakeLine(const std::string& text, int64_t rank, int64_t ranks, ProgramLog& log) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return "no JSON object";
  if (object.contains("environment")) return TakeEnvironment(object["environment"], log);
  if (object.contains("crossing")) return TakeCrossing(object["crossing"], rank, ranks, log);
  Line line(object);
  const double at = line.Number("t").value_or(0);
  if (object.contains("step")) {
    const LoggedStep step{.step = line.Count("step", 1, kMostCount),
                          .loss_nat = line.Loss("loss"),
                          .tokens = line.Count("tokens", 0, kMostCount),
                          .at_s = at};
    if (line.wrong().empty()) log.steps[step.step] = step;
  } else if (object.contains("final") || object.contains("final_on")) {
    const auto loss = line.Loss("final"), on = line.Loss("final_on");
    const auto error = line.Number("standard_error");
    if (!line.wrong().empty()) return line.wrong();
    if (error && *error < 0) return "'standard_error': want 0 or more";
    if (loss) log.final_nat = loss;
    if (on) log.final_on_nat = on;
    if (error) log.standard_error_nat = error;
  } else {
    return "neither 'step' nor 'final' nor 'crossing'";
  }
  return line.wrong();
}

}  // namespace

void ProgramLog::RanksAre(int64_t its_group, int64_t its_stage, int64_t stages) {
  group = its_group;
  stage = its_stage;
  for (CrossingRow& row : crossings) {
    if (row.dst_rank / stages != group) row.direction = Direction::kOuter;
  }
}

std::vector<StepRow> StepsOf(const ProgramLog& log, double began_s) {
  std::vector<StepRow> rows;
  double last = began_s;
  for (const auto& [number, step] : log.steps) {
    rows.push_back({.step = number,
                    .group_index = log.group,
                    .stage = log.stage,
                    .loss_nat = step.loss_nat,
                    .tokens = step.tokens,
                    .wall_s = std::max(0.0, step.at_s - last),
                    .forward_s = 0,
                    .backward_s = 0,
                    .optimizer_s = 0,
                    .wait_s = 0,
                    .outer_s = 0});
    last = std::max(last, step.at_s);
  }
  return rows;
}

ProgramLog ParseProgramLog(const std::string& text, int64_t rank, int64_t ranks) {
  ProgramLog log;
  log.stage = rank;
  std::istringstream lines(text);
  std::string line;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    const std::string wrong = TakeLine(line, rank, ranks, log);
    if (wrong.empty()) continue;
    if (log.bad_lines++ == 0) log.first_bad = fmt::format("line {}: {}", number, wrong);
  }
  return log;
}

absl::StatusOr<ProgramLog> ReadProgramLog(const std::string& path, int64_t rank, int64_t ranks) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return ParseProgramLog("", rank, ranks);
  if (bytes > kMostBytes) {
    return absl::ResourceExhaustedError(
        fmt::format("rank {} told {} MB by longhaul.log; at most {} are read", rank, bytes >> 20,
                    kMostBytes >> 20));
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  if (in.bad()) return absl::UnavailableError(fmt::format("cannot read {}", path));
  text.resize(static_cast<size_t>(in.gcount()));
  return ParseProgramLog(text, rank, ranks);
}

}  // namespace longhaul
