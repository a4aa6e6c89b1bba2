#include "experiments/run/endings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "experiments/train/event_stream.h"

namespace longhaul {
namespace {

nlohmann::json Failed(int rank, const std::string& message) {
  return {{"event", "failed"}, {"rank", rank}, {"message", message}};
}
nlohmann::json Killed(int rank) {
  return {{"event", "exited"},
          {"rank", rank},
          {"by_signal", true},
          {"message", "the worker was killed by signal 9"}};
}

TEST(RootCause, NoFailureIsOk) {
  RootCause cause;
  cause.Observe({{"event", "step"}, {"rank", 0}, {"step", 3}});
  cause.Observe({{"event", "finished"}, {"rank", 0}});
  EXPECT_TRUE(cause.status().ok());
  EXPECT_EQ(cause.last_step(), 3);
}

TEST(RootCause, OthersAreCountedAndTheLabIsNone) {
  RootCause cause;
  cause.Observe({{"event", "step"}, {"rank", 2}, {"step", 5}});
  cause.Observe(Failed(2, "disk is full"));
  cause.Observe(Failed(1, "lost its peer"));
  cause.Observe(Failed(0, "lost its peer"));
  cause.Observe(Failed(0, "lost another peer"));
  cause.Observe(Failed(-1, "rank 2: the worker ended with status 1"));
  EXPECT_EQ(cause.status(), absl::UnavailableError(
                                "rank 2 after step 5: disk is full (2 other ranks ended with it)"));
}

TEST(RootCause, KilledWorkerIsTheCauseOfWhatItsPeersSaidBefore) {
  RootCause cause;
  cause.Observe(Failed(0, "lost its peer"));
  cause.Observe(Killed(1));
  cause.Observe(Killed(0));  // by the lab, as the grace was over
  EXPECT_EQ(cause.status(), absl::UnavailableError(
                                "rank 1 after step 0: the worker was killed by signal 9 (1 other "
                                "rank ended with it)"));
}

TEST(RootCause, CodeSaysWhetherTheLossDivergedOrTheLinksWereOut) {
  RootCause diverged, invalid;
  nlohmann::json event = Failed(0, "x");
  event["diverged"] = true;
  diverged.Observe(event);
  diverged.Observe(Failed(1, "lost its peer"));
  EXPECT_EQ(diverged.status().code(), absl::StatusCode::kOutOfRange);
  event = Failed(-1, "x");
  event["invalid"] = true;
  invalid.Observe(event);
  EXPECT_EQ(invalid.status(), absl::FailedPreconditionError("the lab: x"));
}

TEST(EventStreamFailure, OnlyTheFirstLineOfAReasonIsTold) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  FdEventSink(ends[1]).EmitFailure(0, 0, absl::InternalError("cause\nframe #0\nframe #1"));
  close(ends[1]);
  RootCause cause;
  ASSERT_TRUE(
      EventReader(ends[0]).Read([&](const nlohmann::json& event) { cause.Observe(event); }).ok());
  close(ends[0]);
  EXPECT_EQ(cause.status().message(), "rank 0 after step 0: cause");
}

}  // namespace
}  // namespace longhaul
