// What the ranks of an assignment say and do, and the limits they are held to.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "proto/proto_time.h"
#include "worker/assignment.h"

namespace lcab::worker {
namespace {

// In one turn of the loop, so that one rank cannot keep it from the others.
constexpr size_t kMostOutputBytes = 4 << 20;
constexpr int kMostMessages = 1000;
// What is still in the pipe of a runner that has died.
constexpr size_t kLastOutputBytes = 64 << 20;
// A piece of samples that fits into one message to the coordinator.
constexpr int kMostSamples = 128 << 10;
constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);
// How often limits that stand still are looked at.
constexpr absl::Duration kApartStep = absl::Milliseconds(100);
// A runner that closed its channel is about to end.
constexpr absl::Duration kLingerLimit = absl::Seconds(1);

std::string_view Text(absl::string_view text) { return {text.data(), text.size()}; }

// Results that a rank has reached by itself, whatever became of the others meanwhile.
bool IsOfItsOwn(const v1::TrialResult& result) {
  return result.outcome() == v1::OUTCOME_OK || result.outcome() == v1::OUTCOME_WRONG_RESULT ||
         result.outcome() == v1::OUTCOME_UNSUPPORTED ||
         result.outcome() == v1::OUTCOME_OUT_OF_MEMORY;
}

bool IsFaulty(const v1::TrialResult& result) {
  return result.outcome() == v1::OUTCOME_CRASHED || result.outcome() == v1::OUTCOME_TIMED_OUT;
}

}  // namespace

void Assignment::ReadRank(RankState& rank) {
  if (rank.gone) return;
  rank.output.Append(rank.runner->ReadOutput(kMostOutputBytes), absl::Now());
  ReadMessages(rank);
  if (const std::optional<ProcessEnd> end = rank.runner->process().TryReap(); end.has_value()) {
    // What it said before it died.
    rank.output.Append(rank.runner->ReadOutput(kLastOutputBytes), absl::Now());
    while (ReadMessages(rank) > 0) {
    }
    HandleExit(rank, *end);
  }
  SendOutput(rank, rank.output.TakeDue(absl::Now()));
}

int Assignment::ReadMessages(RankState& rank) {
  int count = 0;
  while (rank.channel_open && count < kMostMessages) {
    v1::FromRunner message;
    const absl::StatusOr<bool> read = rank.runner->channel().TryRead(message);
    if (read.ok() && !*read) break;
    if (read.ok()) {
      Handle(rank, message);
      ++count;
      continue;
    }
    rank.channel_open = false;
    rank.idle_since = absl::Now();
    if (!absl::IsUnavailable(read.status())) {
      rank.broken = Text(read.status().message());
      rank.runner->process().Signal(SIGKILL);
    }
  }
  return count;
}

void Assignment::Handle(RankState& rank, const v1::FromRunner& message) {
  switch (message.message_case()) {
    case v1::FromRunner::kPut:
      if (absl::Status put = rendezvous_->Put(message.put()); !put.ok()) EndBy(rank, put);
      break;
    case v1::FromRunner::kGet:
      rendezvous_->Get(rank.rank, message.get(), absl::Now());
      break;
    case v1::FromRunner::kStarted:
      TurnTo(rank, message.started().trial(), "");
      if (rank.rank == 0 && ledger_.open(message.started().trial())) {
        v1::AssignmentEvent event;
        *event.mutable_started() = message.started();
        Send(std::move(event));
      }
      break;
    case v1::FromRunner::kProgress: {
      TurnTo(rank, message.progress().trial(), message.progress().stage());
      const absl::Time now = absl::Now();
      if (rank.rank != 0 || !ledger_.open(message.progress().trial()) ||
          (now < progress_sent_ + kProgressInterval &&
           progress_stage_ == message.progress().stage())) {
        break;
      }
      progress_sent_ = now;
      progress_stage_ = message.progress().stage();
      v1::AssignmentEvent event;
      *event.mutable_progress() = message.progress();
      Send(std::move(event));
      break;
    }
    case v1::FromRunner::kSamples:
      HandleSamples(message.samples());
      break;
    case v1::FromRunner::kCompleted:
      HandleCompleted(rank, message.completed());
      break;
    case v1::FromRunner::kDone:
      rank.done = true;
      rank.discard = !message.done().discard_reason().empty();
      if (rank.discard) {
        spdlog::info("runner not kept assignment={} rank={} reason=\"{}\"", name(), rank.rank,
                     message.done().discard_reason());
      }
      // It left because of the trial that has just failed: the others have failed at nothing, and
      // the end of the assignment, without results for them, says so.
      if (rank.discard && rank.after_fault && !ledger_.all_settled()) {
        BeginAbort(fmt::format("rank {}'s runner left after trial {}: {}", rank.rank,
                               rank.clock.trial(), message.done().discard_reason()),
                   rank.clock.Apart(rank.clock.trial(), absl::Now()) > absl::ZeroDuration()
                       ? v1::FAULT_INFRASTRUCTURE
                       : v1::FAULT_KERNEL);
      }
      break;
    case v1::FromRunner::kReady:
    case v1::FromRunner::MESSAGE_NOT_SET:
      break;
  }
}

void Assignment::TurnTo(RankState& rank, int trial, const std::string& stage) {
  const absl::Time now = absl::Now();
  ledger_.MarkStarted(trial, now);
  rank.stage = stage;
  if (trial != rank.clock.trial()) {
    // What was printed until here belongs to the trial before.
    rank.output.Append(rank.runner->ReadOutput(kMostOutputBytes), now);
    rank.output.TurnTo(trial);
    rank.after_fault = false;
  }
  rank.clock.TurnTo(trial, now);
  rank.idle_since = now;
}

void Assignment::HandleSamples(const v1::TrialSamples& samples) {
  if (!ledger_.open(samples.trial())) return;
  const v1::SampleChunk& chunk = samples.chunk();
  const int ranks = std::max(1, chunk.ranks());
  const int iterations = chunk.seconds_size() / ranks;
  const int step = std::max(1, kMostSamples / ranks);
  for (int first = 0; first < iterations; first += step) {
    const int count = std::min(step, iterations - first);
    v1::AssignmentEvent event;
    v1::AssignmentEvent::Samples& piece = *event.mutable_samples();
    piece.set_trial(samples.trial());
    piece.set_attempt(ledger_.attempt(samples.trial()));
    v1::SampleChunk& out = *piece.mutable_chunk();
    out.set_first(chunk.first() + first);
    out.set_ranks(ranks);
    const auto seconds = chunk.seconds().begin() + first * ranks;
    out.mutable_seconds()->Add(seconds, seconds + count * ranks);
    const int marks = std::clamp(chunk.marks_size() - first, 0, count);
    out.mutable_marks()->Add(chunk.marks().begin() + first, chunk.marks().begin() + first + marks);
    Send(std::move(event));
  }
  ledger_.CountSamples(samples.trial(), iterations);
}

void Assignment::HandleCompleted(RankState& rank, const v1::TrialCompleted& completed) {
  const absl::Time now = absl::Now();
  // After an abort only what was reached before it counts; the rest are its echoes.
  if (aborting_ && !IsOfItsOwn(completed.result())) return;
  // Only rank 0 speaks for all ranks.
  if (rank.rank != 0 && completed.result().outcome() == v1::OUTCOME_OK) return;
  v1::TrialResult result = ExcuseByAbsence(completed.result(), rank, completed.trial(), now);
  if (rank.rank != 0) result.set_rank(rank.rank);
  // An excuse waits for no better account: the runner may leave meanwhile, and it would be lost.
  const bool excused = result.outcome() != completed.result().outcome();
  const std::optional<TrialLedger::Ended> ended =
      excused ? ledger_.Settle(completed.trial(), result, now)
              : ledger_.Report(completed.trial(), result, now);
  if (ended.has_value()) {
    rank.output.Append(rank.runner->ReadOutput(kMostOutputBytes), now);
    SendEnded(ended);
  }
  for (const auto& one : ranks_) {
    if (one->clock.trial() != completed.trial()) continue;
    one->idle_since = now;
    one->after_fault = IsFaulty(result);
  }
  // The other trials would only wait as long, one after the other.
  if (excused && rank.clock.apart()) BeginAbort(result.reason(), result.fault());
}

void Assignment::HandleExit(RankState& rank, const ProcessEnd& end) {
  rank.gone = true;
  rank.channel_open = false;
  if (rank.done || aborting_) return;

  Death death{.end = end,
              .out_of_memory_kill = OutOfMemoryKills() > out_of_memory_kills_,
              .memory_limit_bytes = rank.slot.memory_limit_bytes,
              .in_trial = ledger_.open(rank.clock.trial()),
              .stage = rank.stage,
              .last_output = std::string(rank.output.last())};
  Verdict verdict = Judge(death);
  if (!rank.broken.empty()) {
    verdict = {.outcome = v1::OUTCOME_CRASHED,
               .fault = death.in_trial ? v1::FAULT_KERNEL : v1::FAULT_INFRASTRUCTURE,
               .reason = rank.broken};
  }
  verdict.reason =
      fmt::format("rank {}'s runner (process {} on {} of {}) {}", rank.rank,
                  rank.runner->process().pid(), rank.slot.id, options_.worker, verdict.reason);
  spdlog::warn("runner died assignment={} rank={} reason=\"{}\"", name(), rank.rank,
               verdict.reason);
  listener_.OnRunnerDeath(verdict);
  SendEnded(ledger_.Settle(rank.clock.trial(),
                           Failure(verdict.outcome, verdict.fault, verdict.reason, rank.rank),
                           absl::Now()));
  BeginAbort(verdict.reason, verdict.fault);
}

void Assignment::CheckLimits(absl::Time now) {
  rendezvous_->Expire(now);
  if (aborting_) {
    KillRemaining(now);
    return;
  }
  for (const TrialLedger::Ended& ended : ledger_.TakeHeld(now, false)) SendEnded(ended);
  for (const auto& rank : ranks_) {
    if (aborting_ || rank->over()) continue;
    if (!rank->channel_open) {
      if (now >= rank->idle_since + kLingerLimit) {
        rank->broken = "closed its channel and went on";
        rank->runner->process().Signal(SIGKILL);
        rank->idle_since = now;
      }
    } else if (ledger_.open(rank->clock.trial())) {
      CheckTrial(*rank, now);
    } else {
      CheckIdle(*rank, now);
    }
  }
}

// The runner keeps the limit itself where it can; the grace is for that.
void Assignment::CheckTrial(RankState& rank, absl::Time now) {
  const int trial = rank.clock.trial();
  const absl::Duration timeout = ledger_.timeout(trial);
  if (TimeLeft(rank, now) > absl::ZeroDuration()) return;
  std::string reason =
      fmt::format("ran longer than its limit of {}{}", absl::FormatDuration(timeout),
                  rank.stage.empty() ? std::string() : fmt::format(" (in stage {})", rank.stage));
  if (const std::string others = ledger_.HeldReasons(trial); !others.empty()) {
    reason += "; " + others;
  }
  // With several ranks it need not be this one that hangs; it may wait for another.
  const int blamed = assign_.cohort().ranks() == 1 ? rank.rank : -1;
  const v1::TrialResult result = ExcuseByAbsence(
      Failure(v1::OUTCOME_TIMED_OUT, v1::FAULT_LIMIT, reason, blamed), rank, trial, now);
  SendEnded(ledger_.Settle(trial, result, now));
  BeginAbort(fmt::format("trial {} {}", trial, result.reason()), result.fault());
}

absl::Duration Assignment::TimeLeft(const RankState& rank, absl::Time now) const {
  const int trial = rank.clock.trial();
  return ledger_.timeout(trial) + Grace() +
         std::min(rank.clock.Apart(trial, now), options_.absence_limit) - rank.clock.Spent(now);
}

// A runner's clock runs on while it waits at a vote for ranks that it cannot meet: that its time is
// up says nothing of the trial then, which is tried again.
v1::TrialResult Assignment::ExcuseByAbsence(v1::TrialResult result, const RankState& rank,
                                            int trial, absl::Time now) const {
  const absl::Duration apart = rank.clock.Apart(trial, now);
  if (result.outcome() != v1::OUTCOME_TIMED_OUT || apart <= absl::ZeroDuration()) return result;
  result.set_outcome(v1::OUTCOME_CRASHED);
  result.set_fault(v1::FAULT_INFRASTRUCTURE);
  result.set_reason(
      fmt::format("the coordinator was away for {} of the trial's time, in which ranks on several "
                  "workers cannot meet: {}",
                  absl::FormatDuration(apart), result.reason()));
  return result;
}

void Assignment::EndBy(const RankState& rank, const absl::Status& failure) {
  if (aborting_) return;
  // More than fits will not fit the next time either.
  const bool full = absl::IsResourceExhausted(failure);
  const v1::Outcome outcome = full ? v1::OUTCOME_OUT_OF_MEMORY : v1::OUTCOME_CRASHED;
  const v1::Fault fault = full ? v1::FAULT_LIMIT : v1::FAULT_INFRASTRUCTURE;
  const std::string reason = fmt::format("rank {} could not exchange a value with the others: {}",
                                         rank.rank, Text(failure.message()));
  SendEnded(
      ledger_.Settle(rank.clock.trial(), Failure(outcome, fault, reason, rank.rank), absl::Now()));
  BeginAbort(reason, fault);
}

void Assignment::CheckIdle(RankState& rank, absl::Time now) {
  const absl::Duration limit = rank.after_fault ? options_.fault_idle_limit : options_.idle_limit;
  if (now < rank.idle_since + limit) return;
  BeginAbort(fmt::format("rank {}'s runner was at no trial for {}", rank.rank,
                         absl::FormatDuration(limit)),
             rank.after_fault ? v1::FAULT_KERNEL : v1::FAULT_INFRASTRUCTURE);
}

absl::Time Assignment::NextDeadline(absl::Time now) {
  absl::Time next = std::min(abort_deadline_, rendezvous_->Expire(now));
  if (!aborting_) next = std::min(next, ledger_.next_deadline());
  for (const auto& rank : ranks_) {
    next = std::min(next, rank->output.next_deadline());
    if (rank->over() || aborting_) continue;
    if (!rank->channel_open) {
      next = std::min(next, rank->idle_since + kLingerLimit);
    } else if (const int trial = rank->clock.trial(); ledger_.open(trial)) {
      next = std::min(next, now + TimeLeft(*rank, now));
      // Until the absence has lasted too long, or a new connection wakes this thread.
      const absl::Duration apart = rank->clock.Apart(trial, now);
      if (rank->clock.apart() && apart < options_.absence_limit) {
        next = std::max(next, now + std::min(kApartStep, options_.absence_limit - apart));
      }
    } else {
      next = std::min(next, rank->idle_since + (rank->after_fault ? options_.fault_idle_limit
                                                                  : options_.idle_limit));
    }
  }
  return next;
}

}  // namespace lcab::worker
