#include "cp/testing/run_ranks.h"

#include <cmath>
#include <latch>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "attention/philox.h"
#include "cp/executor.h"
#include "cp/testing/memory_communicator.h"
#include "fmt/format.h"

namespace lcab::cp {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr absl::Duration kLimit = absl::Seconds(30);

// Calls visit(element of the whole tensor, address, dtype) for every element of the shard.
template <typename Visit>
void ForEachElement(const Shard& shard, const Problem& problem, const Visit& visit) {
  const bool lse = shard.tensor == Tensor::kLse;
  const Problem::Extent extent = problem.ExtentOf(shard.tensor);
  for (int64_t row = 0; row < shard.tokens.rows(); ++row) {
    const std::optional<int64_t> token = shard.tokens.TokenAt(row);
    if (!token) continue;
    for (int64_t h = 0; h < shard.heads.size(); ++h) {
      const int64_t head = shard.heads.begin + h;
      if (lse) {
        visit(static_cast<size_t>(head * extent.tokens + *token),
              reinterpret_cast<std::byte*>(shard.row_stat.At(h, row)), DType::kFloat32);
        continue;
      }
      for (int64_t d = 0; d < extent.dim; ++d) {
        visit(static_cast<size_t>((*token * extent.heads + head) * extent.dim + d),
              shard.view.At(row, h) + d * SizeOf(shard.view.dtype), shard.view.dtype);
      }
    }
  }
}

void Store(std::byte* at, DType dtype, float value) {
  if (dtype == DType::kFloat32) {
    *reinterpret_cast<float*>(at) = value;
  } else {
    *reinterpret_cast<BFloat16*>(at) = ToBFloat16(value);
  }
}

float Load(const std::byte* at, DType dtype) {
  return dtype == DType::kFloat32 ? *reinterpret_cast<const float*>(at)
                                  : ToFloat(*reinterpret_cast<const BFloat16*>(at));
}

size_t ElementsOf(const Problem& problem, Tensor tensor) {
  const Problem::Extent extent = problem.ExtentOf(tensor);
  return static_cast<size_t>(extent.tokens * extent.heads * extent.dim);
}

// What the ranks share.
class Run {
 public:
  Run(const std::vector<RankPlan>& plans, const Tensors& inputs, const RunOptions& options)
      : plans_(plans), inputs_(inputs), options_(options), ranks_(static_cast<int>(plans.size())) {
    // One hub a communicator, and one more for the barrier.
    for (int i = 0; i <= plans.front().communicators; ++i) {
      hubs_.push_back(std::make_unique<MemoryHub>(ranks_));
    }
    result_.forward_bytes.resize(plans.size());
    result_.backward_bytes.resize(plans.size());
  }

  absl::StatusOr<RunResult> Start() {
    std::latch done(ranks_);  // a rank that leaves early looks dead to the others
    OnRanks(ranks_, [&](int rank) {
      std::unique_ptr<Device> device;
      std::unique_ptr<Executor> executor;
      const absl::Status s = RunRank(rank, device, executor);
      if (!s.ok()) {
        {
          const std::lock_guard lock(mutex_);
          if (status_.ok()) status_ = s;
        }
        rendezvous_.Abort(s.ToString());
        for (const auto& hub : hubs_) hub->Abort(s.ToString());
      }
      done.arrive_and_wait();
    });
    if (!status_.ok()) return status_;
    for (const auto& [tensor, counts] : held_) {
      for (size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] == 1) continue;
        return absl::InternalError(
            fmt::format("element {} of {} is held by {} ranks", i, Name(tensor), counts[i]));
      }
    }
    return std::move(result_);
  }

 private:
  absl::Status RunRank(int rank, std::unique_ptr<Device>& device,
                       std::unique_ptr<Executor>& executor) {
    absl::StatusOr<std::unique_ptr<Device>> made_device =
        MakeCpuDevice({.index = rank, .threads = 1, .memory_bytes = int64_t{1} << 30});
    if (!made_device.ok()) return made_device.status();
    device = *std::move(made_device);
    const RankPlan& plan = plans_[static_cast<size_t>(rank)];
    absl::StatusOr<std::unique_ptr<Executor>> made = MakeExecutor(
        plan, {.kernel = options_.kernel,
               .device = device.get(),
               .make_communicator = [this, rank](int index) { return Join(rank, index); },
               .step_timeout = kLimit,
               .fault = options_.fault});
    if (!made.ok()) return made.status();
    executor = *std::move(made);
    if (absl::Status s = executor->Prepare(); !s.ok()) return s;
    if (absl::Status s = executor->Connect(); !s.ok()) return s;
    for (const Shard& shard : executor->inputs()) {
      const std::vector<float>& whole = inputs_.at(shard.tensor);
      ForEachElement(shard, plan.problems.front(),
                     [&](size_t i, std::byte* at, DType dtype) { Store(at, dtype, whole[i]); });
    }
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
      if (plan.outputs(pass).empty()) continue;
      if (absl::Status s = RunPass(rank, pass, *device, *executor); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status RunPass(int rank, Pass pass, Device& device, Executor& executor) {
    const Problem& problem = plans_.front().problems.front();
    for (int i = 0; i < options_.iterations; ++i) {
      for (const Shard& shard : executor.outputs(pass)) {
        ForEachElement(shard, problem, [](size_t, std::byte* at, DType d) { Store(at, d, kNaN); });
      }
      executor.ResetBytesSent();
      if (absl::Status s = executor.Barrier(absl::Now() + kLimit); !s.ok()) return s;
      if (absl::Status s = executor.Enqueue(pass); !s.ok()) return s;
      if (absl::Status s = device.stream().Synchronize(absl::Now() + kLimit); !s.ok()) return s;
    }
    const std::lock_guard lock(mutex_);
    (pass == Pass::kForward ? result_.forward_bytes
                            : result_.backward_bytes)[static_cast<size_t>(rank)] =
        executor.bytes_sent();
    for (const Shard& shard : executor.outputs(pass)) {
      std::vector<float>& whole = result_.outputs[shard.tensor];
      std::vector<int>& held = held_[shard.tensor];
      whole.resize(ElementsOf(problem, shard.tensor), kNaN);
      held.resize(whole.size());
      ForEachElement(shard, problem, [&](size_t element, std::byte* at, DType dtype) {
        whole[element] = Load(at, dtype);
        ++held[element];
      });
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Join(int rank, int index) {
    if (!options_.network) return hubs_[static_cast<size_t>(index)]->Join(rank);
    return MakeGlooCommunicator(
        {.rank = rank, .ranks = ranks_, .name = fmt::format("c{}", index), .timeout = kLimit},
        rendezvous_);
  }

  const std::vector<RankPlan>& plans_;
  const Tensors& inputs_;
  const RunOptions& options_;
  const int ranks_;
  std::vector<std::unique_ptr<MemoryHub>> hubs_;
  LocalRendezvous rendezvous_;
  std::mutex mutex_;
  absl::Status status_;
  RunResult result_;
  std::map<Tensor, std::vector<int>> held_;  // by element: the number of ranks that hold it
};

}  // namespace

Tensors RandomInputs(const Problem& problem, uint64_t seed) {
  Tensors tensors;
  for (const Tensor tensor : {Tensor::kQ, Tensor::kK, Tensor::kV, Tensor::kDOut}) {
    PhiloxStream random(seed, static_cast<uint32_t>(tensor));
    std::vector<float>& values = tensors[tensor];
    for (size_t i = 0; i < ElementsOf(problem, tensor); ++i) {
      int64_t sum = 0;  // of 12 uniforms: variance 1
      for (int n = 0; n < 12; ++n) sum += static_cast<int64_t>(random.Below(1 << 16));
      const float value = std::ldexp(static_cast<float>(sum), -16) - 6;
      values.push_back(problem.dtype == DType::kFloat32 ? value : ToFloat(ToBFloat16(value)));
    }
  }
  return tensors;
}

absl::StatusOr<RunResult> RunRanks(const std::vector<RankPlan>& plans, const Tensors& inputs,
                                   const RunOptions& options) {
  return Run(plans, inputs, options).Start();
}

void OnRanks(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
}

}  // namespace lcab::cp
