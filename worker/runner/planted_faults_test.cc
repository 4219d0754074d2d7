// Every planted fault is found, and by which part of the verification: the table of
// docs/verification.md, held to what happens.

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/runner/testing/fake_worker.h"

namespace lcab::runner {
namespace {

std::string PartsOf(const v1::Verification& verification) {
  std::string parts;
  const auto add = [&](bool ok, const char* name) {
    if (!ok) parts += (parts.empty() ? "" : ", ") + std::string(name);
  };
  add(verification.probe_ok(), "probe");
  add(verification.numbers_ok(), "numbers");
  add(verification.honesty_ok(), "honesty");
  return parts;
}

// "fault | pass" to the parts that find it, from the document's table.
std::map<std::string, std::string> Documented() {
  std::map<std::string, std::string> rows;
  std::ifstream document("docs/verification.md");
  std::string line;
  while (std::getline(document, line)) {
    // | `fault` | what it does | forward | backward |
    if (line.compare(0, 3, "| `") != 0) continue;
    std::vector<std::string> cells;
    size_t begin = 1;
    for (size_t end; (end = line.find('|', begin)) != std::string::npos; begin = end + 1) {
      std::string cell = line.substr(begin, end - begin);
      cell.erase(0, cell.find_first_not_of(" `"));
      cell.erase(cell.find_last_not_of(" `") + 1);
      cells.push_back(cell);
    }
    if (cells.size() != 4) continue;
    rows[cells[0] + " | forward"] = cells[2];
    rows[cells[0] + " | backward"] = cells[3];
  }
  return rows;
}

v1::CohortSpec MakeCohort(int ranks, const std::vector<v1::TrialSpec>& trials) {
  v1::CohortSpec cohort;
  cohort.set_ranks(ranks);
  for (const v1::TrialSpec& trial : trials) *cohort.add_trials() = trial;
  return cohort;
}

TEST(PlantedFaultsTest, AreFoundByThePartsThatTheDocumentNames) {
  const std::vector<std::string> kernels = {
      "test_skip_tile",  "test_window_wide",   "test_last_row", "test_replay",
      "test_wrong_head", "test_mutates_input", "test_silent"};
  const std::vector<std::pair<std::string, v1::Pass>> executor_faults = {
      {"stale_key", v1::PASS_BACKWARD},
      {"skip_merge", v1::PASS_FORWARD},
      {"drop_row", v1::PASS_FORWARD}};
  std::map<std::string, std::string> found;
  const auto note = [&](const std::string& fault, v1::Pass pass, const v1::TrialResult& result) {
    EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT) << fault << ": " << result.reason();
    EXPECT_NE(result.reason(), "");
    found[fmt::format("{} | {}", fault, pass == v1::PASS_FORWARD ? "forward" : "backward")] =
        PartsOf(result.verification());
  };

  for (const v1::Pass pass : {v1::PASS_FORWARD, v1::PASS_BACKWARD}) {
    FakeWorker worker(1, FakeWorker::Kind::kThreads);
    std::vector<v1::TrialSpec> trials;
    for (const std::string& kernel : kernels) {
      trials.push_back(MakeTrial(1, 1100, pass));
      trials.back().mutable_kernel()->set_name(kernel);
      trials.back().mutable_problem()->mutable_mask()->set_name("sliding_window_causal");
      (*trials.back().mutable_problem()->mutable_mask()->mutable_options())["window"]
          .set_integer_value(700);
    }
    const CohortOutcome outcome = worker.Run(MakeCohort(1, trials));
    for (size_t n = 0; n < kernels.size(); ++n) {
      note(kernels[n], pass, outcome.results.at(static_cast<int>(n)));
    }
  }
  for (const auto& [fault, pass] : executor_faults) {
    FakeWorker worker(2, FakeWorker::Kind::kThreads);
    note(fault, pass,
         worker.Run(MakeCohort(2, {MakeTrial(2, 300, pass)}), {{"executor_fault", fault}})
             .results.at(0));
  }

  const std::map<std::string, std::string> documented = Documented();
  for (const auto& [fault, parts] : found) {
    EXPECT_NE(parts, "") << fault << " was not found";
    EXPECT_THAT(documented, testing::Contains(testing::Pair(fault, parts)));
  }
}

}  // namespace
}  // namespace lcab::runner
