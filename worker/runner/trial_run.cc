#include "worker/runner/trial_run.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "attention/flops.h"
#include "cp/transport.h"
#include "fmt/format.h"
#include "kernels/registry.h"
#include "measurement/exceptions.h"
#include "measurement/probe.h"
#include "proto/proto_time.h"
#include "suites/conversion.h"
#include "worker/runner/trial_outcome.h"
#include "worker/runner/trial_result.h"

namespace lcab::runner {
namespace {

// A trial whose suite gives no limit.
constexpr absl::Duration kDefaultTimeout = absl::Minutes(10);
constexpr absl::Duration kDefaultVoteTimeout = absl::Seconds(30);
// After its time is up a trial's communication is aborted; what still does not come back then is
// hung, and only the end of the process ends it.
constexpr absl::Duration kHangGrace = absl::Seconds(3);
// The others wait a little longer at a vote, so that the rank at fault is known.
constexpr absl::Duration kVoteGrace = absl::Seconds(5);
constexpr int kHungExitCode = 3;

absl::Duration LimitOf(const v1::TrialSpec& spec) {
  const absl::Duration limit = FromProto(spec.measure().timeout());
  return limit > absl::ZeroDuration() ? limit : kDefaultTimeout;
}

absl::StatusOr<Options> Resolve(const v1::Component& component,
                                const std::vector<Parameter>& parameters) {
  const absl::StatusOr<Options> given = suites::OptionsOf(component);
  if (!given.ok()) return given.status();
  return ResolveOptions(component.name(), *given, parameters);
}

}  // namespace

TrialRun::TrialRun(CohortContext& cohort, int index)
    : cohort_(cohort),
      index_(index),
      spec_(cohort.run.cohort().trials(index)),
      start_time_(absl::Now()),
      clock_(LimitOf(spec_)),
      votes_(cohort.run.rank(), cohort.run.cohort().ranks(), fmt::format("t{}", index),
             &cohort.connection),
      findings_(cohort.run.rank()) {}

TrialRun::~TrialRun() = default;

void TrialRun::Abort(std::string_view reason) {
  std::shared_ptr<cp::Executor> executor;
  {
    const std::lock_guard lock(executor_mutex_);
    executor = executor_;
  }
  if (executor != nullptr) executor->Abort(reason);
}

absl::Time TrialRun::VoteDeadline() const { return clock_.deadline() + kVoteGrace; }

void TrialRun::TellProgress(std::string_view stage, int64_t samples, double median_seconds) {
  v1::FromRunner message;
  v1::TrialProgress& progress = *message.mutable_progress();
  progress.set_trial(index_);
  progress.set_stage(std::string(stage));
  progress.set_samples(samples);
  progress.set_median_seconds(median_seconds);
  cohort_.connection.Send(message).IgnoreError();  // a lost worker ends the cohort elsewhere
}

void TrialRun::TurnTo(std::string_view stage) {
  stage_ = stage;
  clock_.Start();
  const auto samples = sampler_ == nullptr
                           ? int64_t{0}
                           : static_cast<int64_t>(sampler_->planner().kept_seconds().size());
  TellProgress(stage == "connect" ? "prepare" : stage, samples, 0);
  Watch();
}

void TrialRun::Watch() {
  const absl::Time deadline = clock_.deadline();
  const auto abort = [this] {
    timed_out_ = true;
    Abort("the trial's time is up");
  };
  const auto end = [this, stage = stage_] {
    v1::FromRunner message;
    message.mutable_completed()->set_trial(index_);
    v1::TrialResult& result = *message.mutable_completed()->mutable_result();
    result.set_outcome(v1::OUTCOME_TIMED_OUT);
    result.set_fault(v1::FAULT_LIMIT);
    result.set_rank(rank());
    result.set_reason(fmt::format(
        "rank {} was still at '{}' {} after the trial's limit of {}: it "
        "does not return",
        rank(), stage, absl::FormatDuration(kHangGrace), absl::FormatDuration(clock_.limit())));
    cohort_.connection.Send(message).IgnoreError();
    message.mutable_done()->set_discard_reason("a kernel hangs");
    cohort_.connection.Send(message).IgnoreError();
    _exit(kHungExitCode);
  };
  // A wait for slower ranks may have used up the time: who works since then is not yet hung.
  cohort_.watchdog.Set({{deadline, abort}, {std::max(deadline, absl::Now()) + kHangGrace, end}});
}

void TrialRun::TurnAway() {
  cohort_.watchdog.Clear();
  clock_.Stop();
}

bool TrialRun::Stage(std::string_view stage, const std::function<absl::Status()>& work,
                     const std::function<std::string()>& content,
                     const measurement::Votes::Decide& decide) {
  TurnTo(stage);
  absl::Status status = measurement::CatchExceptions(work);
  if (!status.ok()) {
    if (timed_out_) {
      status =
          absl::DeadlineExceededError(fmt::format("was at '{}' when the limit of {} was reached",
                                                  stage, absl::FormatDuration(clock_.limit())));
    }
    // The others must not wait for this rank.
    Abort(std::string(status.message()));
  }
  // Waiting for slower ranks is no hang of this one.
  cohort_.watchdog.Clear();
  std::string told;
  if (status.ok() && content != nullptr) told = content();
  const measurement::Verdict verdict =
      votes_.Hold(stage, status, std::move(told), VoteDeadline(), decide);
  TurnAway();
  decision_ = verdict.content;
  if (verdict.status.ok()) return true;
  Leave(verdict);
  return false;
}

absl::Status TrialRun::FindComponents() {
  const absl::StatusOr<Pass> pass = suites::FromProto(spec_.pass());
  if (!pass.ok()) return pass.status();
  pass_ = *pass;
  const absl::StatusOr<const Kernel*> kernel = BuiltinKernels().Find(spec_.kernel().name());
  if (!kernel.ok()) return kernel.status();
  kernel_ = *kernel;
  absl::StatusOr<Options> kernel_options = Resolve(spec_.kernel(), kernel_->parameters());
  if (!kernel_options.ok()) return kernel_options.status();
  kernel_options_ = *std::move(kernel_options);
  const absl::StatusOr<const cp::Strategy*> strategy =
      cp::BuiltinStrategies().Find(spec_.strategy().name());
  if (!strategy.ok()) return strategy.status();
  strategy_ = *strategy;
  absl::StatusOr<Options> strategy_options = Resolve(spec_.strategy(), strategy_->parameters());
  if (!strategy_options.ok()) return strategy_options.status();
  const absl::StatusOr<measurement::TruthStore*> truths = cohort_.truths_of(spec_);
  if (!truths.ok()) return truths.status();
  truths_ = *truths;
  request_ = {.problem = truths_->problem(),
              .topology = {.ranks = ranks(), .ranks_per_node = ranks()},
              .options = *std::move(strategy_options),
              .kernel = cp::GetPlanTraits(*kernel_, kernel_options_),
              .backward = pass_ == Pass::kBackward,
              .overlap = spec_.overlap()};
  return absl::OkStatus();
}

absl::Status TrialRun::MakePlan() {
  if (absl::Status status = FindComponents(); !status.ok()) return status;
  if (absl::Status status = strategy_->Supports(request_); !status.ok()) return status;
  const absl::StatusOr<std::vector<cp::RankPlan>> plans = strategy_->MakePlans(request_);
  if (!plans.ok()) return plans.status();
  digest_ = cp::Digest(*plans);
  if (rank() == 0) {
    absl::StatusOr<cp::Proof> proof = cp::Prove(*plans, [this](int of_rank, Pass pass) {
      return strategy_->BytesSent(request_, of_rank, pass);
    });
    if (!proof.ok()) return proof.status();
    proof_ = *std::move(proof);
  }
  cp::ExecutorOptions options = {
      .kernel = kernel_,
      .kernel_options = kernel_options_,
      .device = &cohort_.device,
      .make_communicator =
          [this](int communicator) {
            absl::Duration timeout = FromProto(cohort_.run.vote_timeout());
            if (timeout <= absl::ZeroDuration()) timeout = kDefaultVoteTimeout;
            return cp::MakeGlooCommunicator(
                {.rank = rank(),
                 .ranks = ranks(),
                 .name = fmt::format("t{}/{}", index_, communicator),
                 .interface = cohort_.run.data_interface(),
                 .timeout = std::min(timeout,
                                     std::max(absl::Seconds(1), clock_.deadline() - absl::Now()))},
                cohort_.connection);
          },
      // The watchdog ends a step that takes too long, by the trial's own limit.
      .step_timeout = clock_.limit() + kHangGrace,
      .fault = cohort_.hooks.executor_fault};
  absl::StatusOr<std::unique_ptr<cp::Executor>> executor =
      cp::MakeExecutor((*plans)[static_cast<size_t>(rank())], options);
  if (!executor.ok()) return executor.status();
  memory_need_ = (*executor)->memory_need();
  const std::lock_guard lock(executor_mutex_);
  executor_ = *std::move(executor);
  return absl::OkStatus();
}

bool TrialRun::Plan() {
  v1::FromRunner started;
  started.mutable_started()->set_trial(index_);
  cohort_.connection.Send(started).IgnoreError();
  return Stage(
      "plan", [this] { return MakePlan(); },
      [this] {
        v1::PlanReport report;
        report.set_digest(digest_);
        return report.SerializeAsString();
      },
      [this](std::span<const std::string> contents) -> absl::StatusOr<std::string> {
        for (size_t other = 0; other < contents.size(); ++other) {
          v1::PlanReport report;
          if (!report.ParseFromString(contents[other]) || report.digest() != digest_) {
            return absl::InternalError(
                fmt::format("rank {} made other plans than rank 0: are both of one build?", other));
          }
        }
        return "";
      });
}

bool TrialRun::Prepare() {
  const auto prepare = [this]() -> absl::Status {
    const absl::Time start = absl::Now();
    if (cohort_.hooks.allocation_fails_rank == rank()) {
      return absl::ResourceExhaustedError("a test hook lets this allocation fail");
    }
    absl::Status status = executor_->Prepare();
    prepare_seconds_ = absl::ToDoubleSeconds(absl::Now() - start);
    return status;
  };
  return Stage("prepare", prepare) && Stage("connect", [this] { return executor_->Connect(); });
}

bool TrialRun::Probe() {
  return Stage(
             "probe",
             [this] {
               absl::Status status =
                   measurement::Probe(truths_->problem(), pass_, *executor_, cohort_.device,
                                      clock_.deadline(), &findings_);
               if (status.ok()) status = MakeContestant();
               if (status.ok()) status = contestant_->WatchCalls(clock_.deadline());
               return status;
             },
             [this] {
               v1::ProbeReport report;
               report.set_wrong(!findings_.ok());
               report.set_changes_inputs(contestant_->changes_inputs());
               return report.SerializeAsString();
             },
             [](std::span<const std::string> contents) -> absl::StatusOr<std::string> {
               v1::ProbeReport all;
               for (const std::string& content : contents) {
                 v1::ProbeReport report;
                 if (!report.ParseFromString(content)) {
                   return absl::InternalError("a rank's report of its probe cannot be read");
                 }
                 all.set_wrong(all.wrong() || report.wrong());
                 all.set_changes_inputs(all.changes_inputs() || report.changes_inputs());
               }
               return all.SerializeAsString();
             }) &&
         Stage("sample", [this] { return PrepareSampling(); });
}

measurement::SamplerOptions TrialRun::MakeSamplerOptions() {
  const v1::Measure& measure = spec_.measure();
  measurement::SamplerOptions options;
  options.plan = {.limits = {.min_samples = std::max<int64_t>(1, measure.min_samples()),
                             .max_samples = std::max<int64_t>(1, measure.max_samples()),
                             .max_time = FromProto(measure.max_time()),
                             .confidence = measure.confidence(),
                             .precision = measure.precision()},
                  .warmup = measure.warmup(),
                  .verify_only = measure.mode() == v1::MEASURE_MODE_VERIFY || probe_wrong_,
                  .secret = cohort_.secret ^ static_cast<uint64_t>(index_),
                  .on_samples = [this](v1::SampleChunk chunk) {
                    v1::FromRunner message;
                    message.mutable_samples()->set_trial(index_);
                    *message.mutable_samples()->mutable_chunk() = std::move(chunk);
                    cohort_.connection.Send(message).IgnoreError();
                  }};
  options.deadline = [this] { return VoteDeadline(); };
  // Waiting for slower ranks is no hang of this one.
  options.on_vote = [this](bool waits) { waits ? cohort_.watchdog.Clear() : Watch(); };
  options.on_progress = [this](int64_t samples, double median_seconds) {
    TellProgress("sample", samples, median_seconds);
  };
  if (cohort_.hooks.cap_expires_rank == rank()) {
    options.claim_elapsed = [this](absl::Duration elapsed, int64_t timed) {
      return timed >= cohort_.hooks.cap_expires_iteration ? absl::Hours(24 * 365) : elapsed;
    };
  }
  return options;
}

absl::Status TrialRun::MakeContestant() {
  const measurement::ContestantOptions options = {
      .pass = pass_,
      .cold = spec_.measure().cache() != v1::CACHE_WARM,
      .deterministic = kernel_->GetTraits(kernel_options_).deterministic,
      .secret = cohort_.secret,
      .bytes_formula = strategy_->BytesSent(request_, rank(), pass_),
      .launch_delay = cohort_.hooks.launch_delay,
      .elapsed = cohort_.hooks.elapsed,
      .clock_fraction = cohort_.hooks.clock_fraction,
      .clock_fraction_iterations = cohort_.hooks.clock_fraction_iterations};
  absl::StatusOr<std::unique_ptr<measurement::ExecutorContestant>> contestant =
      measurement::ExecutorContestant::Create(options, *truths_, *executor_, cohort_.device,
                                              findings_);
  if (!contestant.ok()) return contestant.status();
  contestant_ = *std::move(contestant);
  return absl::OkStatus();
}

absl::Status TrialRun::PrepareSampling() {
  v1::ProbeReport all;
  if (!all.ParseFromString(decision_)) {
    return absl::InternalError("what the ranks found in the probe cannot be read");
  }
  // What is wrong already is not timed.
  probe_wrong_ = all.wrong();
  if (all.changes_inputs()) contestant_->SetInputsEachTime();
  sampler_ = std::make_unique<measurement::Sampler>(MakeSamplerOptions(), *contestant_, votes_);
  return absl::OkStatus();
}

TrialRun::Sampling TrialRun::SampleBatch(int64_t round) {
  TurnTo("sample");
  rounds_ = round + 1;
  absl::StatusOr<bool> done = sampler_->RunBatch();
  TurnAway();
  if (done.ok()) return *done ? Sampling::kDone : Sampling::kMore;
  absl::Status status = done.status();
  if (timed_out_) {
    status = absl::DeadlineExceededError(fmt::format(
        "was sampling when the limit of {} was reached", absl::FormatDuration(clock_.limit())));
  }
  Leave({status, sampler_->verdict().rank, "", sampler_->verdict().heard});
  return Sampling::kLeft;
}

bool TrialRun::Verify() {
  std::vector<v1::RankReport> reports;
  const bool ok = Stage(
      "verify",
      [this]() -> absl::Status {
        const absl::Status kept = sampler_->KeepLast(clock_.deadline());
        // Also after a failure here: the other ranks wait for this one's part of the reference.
        const absl::Status checked = contestant_->CheckNumbers(clock_.deadline());
        if (!kept.ok()) return kept;
        if (!checked.ok() || rank() != 0) return checked;
        const std::vector<double>& seconds = sampler_->planner().kept_seconds();
        if (!seconds.empty()) {
          measurement::CheckRate(Flops(truths_->problem(), pass_),
                                 *std::min_element(seconds.begin(), seconds.end()),
                                 cohort_.device.info().peak_flops * ranks(), &findings_);
        }
        return absl::OkStatus();
      },
      [this] {
        v1::RankReport report;
        *report.mutable_verification() = findings_.ToProto();
        v1::RankResult& result = *report.mutable_result();
        result.set_rank(rank());
        result.set_worker(cohort_.run.worker());
        result.set_device(cohort_.device.info().id);
        result.set_bytes_sent(contestant_->bytes_sent());
        result.set_bytes_formula(strategy_->BytesSent(request_, rank(), pass_));
        result.set_plan_bytes(memory_need_.plan_bytes);
        result.set_workspace_bytes(memory_need_.workspace_bytes);
        result.set_schedule_bytes(memory_need_.schedule_bytes);
        result.set_prepare_seconds(prepare_seconds_);
        result.set_pid(static_cast<int32_t>(getpid()));
        return report.SerializeAsString();
      },
      [&reports](std::span<const std::string> contents) -> absl::StatusOr<std::string> {
        for (const std::string& content : contents) {
          if (!reports.emplace_back().ParseFromString(content)) {
            return absl::InternalError("a rank's verification cannot be read");
          }
        }
        return "";
      });
  if (ok) Complete(std::move(reports));
  return false;
}

v1::TrialResult TrialRun::BeginResult() const {
  v1::TrialResult result;
  *result.mutable_start_time() = ToProto(start_time_);
  *result.mutable_end_time() = ToProto(absl::Now());
  *result.mutable_environment() = cohort_.environment;
  result.set_rank(-1);
  result.set_rounds(rounds_);
  result.set_ran_in_turn(ran_in_turn_);
  result.set_prepare_seconds(prepare_seconds_);
  if (truths_ != nullptr) {
    result.set_area(TotalArea(truths_->problem()));
    result.set_flops(Flops(truths_->problem(), pass_));
  }
  if (kernel_ != nullptr) {
    result.set_deterministic(kernel_->GetTraits(kernel_options_).deterministic);
  }
  return result;
}

void TrialRun::Leave(const measurement::Verdict& verdict) {
  // What the worker aborted it reports itself.
  const bool aborted = cohort_.connection.abort_reason().has_value();
  // Rank 0 speaks for all, unless it is silent.
  const bool speaks = rank() == 0 || !verdict.heard;
  if (!aborted && speaks) {
    const Judgement judgement = Judge(verdict.status, stage_);
    v1::TrialResult result = BeginResult();
    result.set_outcome(judgement.outcome);
    result.set_fault(judgement.fault);
    result.set_rank(judgement.outcome == v1::OUTCOME_UNSUPPORTED ? -1 : verdict.rank);
    std::string reason(verdict.status.message());
    if (result.rank() >= 0 && ranks() > 1)
      reason = fmt::format("rank {}: {}", result.rank(), reason);
    if (const std::string_view advice = AdviceFor(judgement.outcome); !advice.empty()) {
      reason = fmt::format("{} ({})", reason, advice);
    }
    result.set_reason(std::move(reason));
    Report(std::move(result));
  }
  sampler_.reset();
  contestant_.reset();
  std::shared_ptr<cp::Executor> executor;
  const std::lock_guard lock(executor_mutex_);
  executor.swap(executor_);
}

void TrialRun::Complete(std::vector<v1::RankReport> reports) {
  if (rank() == 0) {
    v1::TrialResult result = BeginResult();
    FillResult(spec_, reports, proof_->ranks, sampler_->planner(), sampler_->stop_reason(),
               &result);
    Report(std::move(result));
  }
  sampler_.reset();
  contestant_.reset();
  std::shared_ptr<cp::Executor> executor;
  const std::lock_guard lock(executor_mutex_);
  executor.swap(executor_);
}

void TrialRun::Report(v1::TrialResult result) {
  v1::FromRunner message;
  message.mutable_completed()->set_trial(index_);
  *message.mutable_completed()->mutable_result() = std::move(result);
  cohort_.connection.Send(message).IgnoreError();
}

}  // namespace lcab::runner
