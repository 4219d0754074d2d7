// Names of what the API shows (`jobs/7`, `jobs/7/trials/3`, `workers/w1`) and tokens of its pages.

#ifndef LCAB_COORDINATOR_RESOURCE_NAMES_H_
#define LCAB_COORDINATOR_RESOURCE_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lcab::coordinator {

std::string JobName(int64_t id);
std::string TrialName(int64_t job, int64_t number);
std::string WorkerName(std::string_view id);

struct TrialId {
  int64_t job = 0;
  int64_t number = 0;
};

// InvalidArgument shows what a right name looks like. The word before the number may be left out
// ("7", "7/3"), as people type it.
absl::StatusOr<int64_t> ParseJobName(std::string_view name);
absl::StatusOr<TrialId> ParseTrialName(std::string_view name);
absl::StatusOr<std::string> ParseWorkerName(std::string_view name);

// Where a page ends. Opaque to clients, and only good for the list (and filter) it came from, which
// `list` names.
std::string MakePageToken(std::string_view list, int64_t first, int64_t second);
struct PageStart {
  int64_t first = 0;
  int64_t second = 0;
};
// InvalidArgument for a token of another list, or of nobody.
absl::StatusOr<PageStart> ParsePageToken(std::string_view list, std::string_view token);

// `asked` within [1, most]; 0 is `usual`. InvalidArgument when negative.
absl::StatusOr<int> PageSize(int asked, int usual, int most);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_RESOURCE_NAMES_H_
