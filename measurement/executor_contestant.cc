#include "measurement/executor_contestant.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "measurement/shards.h"
#include "measurement/statistics.h"

namespace lcab::measurement {
namespace {

// Reading conditions takes about a millisecond (a clock is measured): those of a short iteration
// are the last that were read, at most this old.
constexpr absl::Duration kConditionsAge = absl::Milliseconds(5);
// A sample is long enough when the timer's own cost is below a hundredth of it.
constexpr double kTimerShare = 100;
constexpr int kTimerReadings = 33;

}  // namespace

ExecutorContestant::ExecutorContestant(const ContestantOptions& options, TruthStore& truths,
                                       cp::Executor& executor, Device& device, Findings& findings,
                                       std::unique_ptr<Timer> timer)
    : options_(options),
      truths_(truths),
      executor_(executor),
      device_(device),
      findings_(findings),
      timer_(std::move(timer)),
      judge_(truths.problem().dtype, options_.deterministic) {}

absl::StatusOr<std::unique_ptr<ExecutorContestant>> ExecutorContestant::Create(
    const ContestantOptions& options, TruthStore& truths, cp::Executor& executor, Device& device,
    Findings& findings) {
  absl::StatusOr<std::unique_ptr<Timer>> timer = device.MakeTimer();
  if (!timer.ok()) return timer.status();
  std::unique_ptr<ExecutorContestant> contestant(
      new ExecutorContestant(options, truths, executor, device, findings, *std::move(timer)));
  if (absl::Status status = contestant->MeasureTimer(); !status.ok()) return status;
  return contestant;
}

absl::Status ExecutorContestant::MeasureTimer() {
  std::vector<double> readings;
  for (int i = 0; i < kTimerReadings; ++i) {
    absl::Status status = timer_->Start(device_.stream());
    if (status.ok()) status = timer_->Stop(device_.stream());
    if (status.ok()) status = device_.stream().Synchronize(absl::Now() + absl::Seconds(10));
    if (!status.ok()) return status;
    // Nothing at all may take no time by a coarse clock.
    const absl::StatusOr<absl::Duration> elapsed = timer_->Elapsed();
    if (elapsed.ok()) readings.push_back(absl::ToDoubleSeconds(*elapsed));
  }
  if (!readings.empty()) shortest_sample_seconds_ = kTimerShare * Median(Sorted(readings));
  return absl::OkStatus();
}

absl::Status ExecutorContestant::WriteInputs(int truth_case, absl::Time deadline) {
  return WriteShards(
      executor_.inputs(),
      [&](Tensor tensor, int64_t token, int64_t head, std::span<float> row) {
        InputRow(truths_.SourceOf(truth_case, tensor, head), tensor, token, head,
                 static_cast<int64_t>(row.size()), row.data());
      },
      device_, deadline);
}

absl::Status ExecutorContestant::FillInputs(int truth_case, absl::Time deadline) {
  absl::Status status = WriteInputs(truth_case, deadline);
  // The backward pass starts from what the forward pass saves for it, untimed.
  if (status.ok() && options_.pass == Pass::kBackward) {
    status = Poison(executor_.outputs(Pass::kForward), device_);
    if (status.ok()) status = executor_.Enqueue(Pass::kForward);
    if (status.ok()) status = device_.stream().Synchronize(deadline);
  }
  return status;
}

absl::StatusOr<Fingerprint> ExecutorContestant::PrintInputs(absl::Time deadline) {
  std::vector<cp::Shard> shards = executor_.inputs();
  if (options_.pass == Pass::kBackward) {
    const std::vector<cp::Shard>& saved = executor_.outputs(Pass::kForward);
    shards.insert(shards.end(), saved.begin(), saved.end());
  }
  return TakeFingerprint(shards, options_.secret, device_, deadline);
}

absl::Status ExecutorContestant::WatchCalls(absl::Time deadline) {
  if (absl::Status status = WriteInputs(0, deadline); !status.ok()) return status;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    if (pass == Pass::kBackward && options_.pass == Pass::kForward) break;
    if (absl::Status s = Poison(executor_.outputs(pass), device_); !s.ok()) return s;
    const absl::StatusOr<std::vector<std::string>> changed = executor_.RunWatched(pass, deadline);
    if (!changed.ok()) return changed.status();
    if (changed->empty()) continue;
    changes_inputs_ = true;
    const size_t more = changed->size() - 1;
    findings_.Fail(Part::kHonesty,
                   fmt::format("the kernel changed what it may only read: {}{}", changed->front(),
                               more == 0 ? "" : fmt::format(", and {} more", more)));
  }
  return absl::OkStatus();
}

absl::Status ExecutorContestant::SetInputs(int inputs, absl::Time deadline) {
  inputs_ = inputs;
  if (absl::Status status = FillInputs(inputs, deadline); !status.ok()) return status;
  absl::StatusOr<Fingerprint> print = PrintInputs(deadline);
  if (!print.ok()) return print.status();
  inputs_print_ = *std::move(print);
  return absl::OkStatus();
}

absl::StatusOr<double> ExecutorContestant::RunIteration(int64_t calls, absl::Time deadline) {
  Stream& stream = device_.stream();
  absl::Status status = sets_inputs_each_time_ ? FillInputs(inputs_, deadline) : absl::OkStatus();
  if (status.ok()) status = Poison(executor_.outputs(options_.pass), device_);
  if (status.ok() && options_.cold) status = device_.FlushCaches(stream);
  if (status.ok()) status = stream.Synchronize(deadline);
  if (!status.ok()) return status;
  executor_.ResetBytesSent();
  if (absl::Status s = executor_.Barrier(deadline); !s.ok()) return s;
  if (options_.launch_delay > absl::ZeroDuration()) {
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(options_.launch_delay));
  }

  // Between these two lies the pass and nothing else.
  status = timer_->Start(stream);
  for (int64_t call = 0; status.ok() && call < calls; ++call) {
    status = executor_.Enqueue(options_.pass);
  }
  if (status.ok()) status = timer_->Stop(stream);

  if (status.ok()) status = stream.Synchronize(deadline);
  if (!status.ok()) return status;
  ++iterations_;
  calls_ = calls;
  bytes_sent_ = executor_.bytes_sent();
  absl::StatusOr<absl::Duration> elapsed = timer_->Elapsed();
  if (options_.elapsed.has_value()) elapsed = *options_.elapsed;
  if (!elapsed.ok() || *elapsed <= absl::ZeroDuration()) {
    findings_.Fail(Part::kHonesty,
                   elapsed.ok()
                       ? fmt::format("the timer gave {} for an iteration, which is no time",
                                     absl::FormatDuration(*elapsed))
                       : std::string(elapsed.status().message()));
    return 0.0;
  }
  return absl::ToDoubleSeconds(*elapsed) / static_cast<double>(calls);
}

void ExecutorContestant::CheckBytes() {
  if (bytes_sent_ == calls_ * options_.bytes_formula) return;
  findings_.Fail(
      Part::kHonesty,
      fmt::format("sent {} bytes in {} {} pass{}, where the strategy's formula gives {}",
                  bytes_sent_, calls_ == 1 ? "one" : fmt::format("{}", calls_), Name(options_.pass),
                  calls_ == 1 ? "" : "es", calls_ * options_.bytes_formula));
}

absl::Status ExecutorContestant::Examine(int64_t iteration, int inputs, absl::Time deadline) {
  absl::StatusOr<Fingerprint> print =
      TakeFingerprint(executor_.outputs(options_.pass), options_.secret, device_, deadline);
  if (!print.ok()) return print.status();
  judge_.Judge(*print, iteration, inputs, &findings_);
  CheckBytes();
  return absl::OkStatus();
}

absl::Status ExecutorContestant::CheckInputs(absl::Time deadline) {
  absl::StatusOr<Fingerprint> print = PrintInputs(deadline);
  if (!print.ok()) return print.status();
  CheckUnchanged(*inputs_print_, *print, "inputs", &findings_);
  return absl::OkStatus();
}

absl::Status ExecutorContestant::Keep(int slot, int inputs, absl::Time deadline) {
  absl::StatusOr<KeptRows> rows =
      KeptRows::Copy(executor_.outputs(options_.pass), truths_.selection(options_.pass, inputs),
                     device_, deadline);
  if (!rows.ok()) return rows.status();
  kept_[static_cast<size_t>(slot)] = Kept{inputs, *std::move(rows)};
  return CheckInputs(deadline);
}

absl::StatusOr<Conditions> ExecutorContestant::ReadConditions() {
  const absl::Time now = absl::Now();
  if (now - conditions_read_ >= kConditionsAge) {
    absl::StatusOr<Conditions> read = device_.ReadConditions();
    if (!read.ok()) return read;
    conditions_ = *std::move(read);
    conditions_read_ = now;
  }
  Conditions conditions = conditions_;
  const bool faked =
      options_.clock_fraction_iterations == 0 || iterations_ <= options_.clock_fraction_iterations;
  if (options_.clock_fraction.has_value() && faked) {
    conditions.expected_clock_hz = 3e9;
    conditions.clock_hz = *options_.clock_fraction * conditions.expected_clock_hz;
  }
  return conditions;
}

absl::Status ExecutorContestant::Compare(const KeptRows& kept, const std::vector<TruthRow>& truth) {
  const int64_t compared = CompareRows(kept, truth, &findings_);
  if (compared == static_cast<int64_t>(kept.size())) return absl::OkStatus();
  return absl::InternalError(fmt::format(
      "{} rows were kept, but {} have an fp64 row to be compared with", kept.size(), compared));
}

absl::Status ExecutorContestant::CheckNumbers(absl::Time deadline) {
  // Truths first: other ranks wait for this rank's part of them.
  const int cases = static_cast<int>(truths_.cases().size());
  std::vector<const std::vector<TruthRow>*> truths;
  for (int index = 0; index < cases; ++index) {
    absl::StatusOr<const std::vector<TruthRow>*> truth =
        truths_.Get(options_.pass, index, deadline);
    if (!truth.ok()) return truth.status();
    truths.push_back(*truth);
  }
  for (const std::optional<Kept>& kept : kept_) {
    if (!kept.has_value()) continue;
    absl::Status status = Compare(kept->rows, *truths[static_cast<size_t>(kept->inputs)]);
    if (!status.ok()) return status;
  }
  for (int index = TruthStore::kTimedCases; index < cases; ++index) {
    absl::Status status = FillInputs(index, deadline);
    if (status.ok()) status = Poison(executor_.outputs(options_.pass), device_);
    if (status.ok()) status = executor_.Enqueue(options_.pass);
    if (status.ok()) status = device_.stream().Synchronize(deadline);
    if (!status.ok()) return status;
    absl::StatusOr<KeptRows> rows =
        KeptRows::Copy(executor_.outputs(options_.pass), truths_.selection(options_.pass, index),
                       device_, deadline);
    if (!rows.ok()) return rows.status();
    status = Compare(*rows, *truths[static_cast<size_t>(index)]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace lcab::measurement
