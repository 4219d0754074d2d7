#include "cp/executors/host.h"

#include <array>
#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "cp/executor.h"
#include "cp/strategy.h"
#include "cp/testing/borrowed_kernel.h"
#include "cp/testing/check_strategy.h"
#include "cp/testing/memory_communicator.h"
#include "cp/testing/run_ranks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/registry.h"

namespace lcab::cp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Problem Masked(SliceKind kind, DType dtype = DType::kFloat32) {
  const std::vector<Slice> slices = {{0, 32, 0, 32, kind}};
  return {.q_heads = 4,
          .kv_heads = 2,
          .qk_head_dim = 8,
          .v_head_dim = 8,
          .dtype = dtype,
          .mask = std::make_shared<const Mask>(Mask::FromSlices(32, 32, slices).value())};
}

std::vector<RankPlan> PlansOf(const std::string& strategy, const Problem& problem, int ranks) {
  return BuiltinStrategies()
      .Find(strategy)
      .value()
      ->MakePlans(RequestOf({.strategy = strategy, .problem = problem, .ranks = ranks}))
      .value();
}

std::unique_ptr<Device> Cpu() { return MakeCpuDevice({.threads = 1}).value(); }

TEST(HostExecutor, PreparesAKernelOnceForEachDistinctProblem) {
  // Full attention over even shards: all steps of a pass pose the same problem.
  const BorrowedKernel kernel;
  const std::unique_ptr<Device> device = Cpu();
  const std::vector<RankPlan> plans = PlansOf("ring", Masked(SliceKind::kFull), 4);
  auto executor = MakeExecutor(plans[0], {.kernel = &kernel, .device = device.get()});
  ASSERT_TRUE(executor.ok()) << executor.status();
  ASSERT_TRUE((*executor)->Prepare().ok());
  EXPECT_EQ(kernel.prepared(), 2);

  // Causal: on the last rank, its own shard's problem and that of all earlier shards.
  const BorrowedKernel causal_kernel;
  const std::vector<RankPlan> causal = PlansOf("ring", Masked(SliceKind::kCausal), 4);
  auto last = MakeExecutor(causal[3], {.kernel = &causal_kernel, .device = device.get()});
  ASSERT_TRUE(last.ok()) << last.status();
  ASSERT_TRUE((*last)->Prepare().ok());
  EXPECT_EQ(causal_kernel.prepared(), 4);
}

TEST(HostExecutor, TellsItsMemoryBeforeAllocatingIt) {
  const BorrowedKernel kernel;  // 1000 bytes of workspace and 10 of schedule a problem
  const std::unique_ptr<Device> device = Cpu();
  const std::vector<RankPlan> plans = PlansOf("ring", Masked(SliceKind::kFull), 2);
  const ExecutorOptions options{.kernel = &kernel, .device = device.get()};
  const absl::StatusOr<MemoryNeed> need = GetMemoryNeed(plans[0], options);
  ASSERT_TRUE(need.ok()) << need.status();
  EXPECT_EQ(need->plan_bytes, plans[0].slab_bytes);
  EXPECT_EQ(need->workspace_bytes, 2000);
  EXPECT_EQ(need->schedule_bytes, 20);
  auto executor = MakeExecutor(plans[0], options);
  ASSERT_TRUE(executor.ok());
  EXPECT_EQ(device->allocated_bytes(), 0);
  ASSERT_TRUE((*executor)->Prepare().ok());
  EXPECT_EQ(device->allocated_bytes(), plans[0].slab_bytes);
  EXPECT_EQ((*executor)->memory_need().total(), need->total());
}

TEST(HostExecutor, AllocationThatDoesNotFitIsResourceExhausted) {
  const BorrowedKernel kernel;
  const std::unique_ptr<Device> device = MakeCpuDevice({.memory_bytes = 1000}).value();
  const std::vector<RankPlan> plans = PlansOf("single", Masked(SliceKind::kFull), 1);
  auto executor = MakeExecutor(plans[0], {.kernel = &kernel, .device = device.get()});
  ASSERT_TRUE(executor.ok());
  EXPECT_EQ((*executor)->Prepare().code(), absl::StatusCode::kResourceExhausted);
}

TEST(HostExecutor, RefusesAPlanThatNeedsMoreThanTheKernelCanDo) {
  const std::unique_ptr<Device> device = Cpu();
  const std::vector<RankPlan> plans =
      PlansOf("ring", Masked(SliceKind::kFull, DType::kBFloat16), 2);
  const auto refusal = [&](Traits traits) {
    const BorrowedKernel kernel(traits);
    return MakeExecutor(plans[0], {.kernel = &kernel, .device = device.get()}).status();
  };
  const absl::Status partials = refusal({.wants_delta = true, .float32_gradients = true});
  EXPECT_EQ(partials.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(partials.message()),
              AllOf(HasSubstr("rank 0, forward, step"), HasSubstr("cannot write out in fp32")));
  EXPECT_THAT(std::string(refusal({.wants_delta = true, .float32_out = true}).message()),
              HasSubstr("cannot write gradients in fp32"));
  EXPECT_THAT(
      std::string(refusal({.wants_delta = false, .float32_out = true, .float32_gradients = true})
                      .message()),
      HasSubstr("it wants out"));
}

TEST(HostExecutor, IsNotUsedBeforeItIsPreparedAndConnected) {
  const BorrowedKernel kernel;
  const std::unique_ptr<Device> device = Cpu();
  const std::vector<RankPlan> plans = PlansOf("ring", Masked(SliceKind::kFull), 2);
  auto executor = MakeExecutor(plans[0], {.kernel = &kernel, .device = device.get()});
  ASSERT_TRUE(executor.ok());
  EXPECT_THAT(std::string((*executor)->Enqueue(Pass::kForward).message()), HasSubstr("Prepare()"));
  ASSERT_TRUE((*executor)->Prepare().ok());
  EXPECT_THAT(std::string((*executor)->Enqueue(Pass::kForward).message()), HasSubstr("Connect()"));
  EXPECT_EQ((*executor)->Barrier(absl::Now()).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(HostExecutor, RefusesAFaultThatItCannotPlant) {
  const BorrowedKernel kernel;
  const std::unique_ptr<Device> device = Cpu();
  const std::vector<RankPlan> plans = PlansOf("single", Masked(SliceKind::kFull), 1);
  const absl::Status status =
      MakeExecutor(plans[0], {.kernel = &kernel, .device = device.get(), .fault = "stale_keys"})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stale_key"));
}

// One rank of two whose peer never comes.
class LonelyRank : public testing::Test {
 protected:
  void Start(absl::Duration step_timeout) { Start(step_timeout, kernel_); }
  void Start(absl::Duration step_timeout, const Kernel& kernel) {
    const std::vector<RankPlan> plans = PlansOf("ring", Masked(SliceKind::kFull), 2);
    executor_ = MakeExecutor(plans[0], {.kernel = &kernel,
                                        .device = device_.get(),
                                        .make_communicator =
                                            [this](int index) {
                                              return std::make_unique<ToldOf>(hubs_[index].Join(0),
                                                                              exchanging_);
                                            },
                                        .step_timeout = step_timeout})
                    .value();
    ASSERT_TRUE(executor_->Prepare().ok());
    ASSERT_TRUE(executor_->Connect().ok());
  }
  absl::Status RunForward() {
    absl::Status s = executor_->Enqueue(Pass::kForward);
    return s.ok() ? device_->stream().Synchronize(absl::Now() + absl::Seconds(20)) : s;
  }

  // Tells when the first exchange begins.
  class ToldOf : public Communicator {
   public:
    ToldOf(std::unique_ptr<Communicator> communicator, std::promise<void>& exchanging)
        : communicator_(std::move(communicator)), exchanging_(exchanging) {}
    int rank() const override { return communicator_->rank(); }
    int ranks() const override { return communicator_->ranks(); }
    absl::Status Exchange(std::span<const SendBuffer> sends,
                          std::span<const ReceiveBuffer> receives, absl::Time deadline) override {
      if (!std::exchange(told_, true)) exchanging_.set_value();
      return communicator_->Exchange(sends, receives, deadline);
    }
    absl::Status Barrier(absl::Time deadline) override { return communicator_->Barrier(deadline); }
    void Abort(std::string_view reason) override { communicator_->Abort(reason); }
    int64_t bytes_sent() const override { return communicator_->bytes_sent(); }
    void ResetBytesSent() override { communicator_->ResetBytesSent(); }

   private:
    const std::unique_ptr<Communicator> communicator_;
    std::promise<void>& exchanging_;
    bool told_ = false;
  };

  const BorrowedKernel kernel_;
  const std::unique_ptr<Device> device_ = Cpu();
  std::promise<void> exchanging_;
  std::array<MemoryHub, 3> hubs_ = {MemoryHub(2), MemoryHub(2), MemoryHub(2)};
  std::unique_ptr<Executor> executor_;
};

TEST_F(LonelyRank, GivesUpAtTheDeadlineOfAStepAndNamesThePeer) {
  Start(absl::Milliseconds(50));
  const absl::Status status = RunForward();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 0, forward, step"), HasSubstr("waited for rank 1")));
  // What failed stays failed: later passes would compute with what never came.
  EXPECT_EQ(executor_->Enqueue(Pass::kForward).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LonelyRank, AbortFromAnotherThreadWakesIt) {
  Start(absl::Minutes(10));
  const absl::Time start = absl::Now();
  const std::jthread other([this] { executor_->Abort("rank 1 is dead"); });
  const absl::Status status = RunForward();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 is dead"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

// Cannot compute, and says so once an exchange has begun.
class BrokenKernel : public BorrowedKernel {
 public:
  explicit BrokenKernel(std::future<void> exchanging) : exchanging_(exchanging.share()) {}

  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Problem&, Pass, const Options&,
                                                          Device&) const override {
    class Broken : public PreparedKernel {
     public:
      explicit Broken(std::shared_future<void> exchanging) : exchanging_(std::move(exchanging)) {}
      absl::Status Forward(const ForwardTensors&, Stream&) override {
        EXPECT_EQ(exchanging_.wait_for(std::chrono::seconds(20)), std::future_status::ready);
        return absl::InternalError("broken on purpose");
      }
      absl::Status Backward(const BackwardTensors&, Stream&) override {
        return absl::InternalError("broken on purpose");
      }

     private:
      const std::shared_future<void> exchanging_;
    };
    return std::make_unique<Broken>(exchanging_);
  }

 private:
  const std::shared_future<void> exchanging_;
};

TEST_F(LonelyRank, CanBeDestroyedWhileItWaits) {
  const BrokenKernel broken(exchanging_.get_future());
  Start(absl::Minutes(10), broken);
  const absl::Time start = absl::Now();
  // The first Attend ends the pass; the exchange beside it waits on a stream of its own.
  EXPECT_EQ(executor_->Enqueue(Pass::kForward).code(), absl::StatusCode::kInternal);
  executor_.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

// Under ulysses a kernel reads tensors that an exchange has just written.
TEST(HostExecutor, WatchedPassNamesTemporariesThatAKernelChanges) {
  const std::vector<RankPlan> plans = PlansOf("ulysses", Masked(SliceKind::kFull), 2);
  const auto changed_by = [&](const std::string& name) {
    const Kernel& kernel = *BuiltinKernels().Find(name).value();
    std::array<MemoryHub, 3> hubs = {MemoryHub(2), MemoryHub(2), MemoryHub(2)};
    // They end together: one that goes away aborts what its peer still waits for.
    const std::array<std::unique_ptr<Device>, 2> devices = {Cpu(), Cpu()};
    std::array<std::unique_ptr<Executor>, 2> executors;
    std::vector<std::string> changed(2);
    OnRanks(2, [&](int rank) {
      const auto n = static_cast<size_t>(rank);
      executors[n] =
          MakeExecutor(plans[n],
                       {.kernel = &kernel,
                        .device = devices[n].get(),
                        .make_communicator =
                            [&](int index) { return hubs[static_cast<size_t>(index)].Join(rank); }})
              .value();
      ASSERT_TRUE(executors[n]->Prepare().ok());
      ASSERT_TRUE(executors[n]->Connect().ok());
      const auto reads = executors[n]->RunWatched(Pass::kForward, absl::Now() + absl::Seconds(20));
      ASSERT_TRUE(reads.ok()) << reads.status();
      ASSERT_LE(reads->size(), 1U);
      if (!reads->empty()) changed[n] = reads->front();
    });
    return changed;
  };
  EXPECT_THAT(changed_by("cpu_reference"), ElementsAre("", ""));
  EXPECT_THAT(changed_by("test_mutates_input"),
              ElementsAre(HasSubstr("q of rank 0, forward"), HasSubstr("q of rank 1, forward")));
}

// The faults that verification is tested with do what they say.
TEST(PlantedFaults, ChangeWhatTheyShouldAndNothingElse) {
  const Problem problem = Masked(SliceKind::kFull);
  const std::vector<RankPlan> plans = PlansOf("ring", problem, 2);
  const Tensors inputs = RandomInputs(problem, 1);
  const BorrowedKernel kernel;
  const auto run = [&](const std::string& fault) {
    return RunRanks(plans, inputs, {.kernel = &kernel, .fault = fault}).value().outputs;
  };
  const Tensors right = run("");

  const Tensors stale = run("stale_key");
  EXPECT_EQ(stale.at(Tensor::kOut), right.at(Tensor::kOut));
  EXPECT_EQ(stale.at(Tensor::kLse), right.at(Tensor::kLse));
  EXPECT_NE(stale.at(Tensor::kDQ), right.at(Tensor::kDQ));
  EXPECT_NE(stale.at(Tensor::kDK), right.at(Tensor::kDK));

  const Tensors unmerged = run("skip_merge");
  EXPECT_NE(unmerged.at(Tensor::kOut), right.at(Tensor::kOut));
  EXPECT_NE(unmerged.at(Tensor::kLse), right.at(Tensor::kLse));

  // The last row of each rank's out keeps the NaN that was there: rows 15 and 31.
  const Tensors dropped = run("drop_row");
  const std::vector<float>& out = dropped.at(Tensor::kOut);
  const size_t row_elements = out.size() / 32;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t row = i / row_elements;
    if (row == 15 || row == 31) {
      EXPECT_TRUE(std::isnan(out[i]));
    } else {
      EXPECT_EQ(out[i], right.at(Tensor::kOut)[i]);
    }
  }
}

}  // namespace
}  // namespace lcab::cp
