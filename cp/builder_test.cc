#include "cp/builder.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::cp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A schedule whose steps are given.
class GivenSchedule : public RankSchedule {
 public:
  explicit GivenSchedule(int streams) { frame_.streams = streams; }

  int Temp(const std::string& name, int64_t rows = 4, BufferRole role = BufferRole::kTemp) {
    return Declare(frame_, {.name = name, .rows = rows, .heads = 2, .dim = 32, .role = role});
  }
  void Copies(StreamIndex stream, int from, int to, Pass pass = Pass::kForward) {
    Emits(stream, Copy{.to = cp::All(frame_, to), .from = cp::All(frame_, from)}, pass);
  }
  void Emits(StreamIndex stream, Action action, Pass pass = Pass::kForward) {
    steps_[pass == Pass::kForward ? 0 : 1].push_back({stream, std::move(action)});
  }

  const RankPlan& frame() const override { return frame_; }
  int Rounds(Pass pass) const override {
    return static_cast<int>(steps_[pass == Pass::kForward ? 0 : 1].size());
  }
  void EmitRound(Pass pass, int round, StepSink& sink) const override {
    const auto& [stream, action] =
        steps_[pass == Pass::kForward ? 0 : 1][static_cast<size_t>(round)];
    sink.Emit(stream, action);
  }

 private:
  RankPlan frame_;
  std::vector<std::pair<StreamIndex, Action>> steps_[2];
};

TEST(Builder, AStepWaitsForWhatItReadsOverwritesAndIsReadBefore) {
  GivenSchedule schedule(2);
  const int a = schedule.Temp("a"), b = schedule.Temp("b"), c = schedule.Temp("c"),
            d = schedule.Temp("d");
  schedule.Emits(0, Fill{.to = All(schedule.frame(), a)});
  schedule.Copies(1, a, b);  // 1 reads what 0 writes
  schedule.Copies(0, c, d);  // 2 has nothing to do with them
  schedule.Copies(0, d, a);  // 3 overwrites what 1 reads
  schedule.Copies(1, c, b);  // 4 reads what 2 reads: no conflict; 1 is of its stream
  const RankPlan plan = BuildPlan(schedule, false);
  EXPECT_THAT(plan.forward[0].after, IsEmpty());
  EXPECT_THAT(plan.forward[1].after, ElementsAre(0));
  EXPECT_THAT(plan.forward[2].after, IsEmpty());
  EXPECT_THAT(plan.forward[3].after, ElementsAre(1));
  EXPECT_THAT(plan.forward[4].after, IsEmpty());
}

TEST(Builder, DependenciesThatOthersImplyAreLeftOut) {
  GivenSchedule schedule(3);
  const int a = schedule.Temp("a"), b = schedule.Temp("b"), c = schedule.Temp("c");
  schedule.Emits(0, Fill{.to = All(schedule.frame(), a)});
  schedule.Copies(1, a, b);  // waits for 0
  // Reads a, which 0 wrote, and b, which 1 wrote: 1 began after 0.
  schedule.Emits(2, Merge{.out = All(schedule.frame(), c),
                          .lse = All(schedule.frame(), c),
                          .part = All(schedule.frame(), a),
                          .part_lse = All(schedule.frame(), b)});
  const RankPlan plan = BuildPlan(schedule, false);
  EXPECT_THAT(plan.forward[2].after, ElementsAre(1));
}

TEST(Builder, PartsOfABufferThatDoNotMeetDoNotWait) {
  GivenSchedule schedule(2);
  const int a = schedule.Temp("a"), b = schedule.Temp("b");
  schedule.Emits(0, Fill{.to = Part(a, {0, 2}, {0, 2})});
  schedule.Emits(1, Copy{.to = Part(b, {0, 2}, {0, 2}), .from = Part(a, {2, 4}, {0, 2})});
  schedule.Emits(1, Copy{.to = Part(b, {2, 4}, {0, 1}), .from = Part(a, {0, 2}, {1, 2})});
  const RankPlan plan = BuildPlan(schedule, false);
  EXPECT_THAT(plan.forward[1].after, IsEmpty());
  EXPECT_THAT(plan.forward[2].after, ElementsAre(0));
}

TEST(Builder, BuffersThatDoNotLiveTogetherShareMemoryAndTheirStepsWait) {
  GivenSchedule schedule(2);
  const int a = schedule.Temp("a"), b = schedule.Temp("b"), c = schedule.Temp("c"),
            d = schedule.Temp("d");
  schedule.Copies(0, a, b);
  schedule.Copies(1, c, d);  // a and b are dead: c and d lie where they lay, so this waits
  const RankPlan plan = BuildPlan(schedule, false);
  EXPECT_EQ(plan.slab_bytes, 2 * 1024);
  EXPECT_THAT(plan.forward[1].after, ElementsAre(0));
}

TEST(Builder, BuffersThatLastHaveMemoryOfTheirOwn) {
  GivenSchedule schedule(1);
  const int in = schedule.Temp("in", 4, BufferRole::kIn),
            saved = schedule.Temp("saved", 4, BufferRole::kSaved);
  const int out = schedule.Temp("out", 4, BufferRole::kOut), temp = schedule.Temp("temp"),
            other = schedule.Temp("other");
  schedule.Copies(0, in, temp);
  schedule.Copies(0, temp, saved);
  schedule.Copies(0, saved, other, Pass::kBackward);  // other lives when temp does not
  schedule.Copies(0, other, out, Pass::kBackward);
  const RankPlan plan = BuildPlan(schedule, true);
  EXPECT_EQ(plan.slab_bytes, 4 * 1024);
  const auto offset = [&](int buffer) { return plan.buffers[static_cast<size_t>(buffer)].offset; };
  EXPECT_EQ(offset(temp), offset(other));
  std::vector<int64_t> offsets = {offset(in), offset(saved), offset(out), offset(temp)};
  std::sort(offsets.begin(), offsets.end());
  EXPECT_THAT(offsets, ElementsAre(0, 1024, 2048, 3072));
}

TEST(Builder, AForwardPlanAloneHasNoBackwardSteps) {
  GivenSchedule schedule(1);
  const int a = schedule.Temp("a"), b = schedule.Temp("b");
  schedule.Copies(0, a, b);
  schedule.Copies(0, b, a, Pass::kBackward);
  EXPECT_THAT(BuildPlan(schedule, false).backward, IsEmpty());
  EXPECT_EQ(BuildPlan(schedule, true).backward.size(), 1u);
}

TEST(Builder, BuffersThatNobodyUsesTakeNoMemory) {
  GivenSchedule schedule(1);
  const int a = schedule.Temp("a"), unused = schedule.Temp("unused", 1000), b = schedule.Temp("b");
  schedule.Copies(0, a, b);
  const RankPlan plan = BuildPlan(schedule, false);
  EXPECT_EQ(plan.slab_bytes, 2 * 1024);
  EXPECT_EQ(plan.buffers[static_cast<size_t>(unused)].bytes(), 0);
}

}  // namespace
}  // namespace lcab::cp
