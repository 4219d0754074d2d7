#include "worker/rank_output.h"

#include <algorithm>
#include <utility>

namespace lcab::worker {
namespace {

constexpr size_t kPieceBytes = 32 << 10;
constexpr absl::Duration kPieceWait = absl::Milliseconds(200);

}  // namespace

void RankOutput::Append(std::string_view text, absl::Time now) {
  if (text.empty()) return;
  Trial& trial = trials_[trial_];
  const std::string passed = trial.log.Append(text);
  if (passed.empty()) return;
  if (trial.pending.empty()) trial.since = now;
  trial.pending += passed;
}

std::vector<RankOutput::Piece> RankOutput::TakeDue(absl::Time now) {
  std::vector<Piece> pieces;
  for (auto& [index, trial] : trials_) {
    if (trial.pending.empty()) continue;
    if (trial.pending.size() < kPieceBytes && now < trial.since + kPieceWait) continue;
    pieces.push_back({index, std::exchange(trial.pending, {})});
    trial.since = absl::InfiniteFuture();
  }
  return pieces;
}

std::vector<RankOutput::Piece> RankOutput::Flush(int trial) {
  const auto found = trials_.find(trial);
  if (found == trials_.end()) return {};
  std::string text = std::exchange(found->second.pending, {});
  found->second.since = absl::InfiniteFuture();
  text += found->second.log.Flush();
  if (text.empty()) return {};
  return {{trial, std::move(text)}};
}

std::vector<RankOutput::Piece> RankOutput::FlushAll() {
  std::vector<Piece> pieces;
  for (const auto& [index, trial] : trials_) {
    for (Piece& piece : Flush(index)) pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::string_view RankOutput::last() const {
  const auto found = trials_.find(trial_);
  return found == trials_.end() ? std::string_view() : found->second.log.last();
}

absl::Time RankOutput::next_deadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [index, trial] : trials_) {
    if (!trial.pending.empty()) next = std::min(next, trial.since + kPieceWait);
  }
  return next;
}

}  // namespace lcab::worker
