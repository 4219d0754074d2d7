// Workers and cohorts for the tests of the scheduler.

#ifndef LCAB_COORDINATOR_TEST_SCHEDULE_H_
#define LCAB_COORDINATOR_TEST_SCHEDULE_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/scheduler.h"
#include "fmt/format.h"

namespace lcab::coordinator {

inline const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

inline WorkerView Worker(const std::string& id, int devices,
                         std::set<std::string> kernels = {"tiled"}, const std::string& kind = "cpu",
                         const std::string& model = "epyc") {
  WorkerView worker{.id = id};
  for (int i = 0; i < devices; ++i) {
    worker.devices.push_back({.id = fmt::format("{}:{}", kind, i), .kind = kind, .model = model});
  }
  worker.kernels[kind] = std::move(kernels);
  return worker;
}

inline WaitingCohort Cohort(int64_t id, int64_t job, int devices,
                            std::vector<std::string> kernels = {"tiled"},
                            const std::string& submitter = "ann") {
  WaitingCohort cohort{.id = id, .job = job, .submitter = submitter, .since = kNow};
  cohort.devices = devices;
  for (size_t i = 0; i < kernels.size(); ++i) {
    cohort.trials.push_back({static_cast<int>(i), kernels[i]});
  }
  return cohort;
}

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_TEST_SCHEDULE_H_
