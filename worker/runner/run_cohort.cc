#include "worker/runner/run_cohort.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "device/cuda/cuda_device.h"
#include "fmt/format.h"
#include "lcab/v1/votes.pb.h"
#include "measurement/environment.h"
#include "measurement/exceptions.h"
#include "measurement/head_inputs.h"
#include "measurement/sampler.h"
#include "measurement/truth_store.h"
#include "measurement/votes.h"
#include "proto/proto_time.h"
#include "suites/conversion.h"
#include "suites/trial_key.h"
#include "worker/runner/process_limits.h"
#include "worker/runner/test_hooks.h"
#include "worker/runner/trial_run.h"

namespace lcab::runner {
namespace {

using measurement::TruthStore;

// Ranks of a cohort start within this of each other: processes are started, slots are waited for.
constexpr absl::Duration kBeginTimeout = absl::Minutes(2);
// Beside what the device hands out, a runner takes memory for checks, threads and messages.
constexpr int64_t kOwnBytes = int64_t{1} << 30;

class CohortRun {
 public:
  CohortRun(const v1::RunCohort& run, Connection& connection, WarmState& warm)
      : run_(run),
        connection_(connection),
        warm_(warm),
        votes_(run.rank(), run.cohort().ranks(), "cohort", &connection) {}

  std::string Run() {
    if (Begin()) {
      std::vector<TrialRun*> planned;
      for (const auto& trial : trials_) {
        if (trial->Plan()) planned.push_back(trial.get());
      }
      for (const std::vector<TrialRun*>& group : GroupsThatFit(planned)) RunGroup(group);
    }
    connection_.OnAbort(nullptr);
    if (const std::optional<std::string> reason = connection_.abort_reason()) {
      return fmt::format("aborted: {}", *reason);
    }
    return discard_reason_;
  }

 private:
  // Trials that are on the device together, in interleaved rounds.
  void RunGroup(std::vector<TrialRun*> trials) {
    std::erase_if(trials, [this](TrialRun* trial) {
      return lost() || ((!trial->Prepare() || !trial->Probe()) && HasLeft(*trial));
    });
    std::vector<TrialRun*> sampled = SampleInRounds(std::move(trials));
    for (TrialRun* trial : sampled) {
      if (lost()) return;
      trial->Verify();
      HasLeft(*trial);
    }
  }

  // Looks whether the device survived the trial. If it did not, this process ends without results
  // of the others, which have failed at nothing and run in another process. Always true.
  bool HasLeft(const TrialRun& trial) {
    absl::Status health = warm_.device->Health();
    if (context_->hooks.device_lost_trial == trial.index()) {
      health = absl::InternalError("a test took the device");
    }
    if (!health.ok() && discard_reason_.empty()) discard_reason_ = std::string(health.message());
    return true;
  }
  bool lost() const { return !discard_reason_.empty(); }

  std::vector<TrialRun*> SampleInRounds(std::vector<TrialRun*> live) {
    std::vector<TrialRun*> sampled;
    const uint64_t seed = run_.cohort().trials(run_.trials(0)).problem().seed();
    for (int64_t round = 0; !live.empty() && !lost(); ++round) {
      std::vector<TrialRun*> next;
      for (const size_t n : measurement::RoundOrder(live.size(), seed, round)) {
        if (lost()) return {};
        switch (live[n]->SampleBatch(round)) {
          case TrialRun::Sampling::kMore:
            next.push_back(live[n]);
            break;
          case TrialRun::Sampling::kDone:
            sampled.push_back(live[n]);
            break;
          case TrialRun::Sampling::kLeft:
            HasLeft(*live[n]);
            break;
        }
      }
      live = std::move(next);
    }
    return sampled;
  }

  // All together, or, when that is too much for some rank's memory, one after another.
  std::vector<std::vector<TrialRun*>> GroupsThatFit(const std::vector<TrialRun*>& trials) {
    if (trials.empty()) return {};
    int64_t bytes = 0;
    for (const TrialRun* trial : trials) bytes += trial->memory_bytes();
    v1::MemoryReport report;
    report.set_together(trials.size() == 1 || bytes <= warm_.device->info().memory_bytes);
    const measurement::Verdict verdict = votes_.Hold(
        "memory", absl::OkStatus(), report.SerializeAsString(), absl::Now() + kBeginTimeout,
        [](std::span<const std::string> contents) -> absl::StatusOr<std::string> {
          v1::MemoryReport all;
          all.set_together(
              std::all_of(contents.begin(), contents.end(), [](const std::string& content) {
                v1::MemoryReport of_rank;
                return of_rank.ParseFromString(content) && of_rank.together();
              }));
          return all.SerializeAsString();
        });
    v1::MemoryReport all;
    if (!verdict.status.ok() || !all.ParseFromString(verdict.content)) {
      FailAll(verdict.status);
      return {};
    }
    if (all.together()) return {trials};
    std::vector<std::vector<TrialRun*>> groups;
    for (TrialRun* trial : trials) {
      trial->set_ran_in_turn();
      groups.push_back({trial});
    }
    return groups;
  }

  // What must be right before any trial starts. The ranks agree on a secret here.
  bool Begin() {
    connection_.OnAbort([this](const std::string& reason) {
      const std::lock_guard lock(trials_mutex_);
      for (const auto& trial : trials_) trial->Abort(reason);
    });
    const absl::Status status = measurement::CatchExceptions([this] { return MakeContext(); });
    const measurement::Verdict verdict =
        votes_.Hold("begin", status, "", absl::Now() + kBeginTimeout,
                    [](std::span<const std::string>) -> absl::StatusOr<std::string> {
                      std::random_device random;
                      const uint64_t secret = uint64_t{random()} << 32 | random();
                      std::string bytes(sizeof(secret), '\0');
                      std::memcpy(bytes.data(), &secret, sizeof(secret));
                      return bytes;
                    });
    if (!verdict.status.ok() || verdict.content.size() != sizeof(context_->secret)) {
      FailAll(verdict.status);
      return false;
    }
    std::memcpy(&context_->secret, verdict.content.data(), sizeof(context_->secret));
    const std::lock_guard lock(trials_mutex_);
    for (const int trial : run_.trials()) {
      trials_.push_back(std::make_unique<TrialRun>(*context_, trial));
    }
    return true;
  }

  absl::Status MakeContext() {
    for (const int trial : run_.trials()) {
      if (trial < 0 || trial >= run_.cohort().trials_size()) {
        return absl::InvalidArgumentError(fmt::format("the cohort has no trial {}", trial));
      }
    }
    if (run_.trials().empty() || run_.rank() < 0 || run_.rank() >= run_.cohort().ranks()) {
      return absl::InvalidArgumentError("a cohort needs trials, and a rank among its ranks");
    }
    absl::StatusOr<TestHooks> hooks = TestHooks();
    if (warm_.test_hooks) hooks = ParseTestHooks(run_.test_hooks());
    if (!hooks.ok()) return hooks.status();
    if (absl::Status status = MakeDevice(); !status.ok()) return status;
    context_.emplace(
        CohortContext{.run = run_,
                      .connection = connection_,
                      .device = *warm_.device,
                      .watchdog = warm_.watchdog,
                      .hooks = *std::move(hooks),
                      .environment = measurement::ReadEnvironment(&warm_.device->info()),
                      .truths_of = [this](const v1::TrialSpec& spec) { return TruthsOf(spec); }});
    return absl::OkStatus();
  }

  absl::Status MakeDevice() {
    const std::vector<int32_t> cpus(run_.cpus().begin(), run_.cpus().end());
    int64_t limit = run_.memory_limit_bytes();
    for (const int trial : run_.trials()) {
      const int64_t of_trial = run_.cohort().trials(trial).measure().memory_limit_bytes();
      if (of_trial > 0 && (limit <= 0 || of_trial < limit)) limit = of_trial;
    }
    const std::string key = fmt::format("{} {} {} {} {}", run_.device_kind(), run_.device_index(),
                                        run_.threads(), limit, fmt::join(cpus, ","));
    if (warm_.device == nullptr || warm_.device_key != key) {
      warm_.device.reset();
      if (absl::Status status = LimitMemory(0); !status.ok()) return status;
      if (absl::Status status = BindToCpus(cpus); !status.ok()) return status;
      absl::StatusOr<std::unique_ptr<Device>> device = OpenDevice(std::max<int64_t>(0, limit));
      if (!device.ok()) return device.status();
      warm_.device = *std::move(device);
      warm_.device_key = key;
    }
    // A GPU's memory is none of this process's, and CUDA reserves more addresses than any machine
    // has memory.
    if (warm_.device->info().kind != DeviceKind::kCpu) return absl::OkStatus();
    return LimitMemory(warm_.device->info().memory_bytes + kOwnBytes);
  }

  absl::StatusOr<std::unique_ptr<Device>> OpenDevice(int64_t memory_bytes) const {
    if (run_.device_kind() == suites::Name(DeviceKind::kCuda)) {
      return MakeCudaDevice({.index = run_.device_index(), .memory_bytes = memory_bytes});
    }
    return MakeCpuDevice({.index = run_.device_index(),
                          .threads = std::max(1, run_.threads()),
                          .memory_bytes = memory_bytes});
  }

  absl::StatusOr<TruthStore*> TruthsOf(const v1::TrialSpec& spec) {
    // All ranks must count the same problems; the bytes of a message do not tell, since the order
    // of a mask's parameters in them differs from one copy to the next.
    const std::string key =
        fmt::format("{}\n{}", spec.measure().inputs(), suites::ProblemKey(spec.problem()));
    if (const auto found = truths_.find(key); found != truths_.end()) return found->second.get();
    const absl::StatusOr<Problem> problem = suites::MakeProblem(spec.problem());
    if (!problem.ok()) return problem.status();
    const std::string name =
        spec.measure().inputs().empty() ? std::string("normal") : spec.measure().inputs();
    const std::optional<Distribution> distribution = ParseDistribution(name);
    if (!distribution.has_value()) {
      return absl::InvalidArgumentError(fmt::format("there are no inputs '{}'", name));
    }
    auto store = std::make_unique<TruthStore>(
        *problem, spec.problem().seed(), *distribution, context_->secret, *warm_.device,
        TruthStore::Ranks{.rank = run_.rank(),
                          .ranks = run_.cohort().ranks(),
                          .prefix = fmt::format("problem{}", truths_.size()),
                          .rendezvous = &connection_});
    return truths_.emplace(key, std::move(store)).first->second.get();
  }

  // The cohort cannot run: every trial of it ends so.
  void FailAll(const absl::Status& status) {
    discard_reason_ = std::string(status.message());
    if (run_.rank() != 0 || connection_.abort_reason().has_value()) return;
    for (const int trial : run_.trials()) {
      v1::FromRunner message;
      message.mutable_completed()->set_trial(trial);
      v1::TrialResult& result = *message.mutable_completed()->mutable_result();
      result.set_outcome(v1::OUTCOME_CRASHED);
      result.set_fault(v1::FAULT_INFRASTRUCTURE);
      result.set_rank(-1);
      result.set_reason(fmt::format("the cohort could not begin: {}", discard_reason_));
      connection_.Send(message).IgnoreError();
    }
  }

  const v1::RunCohort& run_;
  Connection& connection_;
  WarmState& warm_;
  measurement::Votes votes_;
  std::optional<CohortContext> context_;
  std::map<std::string, std::unique_ptr<TruthStore>> truths_;
  std::mutex trials_mutex_;
  std::vector<std::unique_ptr<TrialRun>> trials_;
  std::string discard_reason_;
};

}  // namespace

std::string RunCohort(const v1::RunCohort& run, Connection& connection, WarmState& warm) {
  return CohortRun(run, connection, warm).Run();
}

}  // namespace lcab::runner
