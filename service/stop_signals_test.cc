#include "service/stop_signals.h"

#include <csignal>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace lcab::service {
namespace {

TEST(StopSignals, WaitReturnsTheSignalThatCame) {
  StopSignals signals;
  raise(SIGTERM);
  EXPECT_EQ(signals.Wait(absl::Seconds(10)), SIGTERM);
}

TEST(StopSignals, WaitEndsWithoutASignal) {
  StopSignals signals;
  const absl::Time start = absl::Now();
  EXPECT_EQ(signals.Wait(absl::Milliseconds(10)), 0);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(10));
}

TEST(StopSignals, TheOldMaskComesBack) {
  { StopSignals signals; }
  sigset_t now;
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &now), 0);
  EXPECT_EQ(sigismember(&now, SIGTERM), 0);
}

}  // namespace
}  // namespace lcab::service
