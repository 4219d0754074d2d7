#include "report/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "report/results_table.h"
#include "report/sample_trials.h"

namespace lcab::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Table, ColumnsAreAlignedAndLinesEndWithoutSpaces) {
  Table table({{"name"}, {.title = "n", .align = Align::kRight}, {"last"}});
  table.AddRow({"a", "1", "x"});
  table.AddRow({"long name", "1000", ""});
  EXPECT_EQ(table.Render({}),
            "name          n  last\n"
            "a             1  x\n"
            "long name  1000\n");
}

TEST(Table, HeadingsAndNotesStandBetweenRows) {
  Table table({{"a"}});
  table.AddHeading("group");
  table.AddRow({"1"});
  table.AddNote("because", Tone::kBad);
  EXPECT_EQ(table.Render({}), "a\n\ngroup\n1\n    because\n");
}

TEST(Table, TheWidestColumnThatMayShrinkGivesWay) {
  Table table({{.title = "name", .may_shrink = true}, {"fixed"}});
  table.AddRow({"abcdefghijklmnopqrstuvwxyz", "0123456789"});
  for (const std::string& line : Lines(table.Render({.width = 24}))) {
    EXPECT_LE(DisplayWidth(line), 24U) << line;
  }
  EXPECT_THAT(table.Render({.width = 24}), HasSubstr("abcdefghijk~  0123456789"));
}

TEST(Table, CharactersOfSeveralBytesAreOneColumnWide) {
  Table table({{"a"}, {"b"}});
  table.AddRow({"\xc3\xa9t\xc3\xa9", "x"});
  table.AddRow({"abc", "y"});
  const std::vector<std::string> lines = Lines(table.Render({}));
  EXPECT_EQ(lines[1], "\xc3\xa9t\xc3\xa9  x");
  EXPECT_EQ(lines[2], "abc  y");
}

TEST(Table, ColoursAreForTerminalsThatWantThem) {
  Table table({{"a"}});
  table.AddRow({Cell("bad", Tone::kBad)});
  EXPECT_EQ(table.Render({}).find('\033'), std::string::npos);
  EXPECT_THAT(table.Render({.interactive = true, .color = true}), HasSubstr("\033[31mbad\033[0m"));
}

TEST(ResultsTable, ShowsRateMedianIntervalSamplesErrorAndOutcome) {
  const std::string text = ResultsTable(std::vector{OkTrial()}, {});
  EXPECT_THAT(text, HasSubstr("causal  4K tokens  8:2 heads x 64  bf16  area "
                              "9,007,199,254,740,992"));
  EXPECT_THAT(text, HasSubstr("GFLOP/s"));
  EXPECT_THAT(text, HasSubstr("95% interval"));
  EXPECT_THAT(text, HasSubstr("1000"));
  EXPECT_THAT(text, HasSubstr("2.00 ms"));
  EXPECT_THAT(text, HasSubstr("1.90 ms .. 2.10 ms"));
  EXPECT_THAT(text, HasSubstr("2.1e-03"));
  EXPECT_THAT(text, HasSubstr("1 trial: 1 ok"));
}

TEST(ResultsTable, AnIntervalOfFewSamplesSaysHowSureItIs) {
  v1::Trial trial = OkTrial();
  trial.mutable_result()->mutable_statistics()->set_samples(4);
  trial.mutable_result()->mutable_statistics()->set_confidence(0.875);
  EXPECT_THAT(ResultsTable(std::vector{trial}, {}), HasSubstr("(88%) 1.90 ms .. 2.10 ms"));
  trial.mutable_result()->mutable_statistics()->set_samples(1);
  EXPECT_THAT(ResultsTable(std::vector{trial}, {}), Not(HasSubstr("..")));
}

// Case T1: every sample thrown away leaves a row that says so, without a rate.
TEST(ResultsTable, DiscardedSamplesAreTold) {
  v1::Trial trial = OkTrial();
  v1::Statistics& statistics = *trial.mutable_result()->mutable_statistics();
  statistics.set_discarded(10);
  EXPECT_THAT(ResultsTable(std::vector{trial}, {}),
              HasSubstr("    10 samples were discarded as throttled\n"));
  statistics.Clear();
  statistics.set_discarded(40);
  trial.mutable_result()->set_stop_reason(v1::STOP_REASON_ALL_THROTTLED);
  const std::string text = ResultsTable(std::vector{trial}, {});
  EXPECT_THAT(text, HasSubstr("all 40 samples were discarded as throttled"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("inf")));
}

TEST(ResultsTable, ShortIterationsAndTrialsThatRanAloneAreTold) {
  v1::Trial trial = OkTrial();
  trial.mutable_result()->mutable_statistics()->set_iterations_per_sample(64);
  trial.mutable_result()->set_ran_in_turn(true);
  const std::string text = ResultsTable(std::vector{trial}, {});
  EXPECT_THAT(text, HasSubstr("10 x 64"));
  EXPECT_THAT(text, HasSubstr("ran alone: the cohort did not fit in memory together"));
}

TEST(ResultsTable, AFailedTrialSaysWhyAndHasNoRate) {
  v1::Trial trial = FailedTrial(v1::OUTCOME_WRONG_RESULT, v1::FAULT_KERNEL,
                                "row 511 of head 3 differs: 1.0 expected, 0.9 found");
  const std::string text = ResultsTable(std::vector{trial}, {});
  EXPECT_THAT(text, HasSubstr("wrong_result"));
  EXPECT_THAT(text, HasSubstr("    row 511 of head 3 differs: 1.0 expected, 0.9 found"));
  EXPECT_THAT(text, Not(HasSubstr("1000")));
  EXPECT_THAT(text, HasSubstr("1 trial: 1 wrong_result"));
}

TEST(ResultsTable, FitsTheTerminalAndGroupsByProblem) {
  std::vector<v1::Trial> trials;
  for (int i = 0; i < 8; ++i) {
    v1::Trial trial = i == 5
                          ? FailedTrial(v1::OUTCOME_UNSUPPORTED, v1::FAULT_UNSPECIFIED,
                                        "strategy ulysses on 3 ranks: 3 does not divide 8 heads, "
                                        "so some rank would have to hold a part of a head")
                          : OkTrial();
    v1::TrialSpec& spec = *trial.mutable_spec();
    spec.set_pass(i % 2 == 0 ? v1::PASS_BACKWARD : v1::PASS_FORWARD);
    spec.mutable_kernel()->set_name("a_kernel_of_somebody_with_a_long_name");
    (*spec.mutable_kernel()->mutable_options())["tile"].set_integer_value(128);
    spec.mutable_strategy()->set_name("ring_zigzag");
    spec.set_ranks(4);
    spec.set_ranks_per_device(2);
    spec.mutable_problem()->set_q_tokens(i < 4 ? 4096 : 8192);
    trials.push_back(trial);
  }
  const std::string text = ResultsTable(trials, {.width = 120});
  const std::vector<std::string> lines = Lines(text);
  for (const std::string& line : lines) EXPECT_LE(DisplayWidth(line), 120U) << line;
  EXPECT_THAT(text, HasSubstr("4 ranks (virtual: 2 a device)"));
  // Two groups; in each the forward pass comes first.
  EXPECT_THAT(lines[2], HasSubstr("causal  4K tokens"));
  EXPECT_THAT(lines[3], HasSubstr("forward"));
  EXPECT_THAT(lines[4], HasSubstr("forward"));
  EXPECT_THAT(lines[5], HasSubstr("backward"));
  EXPECT_THAT(text, HasSubstr("8 trials: 7 ok, 1 unsupported"));
}

TEST(ResultsTable, ResultsOfSeveralJobsSayWhichTheyAreOf) {
  v1::Trial other = OkTrial();
  other.set_name("jobs/77/trials/0");
  EXPECT_THAT(ResultsTable(std::vector{OkTrial(), other}, {}),
              AllOf(HasSubstr("\n12   forward"), HasSubstr("\n77   forward")));
  EXPECT_THAT(ResultsTable(std::vector{OkTrial()}, {}), Not(HasSubstr("\n12")));
}

TEST(ResultsTable, RatesOfFastDevicesAreInTflops) {
  v1::Trial trial = OkTrial();
  trial.mutable_result()->set_flops(1'400'000'000'000);
  const std::string text = ResultsTable(std::vector{trial}, {});
  EXPECT_THAT(text, HasSubstr("TFLOP/s"));
  EXPECT_THAT(text, HasSubstr("  700  "));
}

TEST(ResultsTable, TrialsThatDidNotEndSaySo) {
  v1::Trial trial = OkTrial();
  trial.clear_result();
  trial.set_state(v1::TRIAL_STATE_PENDING);
  const std::string text = ResultsTable(std::vector{trial}, {});
  EXPECT_THAT(text, HasSubstr("pending"));
  EXPECT_THAT(text, HasSubstr("1 trial: 1 not done"));
}

TEST(Table, NothingThatATerminalActsUponIsWrittenToIt) {
  Table table({{"suite"}});
  table.AddHeading("h\x1b[2J");
  table.AddRow({"a\x1b[31m\nb"});
  table.AddNote("n\x07", Tone::kFaint);
  EXPECT_EQ(table.Render({}), "suite\n\nh\\x1b[2J\na\\x1b[31m\\x0ab\n    n\\x07\n");
}

}  // namespace
}  // namespace lcab::report
