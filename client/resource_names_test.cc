#include "client/resource_names.h"

#include "gtest/gtest.h"

namespace lcab::client {
namespace {

TEST(ResourceNames, NumbersAreEnoughForJobs) {
  EXPECT_EQ(JobName("12"), "jobs/12");
  EXPECT_EQ(JobName("jobs/12"), "jobs/12");
}

TEST(ResourceNames, TrialsHaveThreeSpellings) {
  for (const char* text : {"12/3", "12/trials/3", "jobs/12/3", "jobs/12/trials/3"}) {
    EXPECT_EQ(TrialName(text), "jobs/12/trials/3") << text;
  }
}

TEST(ResourceNames, WhatIsNoNameStaysAsItIs) {
  for (const char* text : {"", "x", "12", "12/", "/3", "12/x", "jobs/12/trials/", "1/2/3"}) {
    EXPECT_EQ(TrialName(text), text);
  }
  EXPECT_EQ(JobName(""), "");
  EXPECT_EQ(JobName("jobs"), "jobs");
}

TEST(ResourceNames, WorkersByName) {
  EXPECT_EQ(WorkerName("w1"), "workers/w1");
  EXPECT_EQ(WorkerName("workers/w1"), "workers/w1");
}

TEST(ResourceNames, WhatIsNoNameIsRefusedWithTheSpellingsThatAre) {
  for (const char* text : {"", "x", "jobs", "jobs/", "jobs/x", "-1", "1/2", "jobs/1/trials/2",
                           "99999999999999999999", "1\x1b[2J"}) {
    EXPECT_EQ(CheckJob(text).code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(std::string(CheckJob("jobs/x").message()), "'jobs/x' is no job; write jobs/12 or 12");
  EXPECT_TRUE(CheckJob("12").ok());
  EXPECT_TRUE(CheckJob("jobs/12").ok());
  for (const char* text : {"", "x", "12", "12/", "/3", "12/x", "jobs/12/trials/", "1/2/3",
                           "jobs/1/trials/2/3", "jobs/jobs/1/2"}) {
    EXPECT_EQ(CheckTrial(text).code(), absl::StatusCode::kInvalidArgument) << text;
  }
  for (const char* text : {"12/3", "12/trials/3", "jobs/12/3", "jobs/12/trials/3"}) {
    EXPECT_TRUE(CheckTrial(text).ok()) << text;
  }
  for (const char* text : {"", "workers/", "workers", "jobs/1", "a b", "w\x1b"}) {
    EXPECT_EQ(CheckWorker(text).ok(), std::string_view(text) == "workers") << text;
  }
  EXPECT_TRUE(CheckWorker("node-2.rack:1").ok());
  EXPECT_TRUE(CheckWorker("workers/w1").ok());
}

}  // namespace
}  // namespace lcab::client
