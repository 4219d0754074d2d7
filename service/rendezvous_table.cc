#include "service/rendezvous_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "fmt/format.h"

namespace lcab::service {
namespace {

absl::Status NotOpen(std::string_view assignment) {
  return absl::FailedPreconditionError(
      fmt::format("{} has no rendezvous: it is over, or was never placed", assignment));
}

}  // namespace

RendezvousTable::~RendezvousTable() {
  std::vector<Call> calls;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, board] : boards_) {
      auto taken = TakeWaiters(board, absl::AbortedError("the rendezvous is shutting down"));
      std::move(taken.begin(), taken.end(), std::back_inserter(calls));
    }
    boards_.clear();
  }
  Run(std::move(calls));
}

void RendezvousTable::Open(std::string_view assignment) {
  const std::lock_guard lock(mutex_);
  boards_.try_emplace(std::string(assignment));
}

absl::Status RendezvousTable::Put(std::string_view assignment, std::string_view key,
                                  std::string_view value) {
  std::vector<Call> calls;
  {
    const std::lock_guard lock(mutex_);
    const auto found = boards_.find(assignment);
    if (found == boards_.end()) return NotOpen(assignment);
    Board& board = found->second;
    if (board.aborted) return AbortedStatus(board);
    if (const auto held = board.values.find(key); held != board.values.end()) {
      if (held->second == value) return absl::OkStatus();
      return absl::AlreadyExistsError(fmt::format(
          "key '{}' of {} holds another value; keys are written once", key, assignment));
    }
    const int64_t bytes = static_cast<int64_t>(key.size() + value.size());
    if (board.bytes + bytes > max_bytes_) {
      return absl::ResourceExhaustedError(
          fmt::format("key '{}' of {} needs {} bytes; {} of {} are in use", key, assignment, bytes,
                      board.bytes, max_bytes_));
    }
    board.bytes += bytes;
    board.values.emplace(key, value);
    if (const auto waiting = board.waiters.find(key); waiting != board.waiters.end()) {
      for (Waiter& waiter : waiting->second) {
        calls.push_back({std::move(waiter.answer), std::string(value)});
      }
      board.waiters.erase(waiting);
    }
  }
  Run(std::move(calls));
  return absl::OkStatus();
}

void RendezvousTable::Get(std::string_view assignment, std::string_view key, absl::Time deadline,
                          Answer answer) {
  absl::StatusOr<std::string> value;
  {
    const std::lock_guard lock(mutex_);
    const auto found = boards_.find(assignment);
    if (found == boards_.end()) {
      value = NotOpen(assignment);
    } else if (Board& board = found->second; board.aborted) {
      value = AbortedStatus(board);
    } else if (const auto held = board.values.find(key); held != board.values.end()) {
      value = held->second;
    } else {
      board.waiters[std::string(key)].push_back({deadline, std::move(answer)});
      return;
    }
  }
  answer(std::move(value));
}

void RendezvousTable::Abort(std::string_view assignment, std::string_view reason) {
  std::vector<Call> calls;
  {
    const std::lock_guard lock(mutex_);
    const auto found = boards_.find(assignment);
    if (found == boards_.end() || found->second.aborted) return;
    Board& board = found->second;
    board.aborted = true;
    board.abort_reason = reason;
    calls = TakeWaiters(board, AbortedStatus(board));
  }
  Run(std::move(calls));
}

void RendezvousTable::Close(std::string_view assignment) {
  std::vector<Call> calls;
  {
    const std::lock_guard lock(mutex_);
    const auto found = boards_.find(assignment);
    if (found == boards_.end()) return;
    calls = TakeWaiters(found->second, absl::AbortedError(fmt::format("{} is over", assignment)));
    boards_.erase(found);
  }
  Run(std::move(calls));
}

absl::Time RendezvousTable::Expire(absl::Time now) {
  absl::Time next = absl::InfiniteFuture();
  std::vector<Call> calls;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, board] : boards_) {
      for (auto entry = board.waiters.begin(); entry != board.waiters.end();) {
        auto& waiters = entry->second;
        const auto late = std::stable_partition(
            waiters.begin(), waiters.end(), [now](const Waiter& w) { return w.deadline > now; });
        for (auto waiter = late; waiter != waiters.end(); ++waiter) {
          calls.push_back({std::move(waiter->answer),
                           absl::DeadlineExceededError(fmt::format(
                               "no rank put the key '{}' of {} in time", entry->first, name))});
        }
        waiters.erase(late, waiters.end());
        for (const Waiter& waiter : waiters) next = std::min(next, waiter.deadline);
        entry = waiters.empty() ? board.waiters.erase(entry) : std::next(entry);
      }
    }
  }
  Run(std::move(calls));
  return next;
}

void RendezvousTable::Run(std::vector<Call> calls) {
  for (Call& call : calls) call.answer(std::move(call.value));
}

std::vector<RendezvousTable::Call> RendezvousTable::TakeWaiters(Board& board,
                                                                const absl::Status& status) {
  std::vector<Call> calls;
  for (auto& [key, waiters] : board.waiters) {
    for (Waiter& waiter : waiters) calls.push_back({std::move(waiter.answer), status});
  }
  board.waiters.clear();
  return calls;
}

absl::Status RendezvousTable::AbortedStatus(const Board& board) {
  return absl::AbortedError(board.abort_reason);
}

}  // namespace lcab::service
