#include "coordinator/resource_names.h"

#include <string>

#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

TEST(ResourceNames, NamesAreReadAsTheyAreWrittenAndAsPeopleTypeThem) {
  EXPECT_EQ(ParseJobName(JobName(7)).value(), 7);
  EXPECT_EQ(ParseJobName("7").value(), 7);
  EXPECT_EQ(ParseTrialName(TrialName(7, 3))->job, 7);
  EXPECT_EQ(ParseTrialName(TrialName(7, 3))->number, 3);
  EXPECT_EQ(ParseTrialName("7/3")->number, 3);
  EXPECT_EQ(ParseWorkerName(WorkerName("w1")).value(), "w1");
  EXPECT_EQ(ParseWorkerName("w1").value(), "w1");
}

TEST(ResourceNames, WhatIsNoNameIsRefusedWithARightOne) {
  for (const char* name : {"", "jobs", "jobs/", "jobs/x", "jobs/-1", "jobs/7/", "job/7", "7x",
                           "jobs/99999999999999999999", " 7", "jobs/7/trials/3"}) {
    const auto parsed = ParseJobName(name);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(std::string(parsed.status().message()).find("jobs/7"), std::string::npos);
  }
  for (const char* name : {"", "7", "jobs/7", "jobs/7/trials", "jobs/7/trials/", "jobs/7/trial/3",
                           "jobs/7/trials/3/4", "a/b"}) {
    EXPECT_FALSE(ParseTrialName(name).ok()) << name;
  }
  EXPECT_FALSE(ParseWorkerName("").ok());
  EXPECT_FALSE(ParseWorkerName("workers/").ok());
  EXPECT_FALSE(ParseWorkerName("a/b").ok());
}

TEST(ResourceNames, PageTokenOpensOnlyTheListItCameFrom) {
  const std::string token = MakePageToken("jobs", 7, 3);
  EXPECT_EQ(ParsePageToken("jobs", token)->first, 7);
  EXPECT_EQ(ParsePageToken("jobs", token)->second, 3);
  EXPECT_EQ(token.find('7'), std::string::npos) << "opaque: nobody should take it apart";
  EXPECT_FALSE(ParsePageToken("trials", token).ok());
  EXPECT_FALSE(ParsePageToken("jobs", "x" + token).ok());
  EXPECT_FALSE(ParsePageToken("jobs", "").ok());
}

TEST(ResourceNames, PageSizesAreClamped) {
  EXPECT_EQ(PageSize(0, 50, 1000).value(), 50);
  EXPECT_EQ(PageSize(1, 50, 1000).value(), 1);
  EXPECT_EQ(PageSize(5000, 50, 1000).value(), 1000);
  EXPECT_FALSE(PageSize(-1, 50, 1000).ok());
}

}  // namespace
}  // namespace lcab::coordinator
