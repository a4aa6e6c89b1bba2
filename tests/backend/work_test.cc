#include "plugin/backend/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/ones.h>
#include <future>
#include <thread>

#include "plugin/backend/torch_error.h"
#include "tests/backend/thrown.h"

namespace longhaul {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

c10::intrusive_ptr<LonghaulWork> NewWork(int parts = 1,
                                         milliseconds timeout = LonghaulWork::kUnsetWait) {
  const at::Tensor x = at::ones({3});
  return c10::make_intrusive<LonghaulWork>(
      0,
      LonghaulWork::Spec{.type = c10d::OpType::RECV,
                         .op = "recv",
                         .where = "group 'pp' rank 0",
                         .sequence = 7,
                         .parts = parts,
                         .timeout = timeout},
      std::vector<Staging>{Staging::Of(x, Access::kWrite, "recv")}, std::vector<at::Tensor>{x},
      std::vector<at::Tensor>{x}, std::make_shared<Finisher>());
}

TEST(TorchError, CodesBecomeTheExceptionsThatCallersExpect) {
  const auto thrown = [](absl::Status s) { return [s] { ThrowIfError(s); }; };
  EXPECT_NO_THROW(ThrowIfError(absl::OkStatus()));
  EXPECT_THAT(Thrown<c10::ValueError>(thrown(absl::InvalidArgumentError("dtype f32, i64"))),
              HasSubstr("INVALID_ARGUMENT: dtype f32, i64"));
  EXPECT_THAT(Thrown<c10::NotImplementedError>(thrown(absl::UnimplementedError("gather"))),
              HasSubstr("gather"));
  EXPECT_THAT(Thrown<c10::DistNetworkError>(thrown(absl::UnavailableError("rank 2 is gone"))),
              HasSubstr("rank 2 is gone"));
  EXPECT_THAT(Thrown<c10::DistBackendError>(thrown(absl::DeadlineExceededError("tag 3"))),
              HasSubstr("DEADLINE_EXCEEDED: tag 3"));
  EXPECT_THAT(Thrown<c10::DistBackendError>(thrown(absl::AbortedError("stop"))), HasSubstr("stop"));
  EXPECT_EQ(ExceptionOf(absl::OkStatus()), nullptr);
}

TEST(Work, IsNotDoneUntilEveryPartIs) {
  const auto work = NewWork(/*parts=*/2);
  work->Complete(absl::OkStatus());
  EXPECT_FALSE(work->isCompleted());
  EXPECT_FALSE(work->isSuccess());
  EXPECT_THROW(work->result(), c10::Error);
  work->Complete(absl::OkStatus());
  EXPECT_TRUE(work->isCompleted());
  EXPECT_TRUE(work->isSuccess());
  EXPECT_TRUE(work->wait());
  ASSERT_EQ(work->result().size(), 1);
  EXPECT_EQ(work->getSequencenumber(), 7);
}

TEST(Work, WaitBlocksUntilAnotherThreadCompletes) {
  const auto work = NewWork();
  auto waited = std::async(std::launch::async, [&] { return work->wait(); });
  EXPECT_EQ(waited.wait_for(milliseconds(20)), std::future_status::timeout);
  work->Complete(absl::OkStatus());
  EXPECT_TRUE(waited.get());
}

TEST(Work, ErrorIsRethrownAtEveryWaitAndNamesOperationAndGroup) {
  const auto work = NewWork(/*parts=*/2);
  work->Complete(absl::UnavailableError("rank 1 is gone"));
  work->Complete(absl::OkStatus());
  EXPECT_TRUE(work->isCompleted());
  EXPECT_FALSE(work->isSuccess());
  EXPECT_NE(work->exception(), nullptr);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Thrown<c10::DistNetworkError>([&] { work->wait(); }),
                HasSubstr("recv (group 'pp' rank 0, operation 7): rank 1 is gone"));
  }
}

TEST(Work, TimeoutOfAWaitThrowsAndTheOperationGoesOn) {
  const auto work = NewWork();
  EXPECT_THAT(Thrown<c10::DistBackendError>([&] { work->wait(milliseconds(5)); }),
              HasSubstr("not complete after a wait of 5 ms"));
  work->Complete(absl::OkStatus());
  EXPECT_TRUE(work->wait(milliseconds(5)));
}

TEST(Work, TimeoutOfTheCallIsThatOfWaitZero) {
  const auto work = NewWork(1, milliseconds(5));
  EXPECT_THROW(work->wait(kNoTimeout), c10::DistBackendError);
}

TEST(Work, AbortMakesWaitReturnFalse) {
  const auto work = NewWork();
  auto waited = std::async(std::launch::async, [&] { return work->wait(); });
  work->abort();
  EXPECT_FALSE(waited.get());
  work->Complete(absl::OkStatus());
  EXPECT_FALSE(work->wait());
}

TEST(Work, SourceRankIsThatOfTheMatch) {
  const auto work = NewWork();
  EXPECT_THROW(work->sourceRank(), c10::ValueError);
  work->CompleteFrom(3);
  EXPECT_EQ(work->sourceRank(), 3);
}

TEST(Future, TakenBeforeTheEndCompletesWithTheTensors) {
  const auto work = NewWork();
  const auto future = work->getFuture();
  EXPECT_FALSE(future->completed());
  work->Complete(absl::OkStatus());
  future->waitAndThrow();
  EXPECT_EQ(future->value().toTensorVector().size(), 1);
  EXPECT_EQ(work->getFuture().get(), future.get());
}

TEST(Future, TakenAfterTheEndIsCompleteAtOnce) {
  const auto work = NewWork();
  work->Complete(absl::OkStatus());
  EXPECT_TRUE(work->getFuture()->completed());
}

TEST(Future, CarriesTheError) {
  const auto before = NewWork(), after = NewWork();
  const auto future = before->getFuture();
  before->Complete(absl::AbortedError("stop"));
  after->Complete(absl::AbortedError("stop"));
  future->wait();
  EXPECT_TRUE(future->hasError());
  EXPECT_THROW(after->getFuture()->waitAndThrow(), c10::DistBackendError);
}

// Python callbacks take the interpreter's lock: they must not hold up a transport.
TEST(Future, CallbackRunsOnAnotherThreadThanTheOneThatCompletes) {
  const auto work = NewWork();
  std::promise<std::thread::id> ran_on;
  work->getFuture()->addCallback(
      [&](c10::ivalue::Future&) { ran_on.set_value(std::this_thread::get_id()); });
  work->Complete(absl::OkStatus());
  EXPECT_NE(ran_on.get_future().get(), std::this_thread::get_id());
}

TEST(Work, MayBeDroppedBeforeTheEnd) {
  auto work = NewWork();
  const auto future = work->getFuture();
  LonghaulWork* raw = work.get();
  const auto kept_by_core = work;
  work.reset();
  raw->Complete(absl::OkStatus());
  future->waitAndThrow();
}

}  // namespace
}  // namespace longhaul
