#include "measurement/votes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "lcab/v1/votes.pb.h"

namespace lcab::measurement {
namespace {

// Rank 0 waits until the deadline for the ballots; the others wait this much longer for its
// verdict, so that they hear which rank was missing instead of suspecting rank 0.
constexpr absl::Duration kVerdictGrace = absl::Seconds(5);

absl::Status MakeStatus(int code, std::string_view message) {
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::string_view(message.data(), message.size()));
}

// How far from being a cause.
int Remoteness(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return 1;
    case absl::StatusCode::kUnavailable:
      return 2;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return 3;
    default:
      return 0;
  }
}

}  // namespace

int CauseAmong(std::span<const absl::Status> statuses) {
  int cause = -1;
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    if (statuses[rank].ok()) continue;
    if (cause < 0 ||
        Remoteness(statuses[rank]) < Remoteness(statuses[static_cast<size_t>(cause)])) {
      cause = static_cast<int>(rank);
    }
  }
  return cause;
}

Votes::Votes(int rank, int ranks, std::string prefix, cp::Rendezvous* rendezvous)
    : rank_(rank), ranks_(ranks), prefix_(std::move(prefix)), rendezvous_(rendezvous) {}

std::string Votes::KeyOf(std::string_view part) const {
  return fmt::format("{}/vote/{}/{}", prefix_, held_, part);
}

Verdict Votes::Preside(std::string_view topic, const absl::Status& status, std::string content,
                       absl::Time deadline, const Decide& decide) {
  std::vector<absl::Status> statuses(static_cast<size_t>(ranks_));
  std::vector<std::string> contents(static_cast<size_t>(ranks_));
  statuses[0] = status;
  contents[0] = std::move(content);
  int missing = -1;
  for (int rank = 1; rank < ranks_; ++rank) {
    const auto index = static_cast<size_t>(rank);
    // Once one is missing the time is up: what the others have said counts, they are not waited
    // for.
    if (!statuses[index - 1].ok()) deadline = std::min(deadline, absl::Now() + kFailureGrace);
    const absl::StatusOr<std::string> bytes =
        rendezvous_->Get(KeyOf(fmt::format("ballot/{}", rank)), deadline);
    v1::Ballot ballot;
    if (absl::IsDeadlineExceeded(bytes.status())) {
      if (missing < 0) missing = rank;
      statuses[index] = absl::DeadlineExceededError(
          fmt::format("rank {} did not come to the vote '{}'", rank, topic));
    } else if (!bytes.ok()) {
      return {bytes.status(), -1, ""};
    } else if (!ballot.ParseFromString(*bytes)) {
      statuses[index] =
          absl::InternalError(fmt::format("rank {} gave a ballot that cannot be read", rank));
    } else if (ballot.topic() != topic) {
      statuses[index] = absl::InternalError(
          fmt::format("ranks have come apart: rank 0 votes on '{}', rank {} on '{}'", topic, rank,
                      ballot.topic()));
    } else {
      statuses[index] = MakeStatus(ballot.code(), ballot.message());
      contents[index] = std::move(*ballot.mutable_content());
    }
  }
  int cause = CauseAmong(statuses);
  // A rank that is silent is a better cause than one that lost its peer.
  if (missing >= 0 && Remoteness(statuses[static_cast<size_t>(cause)]) > 0) cause = missing;
  if (cause >= 0) return {statuses[static_cast<size_t>(cause)], cause, ""};
  if (decide == nullptr) return {absl::OkStatus(), -1, ""};
  absl::StatusOr<std::string> decision = decide(contents);
  if (!decision.ok()) return {decision.status(), -1, ""};
  return {absl::OkStatus(), -1, *std::move(decision)};
}

Verdict Votes::Hold(std::string_view topic, const absl::Status& status, std::string content,
                    absl::Time deadline, const Decide& decide) {
  ++held_;
  if (rank_ == 0) {
    Verdict verdict = Preside(topic, status, std::move(content), deadline, decide);
    if (ranks_ == 1) return verdict;
    v1::Verdict message;
    message.set_code(verdict.status.raw_code());
    message.set_message(std::string(verdict.status.message()));
    message.set_rank(verdict.rank);
    message.set_content(verdict.content);
    const absl::Status put = rendezvous_->Put(KeyOf("verdict"), message.SerializeAsString());
    if (!put.ok() && verdict.status.ok()) return {put, 0, ""};
    return verdict;
  }

  v1::Ballot ballot;
  ballot.set_topic(std::string(topic));
  ballot.set_code(status.raw_code());
  ballot.set_message(std::string(status.message()));
  ballot.set_content(std::move(content));
  const absl::Status put =
      rendezvous_->Put(KeyOf(fmt::format("ballot/{}", rank_)), ballot.SerializeAsString());
  if (!put.ok()) return {status.ok() ? put : status, rank_, "", /*heard=*/false};
  const absl::StatusOr<std::string> bytes =
      rendezvous_->Get(KeyOf("verdict"), deadline + kVerdictGrace);
  if (absl::IsDeadlineExceeded(bytes.status())) {
    return {status.ok()
                ? absl::DeadlineExceededError(fmt::format("rank 0 gave no verdict on '{}'", topic))
                : status,
            status.ok() ? 0 : rank_, "", /*heard=*/false};
  }
  if (!bytes.ok()) return {bytes.status(), -1, "", /*heard=*/false};
  v1::Verdict verdict;
  if (!verdict.ParseFromString(*bytes)) {
    return {absl::InternalError(
                fmt::format("rank 0 gave a verdict on '{}' that cannot be read", topic)),
            0, ""};
  }
  return {MakeStatus(verdict.code(), verdict.message()), verdict.rank(),
          std::move(*verdict.mutable_content())};
}

}  // namespace lcab::measurement
