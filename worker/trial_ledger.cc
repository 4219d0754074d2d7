#include "worker/trial_ledger.h"

#include <algorithm>

#include "fmt/format.h"
#include "proto/proto_time.h"

namespace lcab::worker {
namespace {

// For specifications that were not made from a suite.
constexpr absl::Duration kDefaultTimeout = absl::Minutes(10);

}  // namespace

TrialLedger::TrialLedger(const v1::Assign& assign, absl::Duration hold)
    : cohort_(assign.cohort()), hold_(hold) {
  for (int n = 0; n < assign.trials_size(); ++n) {
    Trial& trial = trials_[assign.trials(n)];
    trial.attempt = n < assign.attempts_size() ? assign.attempts(n) : 1;
  }
}

bool TrialLedger::open(int trial) const {
  const auto found = trials_.find(trial);
  return found != trials_.end() && !found->second.settled;
}

bool TrialLedger::all_settled() const {
  return std::all_of(trials_.begin(), trials_.end(),
                     [](const auto& entry) { return entry.second.settled; });
}

std::vector<int> TrialLedger::OpenTrials() const {
  std::vector<int> open;
  for (const auto& [index, trial] : trials_) {
    if (!trial.settled) open.push_back(index);
  }
  return open;
}

int TrialLedger::attempt(int trial) const {
  const auto found = trials_.find(trial);
  return found == trials_.end() ? 0 : found->second.attempt;
}

absl::Duration TrialLedger::timeout(int trial) const {
  const v1::Measure& measure = spec(trial).measure();
  const absl::Duration timeout = FromProto(measure.timeout());
  return timeout > absl::ZeroDuration() ? timeout : kDefaultTimeout;
}

void TrialLedger::MarkStarted(int trial, absl::Time now) {
  if (!open(trial)) return;
  absl::Time& started = trials_[trial].started;
  if (started == absl::InfinitePast()) started = now;
}

void TrialLedger::CountSamples(int trial, int64_t iterations) {
  if (open(trial)) trials_[trial].iterations += iterations;
}

std::optional<TrialLedger::Ended> TrialLedger::Report(int trial, const v1::TrialResult& result,
                                                      absl::Time now) {
  if (!open(trial)) return std::nullopt;
  if (result.fault() != v1::FAULT_INFRASTRUCTURE) return Settle(trial, result, now);
  Trial& entry = trials_[trial];
  if (entry.held.empty()) entry.held_until = now + hold_;
  entry.held.push_back(result);
  return std::nullopt;
}

std::optional<TrialLedger::Ended> TrialLedger::Settle(int trial, const v1::TrialResult& result,
                                                      absl::Time now) {
  if (!open(trial)) return std::nullopt;
  Trial& entry = trials_[trial];
  entry.settled = true;
  entry.held.clear();
  entry.held_until = absl::InfiniteFuture();
  Ended ended;
  ended.set_trial(trial);
  ended.set_attempt(entry.attempt);
  ended.set_iterations(entry.iterations);
  *ended.mutable_result() = result;
  if (!result.has_start_time()) {
    const absl::Time start = entry.started == absl::InfinitePast() ? now : entry.started;
    *ended.mutable_result()->mutable_start_time() = ToProto(start);
  }
  if (!result.has_end_time()) *ended.mutable_result()->mutable_end_time() = ToProto(now);
  return ended;
}

std::vector<TrialLedger::Ended> TrialLedger::TakeHeld(absl::Time now, bool all) {
  std::vector<Ended> taken;
  for (auto& [index, trial] : trials_) {
    if (trial.settled || trial.held.empty() || (!all && now < trial.held_until)) continue;
    // The first one to fail lost its peer first; the others followed.
    const v1::TrialResult result = trial.held.front();
    taken.push_back(*Settle(index, result, now));
  }
  return taken;
}

absl::Time TrialLedger::next_deadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [index, trial] : trials_) next = std::min(next, trial.held_until);
  return next;
}

std::string TrialLedger::HeldReasons(int trial) const {
  const auto found = trials_.find(trial);
  if (found == trials_.end()) return {};
  std::string text;
  for (const v1::TrialResult& result : found->second.held) {
    text += fmt::format("{}rank {}: {}", text.empty() ? "" : "; ", result.rank(), result.reason());
  }
  return text;
}

}  // namespace lcab::worker
