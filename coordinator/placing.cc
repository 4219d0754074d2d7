#include "coordinator/placing.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "coordinator/assignment_table.h"
#include "coordinator/endings.h"
#include "coordinator/event_table.h"
#include "coordinator/job_table.h"
#include "coordinator/resource_names.h"
#include "coordinator/trial_table.h"
#include "coordinator/worker_table.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/proto_time.h"

namespace lcab::coordinator {
namespace {

// Of one job, this many cohorts are looked at in one go: enough to fill a fleet, and a job of ten
// thousand does not slow every decision down.
constexpr int kCohortsOfAJob = 32;
// Beyond the sum of its trials' limits, which the worker enforces.
constexpr absl::Duration kOverdueSlack = absl::Minutes(2);

int DevicesOf(int64_t ranks, int64_t ranks_per_device) {
  const int64_t per_device = std::max<int64_t>(ranks_per_device, 1);
  return static_cast<int>((ranks + per_device - 1) / per_device);
}

void LoadWaiting(Connection& db, ScheduleState& state) {
  std::vector<std::pair<int64_t, std::string>> jobs;
  for (Rows rows = db.Query(
           "SELECT id, submitter FROM jobs WHERE id IN (SELECT job_id FROM trials WHERE state = 1) "
           "ORDER BY id");
       rows.Next();) {
    jobs.emplace_back(rows.Int(0), rows.Text(1));
  }
  for (const auto& [job, submitter] : jobs) {
    for (Rows rows = db.Query(
             "SELECT cohort_id, position, kernel, cohorts.ranks, ranks_per_device, waiting_since, "
             "attempts FROM trials JOIN cohorts ON cohorts.id = cohort_id WHERE trials.state = 1 "
             "AND "
             "trials.job_id = ?1 AND cohort_id IN (SELECT DISTINCT cohort_id FROM trials WHERE "
             "state = "
             "1 AND job_id = ?1 ORDER BY cohort_id LIMIT ?2) ORDER BY cohort_id, position",
             {job, kCohortsOfAJob});
         rows.Next();) {
      const int64_t id = rows.Int(0);
      if (state.waiting.empty() || state.waiting.back().id != id) {
        WaitingCohort& cohort = state.waiting.emplace_back();
        cohort.id = id;
        cohort.job = job;
        cohort.submitter = submitter;
        cohort.devices = DevicesOf(rows.Int(3), rows.Int(4));
        cohort.since = rows.Time(5);
      }
      WaitingCohort& cohort = state.waiting.back();
      cohort.trials.push_back({static_cast<int>(rows.Int(1)), rows.Text(2)});
      if (rows.Int(6) > 0 && cohort.avoid.empty()) {
        const std::vector<std::string> failed = WorkersThatFailed(db, id);
        cohort.avoid.insert(failed.begin(), failed.end());
      }
    }
  }
}

}  // namespace

std::vector<WorkerView> WithUse(Connection& db, std::vector<WorkerView> workers) {
  std::set<std::pair<std::string, std::string>> busy;
  for (Rows rows = db.Query(
           "SELECT DISTINCT ranks.worker, device FROM shares JOIN ranks ON ranks.assignment_id = "
           "shares.assignment_id AND ranks.worker = shares.worker WHERE shares.state = 1");
       rows.Next();) {
    busy.emplace(rows.Text(0), rows.Text(1));
  }
  for (WorkerView& worker : workers) {
    worker.draining = worker.draining ||
                      db.QueryInt("SELECT draining FROM workers WHERE id = ?", {worker.id}) != 0;
    for (DeviceView& device : worker.devices) device.busy = busy.count({worker.id, device.id}) > 0;
  }
  return workers;
}

ScheduleState LoadScheduleState(Connection& db, std::vector<WorkerView> workers,
                                const std::map<std::string, absl::Time>& heard,
                                absl::Time started) {
  ScheduleState state;
  state.workers = WithUse(db, std::move(workers));
  for (Rows rows = db.Query("SELECT DISTINCT worker FROM shares WHERE state = 1"); rows.Next();) {
    const auto known = heard.find(rows.Text(0));
    state.heard[rows.Text(0)] = known == heard.end() ? started : std::max(known->second, started);
  }
  for (Rows rows =
           db.Query("SELECT assignments.id, job_id, submitter, devices, assignments.state, "
                    "overdue, stop_by FROM "
                    "assignments JOIN jobs ON jobs.id = job_id WHERE assignments.state IN (1, 2)");
       rows.Next();) {
    RunningAssignment& running = state.running.emplace_back();
    running.id = rows.Int(0);
    running.job = rows.Int(1);
    running.submitter = rows.Text(2);
    running.devices = static_cast<int>(rows.Int(3));
    running.stopping = static_cast<AssignmentState>(rows.Int(4)) == AssignmentState::kStopping;
    running.overdue = rows.Time(5);
    if (!rows.IsNull(6)) running.stop_by = rows.Time(6);
  }
  LoadWaiting(db, state);
  return state;
}

void Claim(Step& step, const Placement& placement) {
  const v1::CohortSpec cohort = LoadCohort(step.db, placement.cohort);
  std::vector<TrialRow> trials = TrialsOfCohort(step.db, placement.cohort);
  if (trials.empty() || placement.devices.empty()) {
    step.db.Fail(absl::InternalError(fmt::format("cohort {} cannot be placed", placement.cohort)));
    return;
  }
  const int64_t job = trials.front().job;
  std::vector<RankRow> ranks;
  const int per_device = std::max(cohort.ranks_per_device(), 1);
  for (int rank = 0; rank < cohort.ranks(); ++rank) {
    const Placement::Device& device = placement.devices.at(rank / per_device);
    ranks.push_back({rank, device.worker, device.id});
  }
  absl::Duration limit = kOverdueSlack;
  for (const int position : placement.trials) {
    limit += FromProto(cohort.trials(position).measure().timeout());
  }
  const AssignmentRow assignment =
      InsertAssignment(step.db, job, placement.cohort, static_cast<int>(placement.devices.size()),
                       ranks, step.now, step.now + limit);

  v1::Assign assign;
  assign.set_assignment(assignment.name);
  *assign.mutable_cohort() = cohort;
  *assign.mutable_grace() = ToProto(step.grace);
  assign.set_job(JobName(job));
  for (const TrialRow& trial : trials) assign.add_trial_indices(trial.number);

  if (GetJobState(step.db, job) == JobState::kQueued) {
    MoveJob(step.db, job, JobState::kQueued, JobState::kRunning, step.now);
  }
  std::vector<std::string> where;
  for (const Placement::Device& device : placement.devices) {
    where.push_back(fmt::format("{} {}", device.worker, device.id));
  }
  for (const int position : placement.trials) {
    TrialRow& trial = trials.at(position);
    MoveTrial(step.db, trial, TrialState::kRunning);
    const AttemptRow attempt =
        InsertAttempt(step.db, trial.id, trial.attempts + 1, assignment.id, step.now);
    assign.add_trials(position);
    assign.add_attempts(attempt.number);
    AppendEvent(step.db, job, &trial,
                fmt::format("attempt {} placed on {}", attempt.number, fmt::join(where, ", ")),
                step.now);
  }
  step.effects.jobs.insert(job);
  step.effects.actions.emplace_back(OpenRendezvous{assignment.name});
  for (const ShareRow& share : SharesOf(step.db, assignment.id)) {
    SendToWorker send{.worker = share.worker};
    *send.message.mutable_assign() = assign;
    for (const RankRow& rank : ranks) {
      if (rank.worker != share.worker) continue;
      v1::Assign::Placement& place = *send.message.mutable_assign()->add_placements();
      place.set_rank(rank.rank);
      place.set_device(rank.device);
    }
    step.effects.actions.emplace_back(std::move(send));
  }
}

void Apply(Step& step, const ScheduleDecisions& decisions) {
  for (const std::string& worker : decisions.lost) {
    for (AssignmentRow& assignment : AssignmentsOnWorker(step.db, worker)) {
      for (const ShareRow& share : SharesOf(step.db, assignment.id)) {
        if (share.worker != worker || share.state != ShareState::kRunning) continue;
        LoseShare(step, assignment, share,
                  fmt::format("worker {} was not heard of in time: see whether it and its network "
                              "are up",
                              worker));
      }
    }
  }
  for (const int64_t id : decisions.stop) {
    auto assignment = FindAssignment(step.db, id);
    if (!assignment.has_value()) continue;
    StopAssignment(step, *assignment, "its workers did not end it within its trials' limits",
                   v1::FAULT_INFRASTRUCTURE, StopDeadline(step));
  }
  for (const int64_t id : decisions.close) {
    auto assignment = FindAssignment(step.db, id);
    if (assignment.has_value()) CloseAssignment(step, *assignment);
  }
  for (const int64_t id : decisions.give_up) {
    auto assignment = FindAssignment(step.db, id);
    if (!assignment.has_value()) continue;
    for (const ShareRow& share : SharesOf(step.db, id)) {
      if (share.state != ShareState::kRunning) continue;
      LoseShare(step, *assignment, share,
                fmt::format("worker {} was told to stop and never said that it had", share.worker));
    }
  }
  for (const Placement& placement : decisions.placements) Claim(step, placement);
  // Of a long job only the next few cohorts were looked at.
  if (!decisions.placements.empty()) step.effects.schedule = true;
}

std::vector<std::string> AssignmentsThatMeet(Connection& db) {
  std::vector<std::string> names;
  for (const AssignmentRow& assignment : LiveAssignments(db, /*job=*/0)) {
    if (assignment.state == AssignmentState::kRunning) names.push_back(assignment.name);
  }
  return names;
}

}  // namespace lcab::coordinator
