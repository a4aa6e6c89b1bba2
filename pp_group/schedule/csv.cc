#include "pp_group/schedule/csv.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "pp_group/schedule/check.h"

namespace longhaul {
namespace {

std::string SendCell(const Message& m) {
  return absl::StrCat(m.from_stage, m.kind == MessageKind::kActivation ? "SEND_F" : "SEND_B",
                      m.microbatch);
}

std::string ReceiveCell(const Message& m) {
  return absl::StrCat(m.to_stage, m.kind == MessageKind::kActivation ? "RECV_F" : "RECV_B",
                      m.microbatch);
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string WhyNoAction(const std::string& cell) {
  if (cell.empty()) return "empty: compute_comms has no bubbles";
  if (Contains(cell, "BW")) {
    return "BW is the full backward of files from before B meant that; write B";
  }
  if (Contains(cell, "OVERLAP")) return "overlapped actions are not run here";
  for (const char* word : {"UNSHARD", "RESHARD", "REDUCE_GRAD"}) {
    if (Contains(cell, word)) return "is about sharded parameters, which stages here have not";
  }
  for (const char* word : {"SEND_", "RECV_"}) {
    if (Contains(cell, word)) return "no send or receive of this program's actions in this format";
  }
  return "want <stage><F, B, I or W><micro-batch>, as 2F0";
}

absl::Status Refused(size_t rank, size_t cell, const std::string& text, const std::string& why) {
  constexpr size_t kShown = 40;
  return absl::InvalidArgumentError(absl::StrCat("schedule CSV: rank ", rank, ", cell ", cell + 1,
                                                 ", '", text.substr(0, kShown), "': ", why));
}

using Cells = std::vector<std::vector<std::string>>;  // by rank

Cells Split(std::string_view text) {
  Cells rows;
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);  // as some editors begin a file
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string row(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!row.empty() && row.back() == '\r') row.pop_back();
    rows.push_back(absl::StrSplit(row, ','));
  }
  return rows;
}

// The sends and receives that stand in the cells against those that follow from the actions.
absl::Status CheckCommunication(const PipelineProgram& program, const Cells& rows) {
  const std::vector<RankCommunication> derived = Communication(program);
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    std::set<std::string> receives, left, may_send;
    for (const RankMessage& t : derived[rank].receives) receives.insert(ReceiveCell(t.message));
    left = receives;
    for (const RankMessage& t : derived[rank].sends) left.insert(SendCell(t.message));
    for (size_t cell = 0; cell < rows[rank].size(); ++cell) {
      const std::string& text = rows[rank][cell];
      const std::optional<Action> action = ParseAction(text);
      if (!action) {
        if (left.erase(text) == 0) return Refused(rank, cell, text, WhyNoAction(text));
        if (!receives.contains(text) && !may_send.contains(text)) {
          return Refused(rank, cell, text, "before the action that makes it");
        }
        continue;
      }
      const auto input = InputOf(*action, program.num_stages());
      if (input && left.contains(ReceiveCell(*input))) {
        return Refused(rank, cell, text, "before its " + ReceiveCell(*input));
      }
      if (const auto output = OutputOf(*action, program.num_stages())) {
        may_send.insert(SendCell(*output));
      }
    }
    if (!left.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule CSV: rank ", rank, " lacks ", *left.begin()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PipelineProgram> ParseScheduleCsv(std::string_view text, CsvFormat format) {
  const bool comms = format == CsvFormat::kComputeComms;
  const Cells rows = Split(text);
  if (rows.empty()) return absl::InvalidArgumentError("schedule CSV: empty");
  std::vector<Program> ranks(rows.size());
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    for (size_t cell = 0; cell < rows[rank].size(); ++cell) {
      const std::string& text_of_cell = rows[rank][cell];
      if (const std::optional<Action> action = ParseAction(text_of_cell)) {
        ranks[rank].push_back(*action);
        continue;
      }
      const bool bubble = text_of_cell.empty() && !comms;
      const bool message =
          comms && (Contains(text_of_cell, "SEND_") || Contains(text_of_cell, "RECV_"));
      if (!bubble && !message) return Refused(rank, cell, text_of_cell, WhyNoAction(text_of_cell));
    }
  }
  absl::StatusOr<PipelineProgram> program = Assemble(std::move(ranks));
  if (!program.ok() || !comms) return program;
  RETURN_IF_ERROR(CheckCommunication(*program, rows));
  return program;
}

absl::StatusOr<std::string> ScheduleCsv(const PipelineProgram& program, CsvFormat format) {
  Cells rows(program.ranks.size());
  // Down the global order: whatever blocks has its counterpart at the same place of that order.
  ASSIGN_OR_RETURN(const Program order, GlobalOrder(program));
  for (const Action& action : order) {
    const int rank = program.rank_of_stage[action.stage];
    rows[rank].push_back(ToString(action));
    const auto output = OutputOf(action, program.num_stages());
    if (format == CsvFormat::kComputeOnly || !output) continue;
    const int to = program.rank_of_stage[output->to_stage];
    if (to == rank) continue;
    rows[rank].push_back(SendCell(*output));
    rows[to].push_back(ReceiveCell(*output));
  }
  std::string text;
  for (const auto& row : rows) absl::StrAppend(&text, absl::StrJoin(row, ","), "\n");
  return text;
}

}  // namespace longhaul
