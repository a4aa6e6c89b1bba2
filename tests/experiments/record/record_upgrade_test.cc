// Records of an earlier build that go on, and files that are no record.
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/record/record.h"

namespace longhaul {
namespace {

// The first records knew no tied heads: their crossings stay, and the word is taken from then on.
TEST(RecordUpgrade, ARecordWithoutTheWordTiedLearnsItAndKeepsItsCrossings) {
  const std::string folder = testing::TempDir() + "record_upgrade_" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  CrossingRow row{.src_rank = 0,
                  .dst_rank = 1,
                  .direction = Direction::kForward,
                  .codec = "int8-b64",
                  .tensors = 8,
                  .elements = 1024,
                  .payload_bytes = 1100,
                  .message_bytes = 1150};
  int64_t run = 0;
  {
    absl::StatusOr<Record> record = Record::Open(folder, Record::Mode::kWrite);
    ASSERT_TRUE(record.ok()) << record.status();
    const auto experiment = record->BeginExperiment(
        {.kind = ExperimentKind::kCampaign, .name = "c", .plan_text = "plan"});
    ASSERT_TRUE(experiment.ok()) << experiment.status();
    RunRow begun;
    begun.experiment_id = *experiment;
    begun.arm = "arm";
    begun.role = Role::kArm;
    run = *record->BeginRun(begun);
    ASSERT_TRUE(record->Add<CrossingRow>(run, {&row, 1}).ok());
  }
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open((folder + "/longhaul.sqlite").c_str(), &raw), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(raw,
                         "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = "
                         "replace(sql, ' ''tied'',', '') WHERE name = 'crossings'",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_EQ(sqlite3_changes(raw), 1);
  sqlite3_close(raw);
  row.direction = Direction::kTied;
  absl::StatusOr<Record> record = Record::Open(folder, Record::Mode::kWrite);
  ASSERT_TRUE(record.ok()) << record.status();
  const absl::Status added = record->Add<CrossingRow>(run, {&row, 1});
  ASSERT_TRUE(added.ok()) << added;
  const auto crossings = record->RowsOf<CrossingRow>(run);
  ASSERT_TRUE(crossings.ok()) << crossings.status();
  ASSERT_EQ(crossings->size(), 2u);
  EXPECT_EQ((*crossings)[0].direction, Direction::kForward);
  EXPECT_EQ((*crossings)[0].message_bytes, 1150);
  EXPECT_EQ((*crossings)[1].direction, Direction::kTied);
  std::filesystem::remove_all(folder);
}

// What is no record, its code and what is said of it.
TEST(RecordUpgrade, WhatIsNoRecordIsRefusedAndAFolderOfRecordsNamesOne) {
  const std::string folder = testing::TempDir() + "record_none_" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  const auto read = [&] { return Record::Open(folder, Record::Mode::kRead).status(); };
  EXPECT_EQ(read().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Record::Open(folder + "/b", Record::Mode::kWrite).ok());
  ASSERT_TRUE(Record::Open(folder + "/a", Record::Mode::kWrite).ok());
  EXPECT_THAT(std::string(read().message()),
              testing::EndsWith(": No such file or directory; " + folder + "/a has one"));
  // As a disk that was full at the first write leaves it.
  std::ofstream(folder + "/longhaul.sqlite").flush();
  EXPECT_EQ(read().code(), absl::StatusCode::kNotFound) << read();
  EXPECT_THAT(std::string(read().message()), testing::HasSubstr("nothing was written"));
  EXPECT_THAT(
      std::string(
          Record::Open(folder + "/longhaul.sqlite", Record::Mode::kRead).status().message()),
      testing::EndsWith("named by its folder"));
  std::ofstream(folder + "/longhaul.sqlite") << std::string(4096, 'x');
  EXPECT_EQ(Record::Open(folder, Record::Mode::kWrite).status().code(),
            absl::StatusCode::kDataLoss);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace longhaul
