// How lcab-client ends, as scripts see it. docs/cli.md and --help print this table.

#ifndef LCAB_CLIENT_EXIT_CODES_H_
#define LCAB_CLIENT_EXIT_CODES_H_

#include <array>
#include <string_view>

#include "absl/status/status.h"

namespace lcab::client {

enum class ExitCode : int {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kSuite = 3,
  kTrials = 4,
  kServer = 5,
  kRefused = 6,
  kCancelled = 7,
  kDatabase = 8,
  kInterrupted = 130,  // as shells call the end by SIGINT
};

struct ExitCodeMeaning {
  ExitCode code;
  std::string_view meaning;
};

inline constexpr std::array<ExitCodeMeaning, 10> kExitCodes = {{
    {ExitCode::kOk, "done; every trial that was asked for is ok or unsupported"},
    {ExitCode::kInternal, "something failed that should not have; the message says what"},
    {ExitCode::kUsage, "the command line or the configuration is wrong; nothing was done"},
    {ExitCode::kSuite, "the suite is refused; each error has its file, line and column"},
    {ExitCode::kTrials,
     "a trial ended wrong_result, out_of_memory, timed_out, crashed or lost; its row says why"},
    {ExitCode::kServer, "the coordinator cannot be reached, or did not answer in time"},
    {ExitCode::kRefused,
     "the coordinator refused: no such name, not allowed, or not possible in that state"},
    {ExitCode::kCancelled, "cancelled, by a signal or by somebody else, before it was done"},
    {ExitCode::kDatabase,
     "the database cannot be used: missing, not of lcab, of a newer version, damaged, locked or in "
     "use, not readable or writable, or its disk is full"},
    {ExitCode::kInterrupted, "interrupted twice: ended at once, without waiting for anything"},
}};

// The code for a call to a coordinator that failed.
constexpr ExitCode ExitCodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kServer;
    case absl::StatusCode::kCancelled:
      return ExitCode::kCancelled;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kUsage;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kRefused;
    default:
      return ExitCode::kInternal;
  }
}

}  // namespace lcab::client

#endif  // LCAB_CLIENT_EXIT_CODES_H_
