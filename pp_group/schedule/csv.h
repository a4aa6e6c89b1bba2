#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "pp_group/schedule/pipeline_program.h"

namespace longhaul {

// Schedules as torch.distributed.pipelining reads and writes them (_load_csv, _dump_csv): no
// header, one row per rank, cells separated by commas, rows of any length. A cell is `2F0`: stage,
// action, micro-batch.
//
//   kComputeOnly    F, B, I, W; an empty cell is a bubble and means nothing here
//   kComputeComms   also SEND_F, RECV_F, SEND_B, RECV_B ("1RECV_F0": stage 1 receives), and no
//                   empty cell
//
// B is the full backward. The older `BW` for it is refused, since B meant the input gradient then;
// so are cells of sharded parameters (UNSHARD, RESHARD, REDUCE_GRAD) and overlapped pairs.
enum class CsvFormat { kComputeOnly, kComputeComms };

// Takes LF and CRLF. Sends and receives must be those that follow from the actions, each once, a
// receive before the action that needs it and a send after the one that makes it; whether the
// program runs to its end is check.h's to prove. InvalidArgument names rank and cell.
absl::StatusOr<PipelineProgram> ParseScheduleCsv(std::string_view text, CsvFormat format);

// One row per rank, LF. Sends and receives stand in an order in which no rank waits for another for
// ever, even where a send blocks until it is received. InvalidArgument: the program deadlocks.
absl::StatusOr<std::string> ScheduleCsv(const PipelineProgram& program, CsvFormat format);

}  // namespace longhaul
