#include "worker/death.h"

#include <csignal>
#include <string>

#include "gtest/gtest.h"
#include "worker/runner_exit_codes.h"

namespace lcab::worker {
namespace {

TEST(Judge, SignalsOfTheProgramsOwnMakingAreTheKernelsFault) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL}) {
    const Verdict verdict = Judge({.end = {.signal = signal}, .in_trial = true, .stage = "sample"});
    EXPECT_EQ(verdict.outcome, v1::OUTCOME_CRASHED) << signal;
    EXPECT_EQ(verdict.fault, v1::FAULT_KERNEL) << signal;
    EXPECT_NE(verdict.reason.find(SignalName(signal)), std::string::npos) << verdict.reason;
    EXPECT_NE(verdict.reason.find("sample"), std::string::npos) << verdict.reason;
  }
}

TEST(Judge, AKillFromOutsideIsInfrastructure) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGHUP}) {
    const Verdict verdict = Judge({.end = {.signal = signal}, .in_trial = true});
    EXPECT_EQ(verdict.outcome, v1::OUTCOME_CRASHED) << signal;
    EXPECT_EQ(verdict.fault, v1::FAULT_INFRASTRUCTURE) << signal;
  }
}

TEST(Judge, AKillByTheOutOfMemoryKillerIsALimit) {
  const Verdict verdict =
      Judge({.end = {.signal = SIGKILL}, .out_of_memory_kill = true, .in_trial = true});
  EXPECT_EQ(verdict.outcome, v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(verdict.fault, v1::FAULT_LIMIT);
}

TEST(Judge, ASegmentationFaultDuringAnotherProcesssOutOfMemoryKillStaysTheKernels) {
  const Verdict verdict =
      Judge({.end = {.signal = SIGSEGV}, .out_of_memory_kill = true, .in_trial = true});
  EXPECT_EQ(verdict.fault, v1::FAULT_KERNEL);
}

TEST(Judge, AFailedAllocationUnderALimitIsOutOfMemory) {
  Death death{.end = {.signal = SIGABRT},
              .memory_limit_bytes = 1 << 30,
              .in_trial = true,
              .last_output =
                  "terminate called after throwing an instance of 'std::bad_alloc'\n"
                  "  what():  std::bad_alloc\n"};
  EXPECT_EQ(Judge(death).outcome, v1::OUTCOME_OUT_OF_MEMORY);
  death.memory_limit_bytes = 0;
  EXPECT_EQ(Judge(death).outcome, v1::OUTCOME_CRASHED);
}

TEST(Judge, AnExitInMidTrialIsTheKernelsAndOneBeforeIsNot) {
  EXPECT_EQ(Judge({.end = {.exit_code = 3}, .in_trial = true}).fault, v1::FAULT_KERNEL);
  EXPECT_EQ(Judge({.end = {.exit_code = 3}, .in_trial = false}).fault, v1::FAULT_INFRASTRUCTURE);
}

TEST(Judge, TheLossOfAnotherRankIsInfrastructure) {
  const Verdict verdict = Judge({.end = {.exit_code = kLostPeerExitCode}, .in_trial = true});
  EXPECT_EQ(verdict.fault, v1::FAULT_INFRASTRUCTURE);
  EXPECT_NE(verdict.reason.find("another rank died"), std::string::npos) << verdict.reason;
}

TEST(Judge, TheReasonQuotesTheLastLineMadeHarmless) {
  const Verdict verdict = Judge({.end = {.signal = SIGSEGV},
                                 .in_trial = true,
                                 .last_output = "first\nlast \033[31mwords\n\n"});
  EXPECT_NE(verdict.reason.find("it last printed: last ?[31mwords"), std::string::npos)
      << verdict.reason;
  EXPECT_EQ(verdict.reason.find("first"), std::string::npos);
}

TEST(OutOfMemoryKills, CountsOnlyUpwards) {
  const int64_t before = OutOfMemoryKills();
  EXPECT_GE(before, 0);
  EXPECT_GE(OutOfMemoryKills(), before);
}

}  // namespace
}  // namespace lcab::worker
