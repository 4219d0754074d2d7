// The life of an assignment: start, loop, abort, end. What its ranks say and do is in
// assignment_ranks.cc.

#include "worker/assignment.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>
#include <string_view>

#include "absl/time/clock.h"
#include "proto/proto_time.h"
#include "suites/conversion.h"

namespace lcab::worker {
namespace {

constexpr absl::Duration kDefaultGrace = absl::Seconds(3);
// SIGKILL takes effect at once unless the kernel is stuck in the process.
constexpr absl::Duration kKillTimeout = absl::Seconds(5);
constexpr absl::Duration kWriteTimeout = absl::Seconds(2);

std::string_view Text(absl::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Assignment::Assignment(v1::Assign assign, const AssignmentOptions& options, RunnerPool& pool,
                       DeviceLeases& leases, AssignmentListener& listener)
    : assign_(std::move(assign)),
      options_(options),
      pool_(pool),
      leases_(leases),
      listener_(listener),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      ledger_(assign_, options.hold),
      thread_([this] { Run(); }) {}

Assignment::~Assignment() {
  Abort("the worker is stopping");
  thread_.join();
}

void Assignment::Abort(std::string reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!abort_command_.has_value()) abort_command_ = std::move(reason);
  }
  give_up_ = true;
  leases_.Wake();
  eventfd_write(wake_.get(), 1);
}

void Assignment::Deliver(const v1::WorkerRendezvousValue& value) {
  {
    const std::lock_guard lock(mutex_);
    values_.push_back(value);
  }
  eventfd_write(wake_.get(), 1);
}

void Assignment::Disconnect() {
  {
    const std::lock_guard lock(mutex_);
    connected_ = false;
  }
  eventfd_write(wake_.get(), 1);
}

void Assignment::Resend() {
  {
    const std::lock_guard lock(mutex_);
    resend_ = true;
    connected_ = true;
  }
  eventfd_write(wake_.get(), 1);
}

void Assignment::Run() {
  if (absl::Status status = Start(); !status.ok()) {
    TakeCommands();  // where it was told to end, that is the reason
    BeginAbort(std::string(Text(status.message())), v1::FAULT_INFRASTRUCTURE);
  }
  while (!AllRanksOver() ||
         (!aborting_ && !AllHere() && ledger_.next_deadline() < absl::InfiniteFuture())) {
    const absl::Time now = absl::Now();
    Wait(NextDeadline(now));
    TakeCommands();
    for (const auto& rank : ranks_) ReadRank(*rank);
    CheckLimits(absl::Now());
  }
  Finish();
}

absl::Status Assignment::Check() const {
  const v1::CohortSpec& cohort = assign_.cohort();
  std::set<int> ranks;
  for (const v1::Assign::Placement& placement : assign_.placements()) {
    if (placement.rank() < 0 || placement.rank() >= cohort.ranks() ||
        !ranks.insert(placement.rank()).second) {
      return absl::InvalidArgumentError(fmt::format("{} places rank {} of {} twice or out of range",
                                                    name(), placement.rank(), cohort.ranks()));
    }
    if (FindSlot(placement.device()) == nullptr) {
      return absl::NotFoundError(
          fmt::format("{} has no device '{}'", options_.worker, placement.device()));
    }
  }
  if (ranks.empty()) return absl::InvalidArgumentError(fmt::format("{} has no ranks", name()));
  if (assign_.trials().empty()) {
    return absl::InvalidArgumentError(fmt::format("{} has no trials", name()));
  }
  for (const int trial : assign_.trials()) {
    if (trial < 0 || trial >= cohort.trials_size()) {
      return absl::InvalidArgumentError(
          fmt::format("{} names trial {} of a cohort of {}", name(), trial, cohort.trials_size()));
    }
  }
  return absl::OkStatus();
}

const DeviceSlot* Assignment::FindSlot(const std::string& device) const {
  for (const DeviceSlot& slot : options_.slots) {
    if (slot.id == device) return &slot;
  }
  return nullptr;
}

absl::Duration Assignment::Grace() const {
  const absl::Duration grace = FromProto(assign_.grace());
  return grace > absl::ZeroDuration() ? grace : kDefaultGrace;
}

absl::Status Assignment::Start() {
  rendezvous_ = std::make_unique<AssignmentRendezvous>(
      name(),
      [this](int number, const v1::RendezvousValue& value) {
        for (const auto& rank : ranks_) {
          if (rank->rank != number || rank->over()) continue;
          v1::ToRunner message;
          *message.mutable_value() = value;
          WriteTo(*rank, message);
        }
      },
      AllHere() ? AssignmentRendezvous::Relay()
                : [this](v1::FromWorker message) { listener_.OnRelay(std::move(message)); },
      options_.rendezvous_bytes);
  if (absl::Status status = Check(); !status.ok()) return status;

  std::vector<std::string> devices;
  for (const v1::Assign::Placement& placement : assign_.placements()) {
    devices.push_back(placement.device());
  }
  absl::Status leased = leases_.Acquire(devices, name(), absl::Now() + options_.lease_timeout,
                                        [this] { return give_up_.load(); });
  if (!leased.ok()) return leased;
  out_of_memory_kills_ = OutOfMemoryKills();

  for (const v1::Assign::Placement& placement : assign_.placements()) {
    auto runner = pool_.Acquire(placement.device(), [this] { return give_up_.load(); });
    if (!runner.ok()) {
      return absl::UnavailableError(fmt::format("no runner for rank {} on {}: {}", placement.rank(),
                                                options_.worker, Text(runner.status().message())));
    }
    ranks_.push_back(std::make_unique<RankState>(placement.rank(), *FindSlot(placement.device()),
                                                 *std::move(runner), assign_.trials(0),
                                                 absl::Now()));
    spdlog::debug("runner at work assignment={} rank={} device={} pid={}", name(), placement.rank(),
                  placement.device(), ranks_.back()->runner->process().pid());
  }
  for (int n = 0; n < assign_.placements_size(); ++n) {
    RankState& rank = *ranks_[n];
    WriteTo(rank, MakeRunCohort(assign_.placements(n), rank.slot));
  }
  return absl::OkStatus();
}

v1::ToRunner Assignment::MakeRunCohort(const v1::Assign::Placement& placement,
                                       const DeviceSlot& slot) const {
  v1::ToRunner message;
  v1::RunCohort& run = *message.mutable_run();
  run.set_assignment(name());
  *run.mutable_cohort() = assign_.cohort();
  *run.mutable_trials() = assign_.trials();
  run.set_rank(placement.rank());
  // Ranks that share a device share its threads.
  run.set_threads(std::max(1, slot.threads / std::max(1, assign_.cohort().ranks_per_device())));
  for (const int cpu : slot.cpus) run.add_cpus(cpu);
  run.set_device_kind(std::string(suites::Name(slot.kind)));
  run.set_device_index(slot.index);
  run.set_memory_limit_bytes(slot.memory_limit_bytes);
  if (!AllHere()) run.set_data_interface(options_.data_interface);
  // A rank may wait at a vote for as long as another may take: the trial's own limit, which this
  // worker keeps, decides before.
  absl::Duration vote = absl::ZeroDuration();
  for (const int trial : assign_.trials()) vote = std::max(vote, ledger_.timeout(trial));
  *run.mutable_vote_timeout() = ToProto(vote + Grace());
  run.set_worker(options_.worker);
  for (const auto& [hook, value] : options_.test_hooks) (*run.mutable_test_hooks())[hook] = value;
  return message;
}

void Assignment::Wait(absl::Time deadline) {
  std::vector<pollfd> entries = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  const auto add = [&entries](int fd) {
    if (fd >= 0) entries.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  };
  for (const auto& rank : ranks_) {
    if (rank->gone) continue;
    add(rank->runner->process().exit_fd());
    add(rank->runner->output_fd());
    if (rank->channel_open) add(rank->runner->channel().fd());
  }
  const absl::Duration left = deadline - absl::Now();
  const int64_t milliseconds = std::clamp<int64_t>(absl::ToInt64Milliseconds(left) + 1, 0, 60'000);
  poll(entries.data(), entries.size(), static_cast<int>(milliseconds));
}

void Assignment::TakeCommands() {
  eventfd_t count = 0;
  eventfd_read(wake_.get(), &count);
  std::optional<std::string> abort;
  std::vector<v1::WorkerRendezvousValue> values;
  bool resend = false;
  bool apart = false;
  {
    const std::lock_guard lock(mutex_);
    abort = std::move(abort_command_);
    abort_command_.reset();
    values.swap(values_);
    resend = std::exchange(resend_, false);
    apart = !connected_ && !AllHere();
  }
  for (const auto& rank : ranks_) {
    if (rank->clock.apart() != apart) rank->clock.SetApart(apart, absl::Now());
  }
  for (const v1::WorkerRendezvousValue& value : values) {
    const absl::Status taken = rendezvous_->Deliver(value.rank(), value.value());
    for (const auto& rank : ranks_) {
      if (!taken.ok() && rank->rank == value.rank()) EndBy(*rank, taken);
    }
  }
  if (resend) rendezvous_->Resend(absl::Now());
  if (abort.has_value()) BeginAbort(*abort, v1::FAULT_UNSPECIFIED);
}

bool Assignment::AllRanksOver() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->over(); });
}

void Assignment::BeginAbort(const std::string& reason, v1::Fault fault) {
  if (aborting_) return;
  aborting_ = true;
  abort_deadline_ = absl::Now() + Grace();
  end_reason_ = reason;
  end_fault_ = fault;
  spdlog::info("ending assignment={} reason=\"{}\"", name(), reason);
  rendezvous_->Abort(reason);
  v1::ToRunner message;
  message.mutable_abort()->set_reason(reason);
  for (const auto& rank : ranks_) {
    if (!rank->over()) WriteTo(*rank, message);
  }
}

void Assignment::KillRemaining(absl::Time now) {
  if (now < abort_deadline_) return;
  for (const auto& rank : ranks_) {
    if (rank->over()) continue;
    if (!killed_) {
      rank->runner->process().Signal(SIGKILL);
    } else {
      spdlog::error("runner does not die assignment={} rank={} pid={}", name(), rank->rank,
                    rank->runner->process().pid());
      rank->gone = true;
    }
  }
  killed_ = true;
  abort_deadline_ = now + kKillTimeout;
}

void Assignment::Finish() {
  const absl::Time now = absl::Now();
  if (!aborting_) {
    for (const TrialLedger::Ended& ended : ledger_.TakeHeld(now, true)) SendEnded(ended);
    // Rank 0 gives the results: where it has left without one, nobody else will.
    const bool has_rank_0 =
        std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->rank == 0; });
    for (const int trial : ledger_.OpenTrials()) {
      if (!has_rank_0) break;
      SendEnded(
          ledger_.Settle(trial,
                         Failure(v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE,
                                 "the runner ended its cohort without a result for this trial", 0),
                         now));
    }
  }
  for (const auto& rank : ranks_) {
    if (!rank->gone) rank->output.Append(rank->runner->ReadOutput(BoundedLog::kTailBytes), now);
    SendOutput(*rank, rank->output.FlushAll());
    if (rank->done && !rank->gone && !rank->discard) {
      pool_.Release(rank->slot.id, std::move(rank->runner));
    }
  }
  rendezvous_.reset();
  ranks_.clear();  // kills what was not given back
  leases_.Release(name());
  v1::AssignmentEvent event;
  event.mutable_ended()->set_reason(end_reason_);
  event.mutable_ended()->set_fault(end_fault_);
  Send(std::move(event));
  finished_ = true;
}

v1::TrialResult Assignment::Failure(v1::Outcome outcome, v1::Fault fault, const std::string& reason,
                                    int rank) const {
  v1::TrialResult result;
  result.set_outcome(outcome);
  result.set_fault(fault);
  result.set_reason(reason);
  result.set_rank(rank);
  *result.mutable_environment() = options_.environment;
  for (const auto& one : ranks_) {
    v1::RankResult& entry = *result.add_ranks();
    entry.set_rank(one->rank);
    entry.set_worker(options_.worker);
    entry.set_device(one->slot.id);
    entry.set_pid(one->runner->process().pid());
  }
  return result;
}

void Assignment::Send(v1::AssignmentEvent event) {
  event.set_assignment(name());
  listener_.OnEvent(std::move(event));
}

void Assignment::SendEnded(const std::optional<TrialLedger::Ended>& ended) {
  if (!ended.has_value()) return;
  const v1::TrialResult& result = ended->result();
  // What was printed belongs before the end.
  for (const auto& rank : ranks_) SendOutput(*rank, rank->output.Flush(ended->trial()));
  spdlog::info("trial ended assignment={} job={} trial={} outcome={} reason=\"{}\"", name(),
               assign_.job(), ended->trial(), v1::Outcome_Name(result.outcome()), result.reason());
  v1::AssignmentEvent event;
  *event.mutable_trial_ended() = *ended;
  Send(std::move(event));
}

void Assignment::SendOutput(const RankState& rank, std::vector<RankOutput::Piece> pieces) {
  for (RankOutput::Piece& piece : pieces) {
    v1::AssignmentEvent event;
    event.mutable_log()->set_trial(piece.trial);
    event.mutable_log()->set_attempt(ledger_.attempt(piece.trial));
    event.mutable_log()->set_rank(rank.rank);
    event.mutable_log()->set_text(std::move(piece.text));
    Send(std::move(event));
  }
}

void Assignment::WriteTo(RankState& rank, const v1::ToRunner& message) {
  absl::Status status = rank.runner->channel().Write(message, absl::Now() + kWriteTimeout);
  // A runner that is gone shows by its end; one that does not read is of no use.
  if (status.ok() || absl::IsUnavailable(status) || rank.gone) return;
  rank.broken = fmt::format("could not be told anything: {}", Text(status.message()));
  rank.runner->process().Signal(SIGKILL);
}

}  // namespace lcab::worker
