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

TEST(ResourceNames, WhatIsNoNameIsLeftForTheCoordinatorToRefuse) {
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

}  // namespace
}  // namespace lcab::client
