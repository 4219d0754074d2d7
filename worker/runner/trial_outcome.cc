#include "worker/runner/trial_outcome.h"

namespace lcab::runner {

Judgement Judge(const absl::Status& status, std::string_view stage) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return {v1::OUTCOME_OK, v1::FAULT_UNSPECIFIED};
    // The kernel, the strategy or the problem says no.
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return {v1::OUTCOME_UNSUPPORTED, v1::FAULT_UNSPECIFIED};
    case absl::StatusCode::kResourceExhausted:
      return {v1::OUTCOME_OUT_OF_MEMORY, v1::FAULT_LIMIT};
    case absl::StatusCode::kDeadlineExceeded:
      // Ranks that do not find each other; anything later is the trial's own time.
      if (stage == "connect") return {v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE};
      return {v1::OUTCOME_TIMED_OUT, v1::FAULT_LIMIT};
    // A peer is gone.
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return {v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE};
    // A plan that could not be proved would compute something else than was asked.
    case absl::StatusCode::kFailedPrecondition:
      if (stage == "plan") return {v1::OUTCOME_WRONG_RESULT, v1::FAULT_KERNEL};
      return {v1::OUTCOME_CRASHED, v1::FAULT_KERNEL};
    default:
      return {v1::OUTCOME_CRASHED,
              stage == "connect" ? v1::FAULT_INFRASTRUCTURE : v1::FAULT_KERNEL};
  }
}

std::string_view AdviceFor(v1::Outcome outcome) {
  switch (outcome) {
    case v1::OUTCOME_OUT_OF_MEMORY:
      return "shorten seq_len, use more ranks, or raise memory_limit";
    case v1::OUTCOME_TIMED_OUT:
      return "raise the timeout, or shorten seq_len";
    default:
      return "";
  }
}

}  // namespace lcab::runner
