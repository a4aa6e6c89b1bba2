// Events in, rows out: what the record says of a run, for every way in which one can end.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/row_json.h"
#include "experiments/run/run_place.h"
#include "experiments/run/run_recorder.h"
#include "tests/experiments/command/command_line.h"

namespace longhaul {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Two stages, one group, three steps.
RunSpec ThreeSteps() {
  RunSpec spec{};
  spec.model = {{.blocks = 4, .width = 64, .heads = 4, .context = 32, .vocab = 256}};
  spec.train.steps = 3;
  spec.train.batch_rows = 8;
  spec.train.microbatches = 2;
  spec.train.lr = 1e-3;
  spec.schedule = {"1f1b", 2};
  spec.boundary = {"int8-b64", "none", 0};
  spec.net.transport = "loopback";
  spec.checkpoint.every_steps = 1;
  return spec;
}

json StepEvent(int64_t step, int64_t stage) {
  json event = {{"event", "step"},
                {"rank", stage},
                {"group_index", 0},
                {"stage", stage},
                {"step", step},
                {"tokens", 256},
                {"wall_s", 0.5},
                {"forward_s", 0.125},
                {"backward_s", 0.25},
                {"optimizer_s", 0.0625},
                {"wait_s", 0.03125},
                {"outer_s", 0.015625},
                {"encode_s", 2.0},
                {"decode_s", 4.0},
                {"outer_synced", true},
                {"outer_sent_bytes", 77},
                {"parameter_hash", "00000000000000ff"}};
  if (stage == 1) event["loss_nat"] = 2.5;
  return event;
}

json CrossingEvent(int64_t rank, int64_t tensors, int64_t checkpoint) {
  return {{"event", "crossing"},
          {"checkpoint", checkpoint},
          {"group_kind", "boundary"},
          {"rank", rank},
          {"peer", 1 - rank},
          {"sent", true},
          {"codec", rank == 0 ? "int8-b64" : "none"},
          {"tensors", tensors},
          {"elements", tensors * 100},
          {"payload_bytes", tensors * 10},
          {"message_bytes", tensors * 11},
          {"encode_s", 0.5},
          {"decode_s", 0.25},
          {"nmse_samples", tensors},
          {"nmse_mean", 0.001 * static_cast<double>(tensors)},
          {"nmse_max", 0.01},
          {"payload_hash", "0000000000000007"}};
}

class Recorder : public testing::Test {
 protected:
  Recorder() : record_(*Record::Open(scratch_.path(), Record::Mode::kWrite)) {
    RunRow row;
    row.experiment_id = *record_.BeginExperiment({.kind = ExperimentKind::kRun, .name = "x"});
    run_ = *record_.BeginRun(row);
  }
  static void SeeSteps(RunRecorder& recorder, int64_t from, int64_t to) {
    for (int64_t step = from; step <= to; ++step) {
      for (const int64_t stage : {0, 1}) recorder.Observe(StepEvent(step, stage));
    }
  }
  void SeeCheckpoint(RunRecorder& recorder, int64_t step, int64_t tensors) {
    for (const int64_t rank : {0, 1}) recorder.Observe(CrossingEvent(rank, tensors, step));
    recorder.Observe(
        {{"event", "path"}, {"checkpoint", step}, {"from", 0}, {"to", 1}, {"bytes", 900}});
    recorder.Observe({{"event", "checkpoint"}, {"rank", 0}, {"step", step}});
    ASSERT_TRUE(recorder.Flush().ok());
    EXPECT_THAT(*record_.CheckpointCrossings(run_, step), SizeIs(0)) << "rank 1 has not told";
    recorder.Observe({{"event", "checkpoint"}, {"rank", 1}, {"step", step}});
    ASSERT_TRUE(recorder.Flush().ok());
    EXPECT_THAT(*record_.CheckpointCrossings(run_, step), SizeIs(2));
  }
  // As --resume does.
  void TakeOver() { ASSERT_TRUE(record_.ResumeRun(run_).ok()); }

  const RunSpec spec_ = ThreeSteps();
  ScratchFolder scratch_;
  Record record_;
  int64_t run_;
};

struct Ending {
  absl::Status outcome;
  std::string status;
};

class Endings : public Recorder, public testing::WithParamInterface<Ending> {};

TEST_P(Endings, AreRecordedUnderTheirNameWithTheirReason) {
  RunRecorder recorder(record_, run_, spec_);
  SeeSteps(recorder, 1, 3);
  const absl::Status verdict = recorder.Finish(GetParam().outcome);
  EXPECT_EQ(verdict, GetParam().outcome);
  const auto rows = *record_.Rows("SELECT status, reason, finished_utc <> '' FROM runs");
  EXPECT_THAT(rows.at(1),
              ElementsAre(GetParam().status, std::string(GetParam().outcome.message()), "1"));
}

INSTANTIATE_TEST_SUITE_P(
    Every, Endings,
    testing::Values(Ending{absl::OkStatus(), "ok"},
                    Ending{absl::OutOfRangeError("loss is nan"), "diverged"},
                    Ending{absl::CancelledError("asked to end"), "interrupted"},
                    Ending{absl::FailedPreconditionError("link 0 > 1"), "invalid"},
                    Ending{absl::UnavailableError("rank 1 was killed"), "failed"},
                    Ending{absl::InternalError("poll"), "failed"},
                    Ending{absl::DataLossError("not an event"), "failed"},
                    Ending{absl::ResourceExhaustedError("disk is full"), "failed"}),
    [](const auto& test) {
      return test.param.status + "_" + absl::StatusCodeToString(test.param.outcome.code());
    });

TEST_F(Recorder, ErrorsOfAGroupsBoundaryAreThoseOfItsRanks) {
  RunSpec spec = spec_;
  spec.outer.groups = 2;
  RunRecorder recorder(record_, run_, spec);
  recorder.Observe({{"event", "error"},
                    {"rank", 3},
                    {"src_rank", 3},
                    {"dst_rank", 2},
                    {"percent", 50},
                    {"first_step", 2},
                    {"last_step", 2},
                    {"samples", 4},
                    {"nmse_mean", 0.25},
                    {"nmse_p95", 0.5}});
  ASSERT_TRUE(recorder.Flush().ok());
  const auto rows = *record_.Rows(
      "SELECT src_rank, dst_rank, percent, first_step, last_step, samples, nmse_mean, nmse_p95"
      " FROM crossing_errors");
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_THAT(rows[1], ElementsAre("3", "2", "50", "2", "2", "4", "0.25", "0.5"));
}

TEST_F(Recorder, EveryFieldOfAStepIsInItsRow) {
  RunRecorder recorder(record_, run_, spec_);
  recorder.Observe(StepEvent(2, 0));
  recorder.Observe(StepEvent(2, 1));
  ASSERT_TRUE(recorder.Flush().ok());
  const auto rows = *record_.Rows(
      "SELECT step, group_index, stage, ifnull(loss_nat, 'none'), tokens, wall_s, forward_s, "
      "backward_s,"
      " optimizer_s, wait_s, outer_s, encode_s, decode_s, outer_synced, outer_sent_bytes,"
      " parameter_hash FROM steps ORDER BY stage");
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_THAT(rows[1],
              ElementsAre("2", "0", "0", "none", "256", "0.5", "0.125", "0.25", "0.0625", "0.03125",
                          "0.015625", "2.0", "4.0", "1", "77", "00000000000000ff"));
  EXPECT_EQ(rows[2][3], "2.5");
}

// Fills the fields of a row with values that are all different.
struct Distinct {
  int64_t n = 1;
  void operator()(const char*, int64_t& v) { v = ++n; }
  void operator()(const char*, std::optional<uint64_t>& v) { v = (uint64_t{1} << 63) + ++n; }
  void operator()(const char*, uint64_t& v) { v = (uint64_t{1} << 63) + ++n; }
  void operator()(const char*, double& v) { v = static_cast<double>(++n) / 3; }
  void operator()(const char*, bool& v) { v = true; }
  void operator()(const char*, std::string& v) { v = "text " + std::to_string(++n); }
  void operator()(const char*, std::optional<double>& v) { (*this)("", v.emplace()); }
  void operator()(const char*, std::optional<int64_t>& v) { (*this)("", v.emplace()); }
  void operator()(const char*, LinkPhase& v) { v = LinkPhase::kAfter; }
  void operator()(const char*, EvalCodec& v) { v = EvalCodec::kOff; }
};

template <typename Row>
std::string Dump(const Row& row) {
  return EventOf("row", row).dump();
}

// As an event, as text on the pipe, and in the record: a row is the same, field by field.
template <typename Row>
void ExpectWhole(Record& record, int64_t run, const RunSpec& spec, const char* kind) {
  Row row{};
  VisitFields(row, Distinct());
  RunRecorder recorder(record, run, spec);
  recorder.Observe(json::parse(EventOf(kind, row).dump()));
  ASSERT_TRUE(recorder.Flush().ok());
  const absl::StatusOr<std::vector<Row>> rows = record.RowsOf<Row>(run);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_THAT(*rows, SizeIs(1)) << kind;
  EXPECT_EQ(Dump(rows->front()), Dump(row));
}

TEST_F(Recorder, EveryFieldOfEveryRowTravelsWhole) {
  ExpectWhole<StepRow>(record_, run_, spec_, "step");
  ExpectWhole<LinkRow>(record_, run_, spec_, "link");
  ExpectWhole<CrossingErrorRow>(record_, run_, spec_, "error");
  ExpectWhole<EvaluationRow>(record_, run_, spec_, "evaluation");
}

TEST_F(Recorder, ALossThatIsNoNumberTravelsAsNull) {
  StepRow row{};
  row.loss_nat = std::nan("");
  const json event = json::parse(EventOf("step", row).dump());
  EXPECT_TRUE(event.at("loss_nat").is_null());
  EXPECT_TRUE(std::isnan(RowFrom<StepRow>(event).loss_nat.value()));
  row.loss_nat.reset();
  EXPECT_FALSE(EventOf("step", row).contains("loss_nat")) << "an inner stage has none";
}

TEST_F(Recorder, BothEvaluationsAndTheFactsAreThere) {
  RunRecorder recorder(record_, run_, spec_);
  SeeSteps(recorder, 1, 3);
  for (const char* codec : {"on", "off"}) {
    recorder.Observe({{"event", "evaluation"},
                      {"step", 3},
                      {"codec", codec},
                      {"loss_nat", codec[1] == 'n' ? 2.25 : 2.0},
                      {"standard_error_nat", 0.5},
                      {"tokens", 96}});
  }
  recorder.Observe({{"event", "fact"}, {"key", "emulator"}, {"value", "tap"}});
  recorder.Observe({{"event", "fact"}, {"key", "threads"}, {"value", 2}});
  ASSERT_TRUE(recorder.Finish(absl::OkStatus()).ok());
  const auto rows = *record_.Rows(
      "SELECT codec, loss_nat, standard_error_nat, tokens FROM evaluations ORDER BY codec");
  EXPECT_THAT(rows.at(1), ElementsAre("off", "2.0", "0.5", "96"));
  EXPECT_THAT(rows.at(2), ElementsAre("on", "2.25", "0.5", "96"));
  const RunRow run = *record_.Run(run_);
  EXPECT_EQ(run.emulator, "tap");
  EXPECT_EQ(run.facts.at("threads"), "2");
}

TEST_F(Recorder, StepsThatAreMissingMakeARunPartialHoweverItEnded) {
  RunRecorder recorder(record_, run_, spec_);
  SeeSteps(recorder, 2, 3);
  EXPECT_TRUE(absl::IsDataLoss(recorder.Finish(absl::OkStatus())));
  const RunRow run = *record_.Run(run_);
  EXPECT_EQ(run.status, RunStatus::kPartial);
  EXPECT_THAT(run.reason, HasSubstr("of 3 steps this record has 2 to 3, 4 of 6 rows"));
}

TEST_F(Recorder, OneRowThatIsMissingInTheMiddleIsSeen) {
  RunRecorder recorder(record_, run_, spec_);
  SeeSteps(recorder, 1, 1);
  recorder.Observe(StepEvent(2, 0));
  SeeSteps(recorder, 3, 3);
  EXPECT_TRUE(absl::IsDataLoss(recorder.Finish(absl::OkStatus())));
  EXPECT_EQ(record_.Run(run_)->status, RunStatus::kPartial);
}

TEST_F(Recorder, AResumedRunCountsOnFromItsCheckpoint) {
  {
    RunRecorder killed(record_, run_, spec_);
    SeeSteps(killed, 1, 2);
    SeeCheckpoint(killed, 1, 2);
    (void)killed.Finish(absl::UnavailableError("killed"));
  }
  TakeOver();
  {  // killed again, after another checkpoint
    RunRecorder again(record_, run_, spec_);
    again.Observe({{"event", "fact"}, {"key", "resumed_from_step"}, {"value", 1}});
    SeeSteps(again, 2, 2);
    SeeCheckpoint(again, 2, 3);
    (void)again.Finish(absl::CancelledError("killed"));
  }
  TakeOver();
  RunRecorder last(record_, run_, spec_);
  last.Observe({{"event", "fact"}, {"key", "resumed_from_step"}, {"value", 2}});
  last.Observe({{"event", "fact"}, {"key", "resumed_from_step"}, {"value", 2}});  // the other rank
  SeeSteps(last, 3, 3);
  for (const int64_t rank : {0, 1}) last.Observe(CrossingEvent(rank, 5, 0));
  last.Observe({{"event", "path"}, {"from", 0}, {"to", 1}, {"bytes", 50}});
  ASSERT_TRUE(last.Finish(absl::OkStatus()).ok());
  const auto rows = *record_.Rows(
      "SELECT src_rank, direction, tensors, elements, payload_bytes, message_bytes, encode_s,"
      " decode_s, nmse_samples, round(nmse_mean, 6), payload_hash, kernel_tx_bytes FROM crossings"
      " ORDER BY src_rank");
  // 2 + 3 + 5 tensors; NMSE (2 x 0.002 + 3 x 0.003 + 5 x 0.005) / 10; 900 + 900 + 50 bytes.
  EXPECT_THAT(rows.at(1), ElementsAre("0", "forward", "10", "1000", "100", "110", "1.5", "0.75",
                                      "10", "0.0038", "0000000000000015", "1850"));
  EXPECT_THAT(rows.at(2), ElementsAre("1", "backward", "10", "1000", "100", "110", "1.5", "0.75",
                                      "10", "0.0038", "0000000000000015", ""));
  EXPECT_EQ(record_.Run(run_)->status, RunStatus::kOk);
}

TEST_F(Recorder, BytesThatAreMissingMakeARunPartial) {
  RunRecorder recorder(record_, run_, spec_);
  recorder.Observe({{"event", "fact"}, {"key", "resumed_from_step"}, {"value", 1}});
  SeeSteps(recorder, 1, 3);
  EXPECT_TRUE(absl::IsDataLoss(recorder.Finish(absl::OkStatus())));
  EXPECT_THAT(record_.Run(run_)->reason, HasSubstr("crossings count from step 2 of 3 on"));
}

TEST_F(Recorder, LinksOutOfBoundsBeforeARunWasResumedAreNotForgotten) {
  ASSERT_TRUE(record_.AddFacts(run_, {{kEarlierLinksFact, "link 0 > 1: slow"}}).ok());
  RunRecorder recorder(record_, run_, spec_);
  SeeSteps(recorder, 1, 3);
  EXPECT_FALSE(recorder.Finish(absl::OkStatus()).ok());
  EXPECT_EQ(record_.Run(run_)->status, RunStatus::kInvalid);
  EXPECT_THAT(record_.Run(run_)->reason, HasSubstr("link 0 > 1: slow"));
}

TEST_F(Recorder, AWorkerThatStoodStillMakesARunInvalid) {
  RunRecorder recorder(record_, run_, spec_);
  SeeSteps(recorder, 1, 3);
  recorder.Observe({{"event", "stillness"}, {"rank", 0}, {"longest_s", 0.49}});
  recorder.Observe({{"event", "stillness"}, {"rank", 1}, {"longest_s", 0.51}});
  EXPECT_TRUE(absl::IsFailedPrecondition(recorder.Finish(absl::OkStatus())));
  EXPECT_EQ(record_.Run(run_)->status, RunStatus::kInvalid);
  EXPECT_EQ(
      record_.Run(run_)->reason,
      "trained to the end, but its times are no evidence: rank 1 stood still for 0.51 s while "
      "it trained, bound 0.5 s");
}

TEST_F(Recorder, WhatDisturbedTheWorstOfItsWorkersIsInTheRecord) {
  RunRecorder recorder(record_, run_, spec_);
  SeeSteps(recorder, 1, 3);
  recorder.Observe({{"event", "stillness"}, {"rank", 0}, {"longest_s", 0.4}, {"still_share", 0.8}});
  recorder.Observe({{"event", "stillness"},
                    {"rank", 1},
                    {"longest_s", 0.0},
                    {"still_share", 0.0},
                    {"core_wait_share", 0.125}});
  ASSERT_TRUE(recorder.Finish(absl::OkStatus()).ok());
  const auto facts = record_.Run(run_)->facts;
  EXPECT_EQ(facts.at("still_share"), "0.8");
  EXPECT_EQ(facts.at("core_wait_share"), "0.125");
  EXPECT_FALSE(facts.contains("stolen_share"));
}

TEST_F(Recorder, BytesThatDoNotAddUpMakeARunInvalidAndOtherReasonsStay) {
  RunRecorder recorder(record_, run_, spec_);
  SeeSteps(recorder, 1, 3);
  recorder.Observe(
      {{"event", "node"}, {"node", 1}, {"received", 1'020'000}, {"delivered", 1'000'000}});
  EXPECT_TRUE(absl::IsFailedPrecondition(
      recorder.Finish(absl::FailedPreconditionError("link 0 > 1: slow"))));
  EXPECT_THAT(record_.Run(run_)->reason, HasSubstr("link 0 > 1: slow; bytes on the links: "));
}

// What was wrong before the checkpoint is in the run; what came after it is trained again.
TEST_F(Recorder, FlawsUntilTheCheckpointStayWithAResumedRun) {
  for (const bool before : {true, false}) {
    run_ = *record_.BeginRun({.experiment_id = record_.Run(run_)->experiment_id});
    {
      RunRecorder killed(record_, run_, spec_);
      SeeSteps(killed, 1, 2);
      killed.Observe({{"event", "stillness"}, {"rank", 0}, {"longest_s", before ? 3.0 : 0.0}});
      SeeCheckpoint(killed, 1, 2);
      killed.Observe({{"event", "stillness"}, {"rank", 0}, {"longest_s", 3.0}});
      (void)killed.Finish(absl::UnavailableError("killed"));
    }
    TakeOver();
    RunRecorder resumed(record_, run_, spec_);
    resumed.Observe({{"event", "fact"}, {"key", "resumed_from_step"}, {"value", 1}});
    SeeSteps(resumed, 2, 3);
    EXPECT_EQ(resumed.Finish(absl::OkStatus()).ok(), !before);
    EXPECT_THAT(record_.Run(run_)->reason,
                HasSubstr(before ? "rank 0 stood still for 3.00 s" : ""));
  }
}

}  // namespace
}  // namespace longhaul
