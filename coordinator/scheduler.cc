#include "coordinator/scheduler.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace lcab::coordinator {
namespace {

// Devices of one kind and model on one worker.
struct Pool {
  size_t worker = 0;  // index in ScheduleState::workers
  std::vector<std::string> all;
  std::vector<std::string> free;
};

// A way to run a cohort: what of it, and on the pools of one class of devices.
struct Fit {
  std::vector<int> trials;
  std::vector<Pool*> pools;  // which offer all of `trials`
  int capacity = 0;
  int free = 0;
};

class Planner {
 public:
  Planner(const ScheduleState& state, absl::Time now, const ScheduleOptions& options)
      : state_(state), now_(now), options_(options) {
    for (size_t w = 0; w < state.workers.size(); ++w) {
      for (const DeviceView& device : state.workers[w].devices) {
        Class& of = classes_[{device.kind, device.model}];
        if (of.pools.empty() || of.pools.back().worker != w) of.pools.push_back({.worker = w});
        of.pools.back().all.push_back(device.id);
        if (!device.busy) of.pools.back().free.push_back(device.id);
      }
    }
    for (const RunningAssignment& running : state.running) {
      usage_of_submitter_[running.submitter] += running.devices;
      usage_of_job_[running.job] += running.devices;
    }
  }

  void Run(ScheduleDecisions& decisions) {
    Queue();
    while (!turns_.empty()) {
      const Turn turn = *turns_.begin();
      turns_.erase(turns_.begin());
      JobQueue& job = jobs_.at(turn.job);
      const WaitingCohort& cohort = *job.cohorts[job.next++];
      std::optional<Placement> placement = Place(cohort);
      if (placement.has_value()) {
        usage_of_submitter_[cohort.submitter] += cohort.devices;
        usage_of_job_[cohort.job] += cohort.devices;
        decisions.placements.push_back(*std::move(placement));
        Requeue(cohort.submitter);
      } else {
        if (decisions.reasons.count(cohort.job) == 0) {
          decisions.reasons[cohort.job] = ReasonFor(cohort);
        }
        // Behind a full fleet nothing is left to decide but reasons, one for each job.
        if (!AnyFree()) continue;
      }
      if (job.next < job.cohorts.size()) turns_.insert(TurnOf(cohort.submitter, cohort.job));
    }
  }

 private:
  struct Class {
    std::vector<Pool> pools;
    bool reserved = false;
  };
  struct JobQueue {
    std::string submitter;
    std::vector<const WaitingCohort*> cohorts;
    size_t next = 0;
  };
  struct Turn {
    int submitter_usage;
    int job_usage;
    int64_t job;
    auto operator<=>(const Turn&) const = default;
  };

  void Queue() {
    for (const WaitingCohort& cohort : state_.waiting) {
      JobQueue& job = jobs_[cohort.job];
      job.submitter = cohort.submitter;
      job.cohorts.push_back(&cohort);
      jobs_of_submitter_[cohort.submitter].insert(cohort.job);
    }
    for (auto& [id, job] : jobs_) {
      std::stable_sort(job.cohorts.begin(), job.cohorts.end(),
                       [](const auto* a, const auto* b) { return a->id < b->id; });
      turns_.insert(TurnOf(job.submitter, id));
    }
  }

  Turn TurnOf(const std::string& submitter, int64_t job) const {
    const auto usage = [](const auto& map, const auto& key) {
      const auto found = map.find(key);
      return found == map.end() ? 0 : found->second;
    };
    return {usage(usage_of_submitter_, submitter), usage(usage_of_job_, job), job};
  }

  // After the submitter's usage has changed.
  void Requeue(const std::string& submitter) {
    const std::set<int64_t>& jobs = jobs_of_submitter_[submitter];
    for (auto turn = turns_.begin(); turn != turns_.end();) {
      turn = jobs.count(turn->job) > 0 ? turns_.erase(turn) : std::next(turn);
    }
    for (const int64_t job : jobs) {
      if (jobs_[job].next < jobs_[job].cohorts.size()) turns_.insert(TurnOf(submitter, job));
    }
  }

  bool AnyFree() const {
    for (const auto& [key, of] : classes_) {
      for (const Pool& pool : of.pools) {
        if (!pool.free.empty() && !state_.workers[pool.worker].draining) return true;
      }
    }
    return false;
  }

  // The way that runs most of the cohort at once; of equal ones the one with most free devices.
  std::optional<Fit> BestFit(const WaitingCohort& cohort, bool use_avoided) {
    std::optional<Fit> best;
    for (auto& [key, of] : classes_) {
      std::vector<std::pair<Pool*, std::vector<int>>> offers;
      for (Pool& pool : of.pools) {
        const WorkerView& worker = state_.workers[pool.worker];
        if (worker.draining || (!use_avoided && cohort.avoid.count(worker.id) > 0)) continue;
        const auto kernels = worker.kernels.find(key.first);
        if (kernels == worker.kernels.end()) continue;
        std::vector<int> offered;
        for (const WaitingCohort::Trial& trial : cohort.trials) {
          if (kernels->second.count(trial.kernel) > 0) offered.push_back(trial.position);
        }
        if (!offered.empty()) offers.emplace_back(&pool, std::move(offered));
      }
      for (const auto& [ignored, trials] : offers) {
        Fit fit{.trials = trials};
        for (const auto& [pool, offered] : offers) {
          if (!std::includes(offered.begin(), offered.end(), trials.begin(), trials.end()))
            continue;
          fit.pools.push_back(pool);
          fit.capacity += static_cast<int>(pool->all.size());
          fit.free += static_cast<int>(pool->free.size());
        }
        if (fit.capacity < cohort.devices) continue;
        if (!best.has_value() ||
            std::tuple(fit.trials.size(), fit.free) > std::tuple(best->trials.size(), best->free)) {
          best = std::move(fit);
        }
      }
    }
    return best;
  }

  std::optional<Fit> BestFit(const WaitingCohort& cohort) {
    std::optional<Fit> fit = BestFit(cohort, /*use_avoided=*/false);
    return fit.has_value() ? fit : BestFit(cohort, /*use_avoided=*/true);
  }

  std::optional<Placement> Place(const WaitingCohort& cohort) {
    std::optional<Fit> fit = BestFit(cohort);
    if (!fit.has_value()) return std::nullopt;
    if (fit->free < cohort.devices) {
      if (now_ - cohort.since >= options_.reserve_after) Reserve(cohort, *fit);
      return std::nullopt;
    }
    Placement placement{.cohort = cohort.id, .trials = fit->trials};
    for (const auto& [pool, count] : Spread(*fit, cohort.devices)) {
      for (int i = 0; i < count; ++i) {
        placement.devices.push_back({state_.workers[pool->worker].id, pool->free.front()});
        pool->free.erase(pool->free.begin());
      }
    }
    return placement;
  }

  // How many devices of which pools: one pool where one has enough (the one that then has fewest
  // left), else as few as possible, evenly. In order of workers, so that a gang's ranks are
  // grouped.
  static std::vector<std::pair<Pool*, int>> Spread(const Fit& fit, int devices) {
    std::vector<Pool*> pools = fit.pools;
    const auto free = [](const Pool* pool) { return static_cast<int>(pool->free.size()); };
    Pool* tightest = nullptr;
    for (Pool* pool : pools) {
      if (free(pool) >= devices && (tightest == nullptr || free(pool) < free(tightest))) {
        tightest = pool;
      }
    }
    if (tightest != nullptr) return {{tightest, devices}};
    std::stable_sort(pools.begin(), pools.end(),
                     [&](const Pool* a, const Pool* b) { return free(a) > free(b); });
    size_t used = 0;
    for (int sum = 0; sum < devices; ++used) sum += free(pools[used]);
    pools.resize(used);
    std::vector<std::pair<Pool*, int>> spread;
    int left = devices;
    // The emptiest first: what they lack is shared by those that have more.
    for (size_t i = used; i-- > 0;) {
      const int share = (left + static_cast<int>(i)) / static_cast<int>(i + 1);
      const int count = std::min(free(pools[i]), share);
      spread.emplace_back(pools[i], count);
      left -= count;
    }
    std::sort(spread.begin(), spread.end(),
              [](const auto& a, const auto& b) { return a.first->worker < b.first->worker; });
    return spread;
  }

  // Keeps what is free of the devices that the gang will get, those on the fullest pools. One gang
  // at a time for each class, or two could wait for each other.
  void Reserve(const WaitingCohort& cohort, const Fit& fit) {
    for (auto& [key, of] : classes_) {
      const bool here = std::any_of(of.pools.begin(), of.pools.end(),
                                    [&](const Pool& pool) { return &pool == fit.pools.front(); });
      if (!here || std::exchange(of.reserved, true)) continue;
      std::vector<Pool*> pools = fit.pools;
      const auto rank = [&](const Pool* pool) {
        const bool alone = static_cast<int>(pool->all.size()) >= cohort.devices;
        return std::tuple(alone, pool->free.size());
      };
      std::stable_sort(pools.begin(), pools.end(),
                       [&](const Pool* a, const Pool* b) { return rank(a) > rank(b); });
      int needed = cohort.devices;
      for (Pool* pool : pools) {
        if (needed <= 0) break;
        const int kept = std::min(needed, static_cast<int>(pool->all.size()));
        const int taken = std::min(kept, static_cast<int>(pool->free.size()));
        pool->free.erase(pool->free.begin(), pool->free.begin() + taken);
        needed -= kept;
      }
      reserved_for_.insert(cohort.id);
    }
  }

  std::string ReasonFor(const WaitingCohort& cohort) {
    if (state_.workers.empty()) return "no worker is connected";
    std::set<std::string> missing;
    for (const WaitingCohort::Trial& trial : cohort.trials) missing.insert(trial.kernel);
    std::set<std::string> draining;
    for (const WorkerView& worker : state_.workers) {
      for (const auto& [kind, kernels] : worker.kernels) {
        for (const std::string& kernel : kernels) {
          if (missing.count(kernel) == 0) continue;
          if (worker.draining) {
            draining.insert(worker.id);
          } else {
            missing.erase(kernel);
          }
        }
      }
    }
    if (!missing.empty()) {
      if (!draining.empty()) {
        return fmt::format("only draining workers ({}) offer kernel {}", fmt::join(draining, ", "),
                           fmt::join(missing, ", "));
      }
      return fmt::format("no connected worker offers kernel {}", fmt::join(missing, ", "));
    }
    const std::optional<Fit> fit = BestFit(cohort);
    if (!fit.has_value()) {
      return fmt::format(
          "it needs {} devices of one model whose workers offer its kernels; there are at most {}",
          cohort.devices, LargestClass());
    }
    if (reserved_for_.count(cohort.id) > 0) {
      return fmt::format("it needs {} devices at once; those that become free are kept for it",
                         cohort.devices);
    }
    const std::string besides = cohort.avoid.empty() ? ""
                                                     : fmt::format(" besides {}, where it failed",
                                                                   fmt::join(cohort.avoid, ", "));
    return fmt::format("it needs {} {}; {} of {} {} free{}", cohort.devices,
                       cohort.devices == 1 ? "device" : "devices", fit->free, fit->capacity,
                       fit->free == 1 ? "is" : "are", besides);
  }

  int LargestClass() const {
    int largest = 0;
    for (const auto& [key, of] : classes_) {
      int sum = 0;
      for (const Pool& pool : of.pools) {
        if (!state_.workers[pool.worker].draining) sum += static_cast<int>(pool.all.size());
      }
      largest = std::max(largest, sum);
    }
    return largest;
  }

  const ScheduleState& state_;
  const absl::Time now_;
  const ScheduleOptions& options_;
  std::map<std::pair<std::string, std::string>, Class> classes_;  // by kind and model
  std::map<std::string, int> usage_of_submitter_;
  std::map<int64_t, int> usage_of_job_;
  std::map<int64_t, JobQueue> jobs_;
  std::map<std::string, std::set<int64_t>> jobs_of_submitter_;
  std::set<Turn> turns_;
  std::set<int64_t> reserved_for_;
};

}  // namespace

ScheduleDecisions Schedule(const ScheduleState& state, absl::Time now,
                           const ScheduleOptions& options) {
  ScheduleDecisions decisions;
  for (const auto& [worker, heard] : state.heard) {
    if (now - heard > options.heartbeat_timeout) decisions.lost.push_back(worker);
  }
  for (const RunningAssignment& running : state.running) {
    if (running.stopping && running.stop_by <= now) decisions.close.push_back(running.id);
    if (running.overdue > now) continue;
    if (!running.stopping) {
      decisions.stop.push_back(running.id);
    } else if (running.stop_by == absl::InfiniteFuture()) {
      decisions.give_up.push_back(running.id);
    }
  }
  Planner(state, now, options).Run(decisions);
  return decisions;
}

}  // namespace lcab::coordinator
