// Which cohort runs where, what is waited for and why: a pure function of what is known.
//
//   ScheduleDecisions decisions = Schedule(state, absl::Now(), {});
//
// Order: the submitter who uses the fewest devices first, then that submitter's job that uses the
// fewest, then the older one, so that an early submitter does not fill the queue. A gang that has
// waited longer than `reserve_after` although the fleet could hold it has devices kept free for it
// (the longest-waiting one first), so that small gangs do not starve a large one.

#ifndef LCAB_COORDINATOR_SCHEDULER_H_
#define LCAB_COORDINATOR_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace lcab::coordinator {

struct DeviceView {
  std::string id;
  std::string kind;   // "cpu"
  std::string model;  // a gang's devices are all of one kind and model
  bool busy = false;
};

struct WorkerView {
  std::string id;
  bool draining = false;
  std::vector<DeviceView> devices;
  // Those that run on each kind of device.
  std::map<std::string, std::set<std::string>> kernels;
};

struct WaitingCohort {
  int64_t id = 0;
  int64_t job = 0;
  std::string submitter;
  absl::Time since;
  int devices = 1;
  struct Trial {
    int position = 0;
    std::string kernel;
  };
  std::vector<Trial> trials;  // pending ones
  // Where an attempt failed for reasons of the worker's: used only when no other can ever run it.
  std::set<std::string> avoid;
};

struct RunningAssignment {
  int64_t id = 0;
  int64_t job = 0;
  std::string submitter;
  int devices = 1;
  bool stopping = false;
  // Of one that is stopping; InfiniteFuture: its workers' word is waited for.
  absl::Time stop_by = absl::InfiniteFuture();
  // Its trials' own limits should have ended it by then.
  absl::Time overdue = absl::InfiniteFuture();
};

struct ScheduleState {
  std::vector<WorkerView> workers;  // connected ones
  std::vector<WaitingCohort> waiting;
  std::vector<RunningAssignment> running;
  // When each worker that holds or held part of an assignment was last heard of.
  std::map<std::string, absl::Time> heard;
};

struct ScheduleOptions {
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  absl::Duration reserve_after = absl::Seconds(30);
};

struct Placement {
  int64_t cohort = 0;
  // Positions of the trials to run: all pending ones, or those that these workers offer kernels
  // for.
  std::vector<int> trials;
  struct Device {
    std::string worker;
    std::string id;
  };
  // In rank order: devices of one worker are neighbours.
  std::vector<Device> devices;
};

struct ScheduleDecisions {
  std::vector<std::string> lost;  // workers
  std::vector<int64_t> stop;      // assignments that are overdue
  std::vector<int64_t> close;     // assignments whose workers were waited for long enough
  std::vector<int64_t> give_up;   // those whose workers' word would be waited for for ever
  std::vector<Placement> placements;
  // Why nothing new of a job runs, in words; only jobs with cohorts that wait.
  std::map<int64_t, std::string> reasons;
};

ScheduleDecisions Schedule(const ScheduleState& state, absl::Time now,
                           const ScheduleOptions& options);

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_SCHEDULER_H_
