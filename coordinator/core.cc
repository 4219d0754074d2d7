#include "coordinator/core.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/time/clock.h"
#include "coordinator/job_table.h"
#include "coordinator/placing.h"
#include "coordinator/worker_table.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"
#include "suites/enum_names.h"

namespace lcab::coordinator {
namespace {

// Without anything new a round is due this often, for what only time brings about.
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);
// Rounds take at most a fifth of the writer's time.
constexpr int kPauseFactor = 4;
// How long a worker that left stays in the metrics.
constexpr absl::Duration kLeftFor = absl::Minutes(15);
// The scheduler's pulse is missing after this long.
constexpr absl::Duration kPulseTimeout = absl::Minutes(2);

struct Carrier {
  Fleet& fleet;
  service::RendezvousTable& rendezvous;
  Metrics& metrics;

  void operator()(const SendToWorker& send) const {
    // One that is not connected learns at its next hello what it is to stop.
    if (!fleet.Send(send.worker, send.message)) {
      spdlog::debug("message for a worker that is away worker={}", send.worker);
    }
  }
  void operator()(const OpenRendezvous& open) const { rendezvous.Open(open.assignment); }
  void operator()(const AbortRendezvous& abort) const {
    spdlog::info("assignment stopping assignment={} reason=\"{}\"", abort.assignment, abort.reason);
    rendezvous.Abort(abort.assignment, abort.reason);
  }
  void operator()(const CloseRendezvous& close) const {
    spdlog::info("assignment closed assignment={}", close.assignment);
    rendezvous.Close(close.assignment);
  }
  void operator()(const TrialEnded& ended) const {
    metrics.Count(ended);
    spdlog::info("trial ended trial={} kernel={} strategy={} outcome={} reason=\"{}\"", ended.trial,
                 ended.kernel, ended.strategy, suites::Name(ended.result.outcome()),
                 ended.result.reason());
  }
  void operator()(const AttemptEnded& ended) const {
    metrics.Count(ended);
    if (ended.outcome == v1::OUTCOME_OK) return;
    spdlog::info("attempt ended trial={} attempt={} outcome={} fault={} counted={} reason=\"{}\"",
                 ended.trial, ended.number, suites::Name(ended.outcome), suites::Name(ended.fault),
                 ended.counted, ended.reason);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Core>> Core::Open(const std::string& path, CoreOptions options) {
  if (!options.now) options.now = [] { return absl::Now(); };
  auto store = options.read_only ? Store::OpenReadOnly(path) : Store::Open(path);
  if (!store.ok()) return store.status();
  std::unique_ptr<Core> core(new Core(*std::move(store), std::move(options)));
  if (absl::Status status = core->Recover(); !status.ok()) return status;
  return core;
}

Core::Core(std::unique_ptr<Store> store, CoreOptions options)
    : options_(std::move(options)),
      fleet_(options_.heartbeat_timeout),
      metrics_(std::make_shared<Metrics>()),
      started_(options_.now()),
      last_tick_(started_),
      store_(std::move(store)) {
  metrics_->SetSnapshot([this] { return TakeSnapshot(); });
}

Core::~Core() {
  Stop();
  metrics_->SetSnapshot(nullptr);
}

// What was running when the process ended is taken up where the store has it: workers that come
// back in time go on, the others are lost by the scheduler.
absl::Status Core::Recover() {
  int64_t running = 0;
  absl::Status status = Read([&](Connection& db) {
    for (const std::string& assignment : AssignmentsThatMeet(db)) {
      rendezvous_.Open(assignment);
      ++running;
    }
    return absl::OkStatus();
  });
  spdlog::info("store opened path={} running_assignments={}", store_->path(), running);
  return status;
}

absl::Status Core::Change(const std::function<absl::Status(Step&)>& change,
                          std::function<void()> committed) {
  // Shared: when the store gives a change up, its caller may be gone before it is destroyed.
  auto effects = std::make_shared<Effects>();
  return store_->Write(
      [this, &change, effects](Connection& db) {
        *effects = {};
        Step step{db, Now(), options_.max_attempts, options_.grace, *effects};
        return change(step);
      },
      [this, effects, committed = std::move(committed)] {
        CarryOut(*effects);
        if (committed) committed();
      });
}

void Core::CarryOut(const Effects& effects) {
  const Carrier carrier{fleet_, rendezvous_, *metrics_};
  for (const auto& action : effects.actions) std::visit(carrier, action);
  news_.Publish(effects.jobs);
  if (!effects.schedule) return;
  const std::lock_guard lock(mutex_);
  schedule_wanted_ = true;
  wanted_.notify_all();
}

void Core::Start() {
  scheduler_ = std::thread([this] { RunScheduler(); });
}

void Core::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted_.notify_all();
  }
  news_.Close();
  fleet_.CancelAll();
  if (scheduler_.joinable()) scheduler_.join();
}

void Core::RunScheduler() {
  while (true) {
    const absl::Time begin = absl::Now();
    Tick();
    const absl::Duration took = absl::Now() - begin;
    std::unique_lock lock(mutex_);
    // First the share of time that belongs to others, then until there is something to decide.
    wanted_.wait_for(lock, absl::ToChronoMilliseconds(kPauseFactor * took),
                     [this] { return stopping_.load(); });
    wanted_.wait_for(lock, absl::ToChronoMilliseconds(kLongestPause),
                     [this] { return stopping_ || schedule_wanted_; });
    if (stopping_) return;
  }
}

bool Core::StoreWorks() {
  const absl::Status status = store_->Health().ok() ? absl::OkStatus() : store_->Probe();
  if (status.ok() != store_failing_) return status.ok();
  store_failing_ = !status.ok();
  if (store_failing_) {
    spdlog::error("store failed; no work is handed out until it can be written error=\"{}\"",
                  std::string_view(status.message().data(), status.message().size()));
  } else {
    spdlog::info("store can be written again path={}", store_->path());
  }
  if (options_.health_changed) options_.health_changed(!store_failing_);
  return status.ok();
}

void Core::Tick() {
  const absl::Time now = Now();
  const absl::Time begin = absl::Now();
  absl::Time started;
  {
    const std::lock_guard lock(mutex_);
    schedule_wanted_ = false;
    if (now - last_tick_ > options_.heartbeat_timeout / 2) {
      // This process stood still (a suspended machine, a disk that hung), and heard nobody.
      spdlog::warn("scheduler stood still seconds={}", absl::ToDoubleSeconds(now - last_tick_));
      fleet_.HearAll(now);
      started_ = now;
    }
    last_tick_ = now;
    started = started_;
  }
  rendezvous_.Expire(now);
  fleet_.Sweep(now);
  if (!StoreWorks()) return;
  auto decisions = std::make_shared<ScheduleDecisions>();
  const absl::Status status = Change(
      [this, now, started, decisions](Step& step) {
        const ScheduleState state =
            LoadScheduleState(step.db, fleet_.Workers(), fleet_.Heard(now), started);
        *decisions = Schedule(state, now, {.heartbeat_timeout = options_.heartbeat_timeout});
        Apply(step, *decisions);
        return absl::OkStatus();
      },
      [this, decisions] {
        const std::lock_guard lock(mutex_);
        reasons_ = std::move(decisions->reasons);
      });
  if (!status.ok()) {
    spdlog::error("scheduling failed error=\"{}\"",
                  std::string_view(status.message().data(), status.message().size()));
    return;
  }
  metrics_->ObserveSchedule(absl::Now() - begin);
  pulse_ = absl::ToUnixSeconds(absl::Now());
}

std::string Core::WaitingReason(int64_t job) const {
  const std::lock_guard lock(mutex_);
  const auto found = reasons_.find(job);
  return found == reasons_.end() ? "" : found->second;
}

absl::Status Core::Health() const {
  if (absl::Status status = store_->Health(); !status.ok()) return status;
  const int64_t pulse = pulse_;
  if (pulse != 0 && absl::Now() - absl::FromUnixSeconds(pulse) > kPulseTimeout) {
    return absl::UnavailableError("the scheduler has not finished a round for two minutes");
  }
  return absl::OkStatus();
}

MetricsSnapshot Core::TakeSnapshot() {
  MetricsSnapshot snapshot;
  std::map<std::string, MetricsSnapshot::WorkerState> workers;
  const absl::Status status = Read([&](Connection& db) {
    for (const char* state : {"queued", "running", "cancelling"}) snapshot.jobs[state] = 0;
    for (Rows rows = db.Query("SELECT state, COUNT(*), SUM(pending), SUM(running) FROM jobs WHERE "
                              "state IN (1, 2, 6) GROUP BY state");
         rows.Next();) {
      snapshot.jobs[std::string(Name(static_cast<JobState>(rows.Int(0))))] = rows.Int(1);
      snapshot.trials["pending"] += rows.Int(2);
      snapshot.trials["running"] += rows.Int(3);
    }
    snapshot.trials.try_emplace("pending", 0);
    snapshot.trials.try_emplace("running", 0);
    for (const WorkerView& view : WithUse(db, fleet_.Workers())) {
      MetricsSnapshot::WorkerState& worker = workers[view.id];
      worker.connected = true;
      worker.draining = view.draining;
      for (const DeviceView& device : view.devices) {
        ++worker.devices[device.model];
        if (device.busy) ++worker.busy_devices[device.model];
      }
    }
    return absl::OkStatus();
  });
  if (!status.ok()) {
    spdlog::warn("a scrape could not read the store error=\"{}\"",
                 std::string_view(status.message().data(), status.message().size()));
  }
  const absl::Time now = Now();
  for (const auto& [id, heard] : fleet_.Heard(now)) {
    if (workers.count(id) == 0 && now - heard < kLeftFor) workers[id].connected = false;
  }
  for (auto& [id, worker] : workers) {
    worker.worker = id;
    snapshot.workers.push_back(std::move(worker));
  }
  snapshot.wal_bytes = store_->wal_bytes();
  std::error_code error;
  const auto size = std::filesystem::file_size(store_->path(), error);
  snapshot.database_bytes = error ? 0 : static_cast<int64_t>(size);
  const StoreMetrics store = store_->metrics();
  snapshot.transactions = store.transactions;
  snapshot.changes = store.changes;
  snapshot.failures = store.failures;
  snapshot.writer_busy = store.busy;
  return snapshot;
}

}  // namespace lcab::coordinator
