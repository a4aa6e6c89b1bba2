#include "experiments/spec/pipeline_of_spec.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "pp_group/schedule/check.h"
#include "pp_group/schedule/csv.h"

namespace longhaul {
namespace {

// Of as many actions as the largest run has, with room: each is at most "1023RECV_F65535,".
constexpr size_t kMostBytes = size_t{64} << 20;

absl::StatusOr<PipelineProgram> FromFile(const RunSpec& spec) {
  const std::string& path = spec.schedule.csv;
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(fmt::format("schedule.csv: cannot read '{}'", path));
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  const auto bad = [&](const std::string& why) {
    return absl::InvalidArgumentError(fmt::format("schedule.csv: {}: {}", path, why));
  };
  if (text.size() > kMostBytes) return bad("longer than 64 MiB");
  const bool comms = text.find("SEND_") != std::string::npos;
  absl::StatusOr<PipelineProgram> read =
      ParseScheduleCsv(text, comms ? CsvFormat::kComputeComms : CsvFormat::kComputeOnly);
  if (!read.ok()) return bad(std::string(read.status().message()));
  const PipelineProgram& program = *read;
  const PipelineShape want = ShapeOf(spec);
  if (program.num_stages() != want.stages() || program.num_ranks() != want.ranks ||
      program.microbatches != want.microbatches) {
    return bad(fmt::format(
        "is of {} stages on {} ranks and {} micro-batches; schedule.stages = {}, schedule.chunks = "
        "{} and train.microbatches = {} want {}, {} and {}",
        program.num_stages(), program.num_ranks(), program.microbatches, spec.schedule.stages,
        spec.schedule.chunks, spec.train.microbatches, want.stages(), want.ranks,
        want.microbatches));
  }
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    const std::vector<int> held = program.StagesOf(rank);
    if (held.size() != static_cast<size_t>(want.chunks)) {
      return bad(fmt::format("row {} holds {} stages; schedule.chunks = {} wants as many of each",
                             rank + 1, held.size(), want.chunks));
    }
    if (want.chunks == 1 && held.front() != rank) {
      return bad(fmt::format("row {} holds stage {}; with one stage a rank want stage {} there",
                             rank + 1, held.front(), rank));
    }
  }
  for (const absl::Status& s : {CheckProgram(program), CheckMicrobatchOrder(program)}) {
    if (!s.ok()) return bad(std::string(s.message()));
  }
  return read;
}

}  // namespace

PipelineShape ShapeOf(const RunSpec& spec) {
  return {.ranks = static_cast<int>(spec.ranks()),
          .chunks = static_cast<int>(spec.schedule.chunks),
          .microbatches = static_cast<int>(spec.train.microbatches),
          .depth = static_cast<int>(spec.schedule.depth)};
}

RefusedKey RefusedSchedule(const RunSpec& spec) {
  const RunSpec::Schedule& s = spec.schedule;
  if (s.stages % s.chunks != 0) {
    return {"chunks", fmt::format("= {} (stages of a rank) does not divide schedule.stages = {}",
                                  s.chunks, s.stages)};
  }
  const bool csv = s.kind == "csv";
  if (csv && s.csv.empty()) return {"kind", "= \"csv\" needs schedule.csv, the file"};
  if (!csv && !s.csv.empty()) {
    return {"kind",
            fmt::format("= '{}' and schedule.csv: want kind = \"csv\" beside a file", s.kind)};
  }
  const absl::StatusOr<Schedule> schedule = FindSchedule(s.kind);
  if (!schedule.ok()) return {};  // the key's own check names the known ones
  const absl::Status taken = CheckShape(*schedule, ShapeOf(spec));
  if (taken.ok()) return {};
  return {"kind", fmt::format(": {}", std::string(taken.message()))};
}

absl::StatusOr<PipelineProgram> PipelineOf(const RunSpec& spec) {
  if (!spec.schedule.csv.empty()) return FromFile(spec);
  const absl::StatusOr<Schedule> schedule = FindSchedule(spec.schedule.kind);
  if (!schedule.ok()) return schedule.status();
  const PipelineShape shape = ShapeOf(spec);
  if (absl::Status s = CheckShape(*schedule, shape); !s.ok()) return s;
  return ProgramOf(*schedule, shape);
}

std::vector<int> RanksOfStages(const RunSpec& spec) {
  std::vector<int> ranks(static_cast<size_t>(spec.stages()));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (spec.schedule.chunks == 1) return ranks;
  absl::StatusOr<PipelineProgram> program = PipelineOf(spec);
  return program.ok() ? std::move(program->rank_of_stage) : ranks;
}

}  // namespace longhaul
