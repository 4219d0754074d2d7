#include "proto/proto_time.h"

#include <vector>

#include "gtest/gtest.h"

namespace lcab {
namespace {

TEST(ProtoTime, TimesKeepTheirNanoseconds) {
  const absl::Time time = absl::FromUnixSeconds(1'700'000'000) + absl::Nanoseconds(123'456'789);
  EXPECT_EQ(ToProto(time).seconds(), 1'700'000'000);
  EXPECT_EQ(ToProto(time).nanos(), 123'456'789);
  EXPECT_EQ(FromProto(ToProto(time)), time);
}

TEST(ProtoTime, NanosecondsOfTimesBefore1970ArePositive) {
  const absl::Time time = absl::UnixEpoch() - absl::Nanoseconds(1);
  EXPECT_EQ(ToProto(time).seconds(), -1);
  EXPECT_EQ(ToProto(time).nanos(), 999'999'999);
  EXPECT_EQ(FromProto(ToProto(time)), time);
}

TEST(ProtoTime, DurationsComeBackWithTheirSign) {
  for (const absl::Duration duration :
       {absl::ZeroDuration(), absl::Nanoseconds(1), -absl::Nanoseconds(1), absl::Milliseconds(1500),
        -absl::Milliseconds(1500), absl::Hours(100'000)}) {
    EXPECT_EQ(FromProto(ToProto(duration)), duration) << duration;
  }
  EXPECT_EQ(ToProto(-absl::Milliseconds(1500)).seconds(), -1);
  EXPECT_EQ(ToProto(-absl::Milliseconds(1500)).nanos(), -500'000'000);
}

TEST(ProtoTime, WhatTheWireCannotHoldBecomesTheNearestThatItCan) {
  EXPECT_EQ(ToProto(absl::InfiniteFuture()).seconds(), 253'402'300'799);
  EXPECT_EQ(ToProto(absl::InfinitePast()).seconds(), -62'135'596'800);
  EXPECT_EQ(ToProto(absl::InfiniteDuration()).seconds(), 315'576'000'000);
  EXPECT_EQ(ToProto(-absl::InfiniteDuration()).seconds(), -315'576'000'000);
}

}  // namespace
}  // namespace lcab
