#include "coordinator/states.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <span>
#include <string>

#include "coordinator/test_specs.h"
#include "coordinator/test_world.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::coordinator {
namespace {

using ::testing::HasSubstr;

// Tests run in the root of the sources.
std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <typename State>
std::string Table(std::string_view kind, std::span<const Move<State>> moves) {
  std::string table =
      fmt::format("| {} | from | to | because |\n| --- | --- | --- | --- |\n", kind);
  for (const Move<State>& move : moves) {
    table += fmt::format("| | {} | {} | {} |\n", Name(move.from), Name(move.to), move.cause);
  }
  return table;
}

TEST(States, DocumentationIsTheTable) {
  const std::string page = ReadFile("docs/service.md");
  EXPECT_THAT(page, HasSubstr(Table("job", JobMoves())));
  EXPECT_THAT(page, HasSubstr(Table("trial", TrialMoves())));
  EXPECT_THAT(page, HasSubstr(Table("attempt", AttemptMoves())));
  EXPECT_THAT(page, HasSubstr(Table("assignment", AssignmentMoves())));
  EXPECT_THAT(page, HasSubstr(Table("share", ShareMoves())));
}

TEST(States, EveryReasonOfAnErrorIsDocumented) {
  const std::string page = ReadFile("docs/service.md");
  const std::regex reason("\"([A-Z]+_[A-Z_]+)\"");
  std::set<std::string> reasons;
  for (const auto& file : std::filesystem::directory_iterator("coordinator")) {
    const std::string name = file.path().filename().string();
    if (file.path().extension() != ".cc" || name.find("_test.cc") != std::string::npos) continue;
    const std::string source = ReadFile(file.path());
    for (std::sregex_iterator match(source.begin(), source.end(), reason), end; match != end;
         ++match) {
      reasons.insert((*match)[1]);
    }
  }
  EXPECT_GE(reasons.size(), 6U);
  for (const std::string& found : reasons) EXPECT_THAT(page, HasSubstr("`" + found + "`"));
}

template <typename State>
void ExpectOnlyWhatTheTableSays(std::span<const Move<State>> moves, int states) {
  for (int from = 1; from <= states; ++from) {
    for (int to = 1; to <= states; ++to) {
      const bool listed = std::any_of(moves.begin(), moves.end(), [&](const Move<State>& move) {
        return move.from == static_cast<State>(from) && move.to == static_cast<State>(to);
      });
      EXPECT_EQ(IsLegal(static_cast<State>(from), static_cast<State>(to)), listed);
    }
  }
}

TEST(States, OnlyLostTrialsLeaveTheirEndWithoutSomebodyAskingForIt) {
  for (const Move<TrialState>& move : TrialMoves()) {
    if (!HasEnded(move.from) || move.cause.substr(0, 7) == "retried") continue;
    EXPECT_EQ(move.from, TrialState::kLost);
    EXPECT_EQ(move.to, TrialState::kCompleted);
  }
}

TEST(States, MoveThatIsNotInTheTableFailsTheWholeChange) {
  World world;
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  const absl::Status status = world.Change([&](Step& step) {
    auto trial = FindTrialNumber(step.db, job, 0);
    step.db.Execute("UPDATE jobs SET submitter = 'changed'");
    MoveTrial(step.db, *trial, TrialState::kLost);
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(world.Job(job).submitter(), "ann");
  ExpectOnlyWhatTheTableSays(JobMoves(), 6);
  ExpectOnlyWhatTheTableSays(TrialMoves(), 5);
  ExpectOnlyWhatTheTableSays(AttemptMoves(), 4);
  ExpectOnlyWhatTheTableSays(AssignmentMoves(), 4);
  ExpectOnlyWhatTheTableSays(ShareMoves(), 3);
}

TEST(States, GuardedUpdateFailsWhenSomebodyElseMovedTheTrial) {
  World world;
  const int64_t job = world.Submit(MakeExpansion({{"tiled"}}));
  const absl::Status status = world.Change([&](Step& step) {
    auto trial = FindTrialNumber(step.db, job, 0);
    auto stale = trial;
    MoveTrial(step.db, *trial, TrialState::kRunning);
    MoveTrial(step.db, *stale, TrialState::kCancelled);
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(world.Job(job).counts().pending(), 1);
}

}  // namespace
}  // namespace lcab::coordinator
