#include "worker/worker.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "measurement/environment.h"
#include "worker/data_interface.h"
#include "worker/gpus.h"

namespace lcab::worker {
namespace {

constexpr absl::Duration kKeepInterval = absl::Milliseconds(250);
// The keeper does nothing that takes long: this much without a pulse is a hang.
constexpr absl::Duration kPulseLimit = absl::Seconds(30);
// For the last events, when the worker ends.
constexpr absl::Duration kLastFlush = absl::Seconds(3);
// The same for a worker that was asked to stop: without a coordinator, and with one that
// acknowledges nothing.
constexpr absl::Duration kAbsencePatience = absl::Seconds(5);
constexpr absl::Duration kSilencePatience = absl::Seconds(30);
constexpr absl::Duration kDeliverStep = absl::Milliseconds(100);
constexpr absl::Duration kStopTimeout = absl::Seconds(20);

AssignmentOptions MakeAssignmentOptions(const WorkerOptions& options, const StateFolder& state,
                                        const Inventory& inventory,
                                        const v1::Environment& environment) {
  AssignmentOptions result;
  result.worker = "workers/" + state.worker_id();
  result.slots = inventory.slots;
  for (DeviceSlot& slot : result.slots) slot.memory_limit_bytes = options.memory_limit_bytes;
  result.environment = environment;
  result.data_interface = options.data_interface;
  result.test_hooks = options.test_hooks;
  return result;
}

RunnerPoolOptions MakePoolOptions(const WorkerOptions& options) {
  RunnerPoolOptions result{.program = options.runner};
  if (options.allow_test_hooks) result.arguments.emplace_back("--test-hooks");
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(const WorkerOptions& options) {
  if (options.coordinator.empty()) {
    return absl::InvalidArgumentError("a worker needs the address of a coordinator");
  }
  if (!options.test_hooks.empty() && !options.allow_test_hooks) {
    return absl::InvalidArgumentError("test hooks are given but not allowed");
  }
  if (absl::Status status = CheckDataInterface(options.data_interface); !status.ok()) return status;
  if (options.memory_limit_bytes < 0) {
    return absl::InvalidArgumentError(
        fmt::format("--memory-limit is a number of bytes from 0 (no limit), not {}",
                    options.memory_limit_bytes));
  }
  if (access(options.runner.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        fmt::format("the runner {} cannot be used: {}; say where lcab-runner is with --runner",
                    options.runner, std::strerror(errno)));
  }
  const v1::Environment environment = measurement::ReadEnvironment(nullptr);
  absl::StatusOr<Inventory> inventory = DivideCpus(UsableCpus(), options.cpu_slots, environment);
  if (!inventory.ok()) return inventory.status();
  if (options.gpus) {
    // What a GPU's rank does on the host, it does while its GPU waits: it may use all CPUs.
    AddGpus(FindGpus(), UsableCpus().usable, *inventory);
  }
  if (options.state_path.empty()) {
    return absl::InvalidArgumentError(
        "a worker needs a folder for its state: set HOME, or give --state-dir");
  }
  absl::StatusOr<StateFolder> state = StateFolder::Open(options.state_path, options.name);
  if (!state.ok()) return state.status();
  std::string incarnation = MakeIncarnation();
  absl::StatusOr<std::unique_ptr<Outbox>> outbox =
      Outbox::Open(state->path() + "/outbox", incarnation);
  if (!outbox.ok()) return outbox.status();
  if ((*outbox)->dropped_bytes() > 0) {
    spdlog::warn("dropped the damaged end of the unacknowledged events bytes={}",
                 (*outbox)->dropped_bytes());
  }
  std::unique_ptr<Worker> worker(new Worker(options, *std::move(state), *std::move(inventory),
                                            environment, *std::move(outbox),
                                            std::move(incarnation)));
  SessionHandler& handler = *worker;
  worker->session_ = std::make_unique<Session>(SessionOptions{.coordinator = options.coordinator},
                                               *worker->outbox_, handler);
  worker->session_->Start();
  worker->keeper_ = std::thread([raw = worker.get()] { raw->Keep(); });
  spdlog::info("worker started name=workers/{} devices={} coordinator={} unacknowledged={}",
               worker->id(), worker->devices().size(), options.coordinator,
               worker->outbox_->unacknowledged());
  return worker;
}

Worker::Worker(const WorkerOptions& options, StateFolder state, Inventory inventory,
               const v1::Environment& environment, std::unique_ptr<Outbox> outbox,
               std::string incarnation)
    : state_(std::move(state)),
      inventory_(std::move(inventory)),
      incarnation_(std::move(incarnation)),
      assignment_options_(MakeAssignmentOptions(options, state_, inventory_, environment)),
      outbox_(std::move(outbox)),
      pool_(MakePoolOptions(options)),
      pulse_(absl::ToUnixNanos(absl::Now())) {}

Worker::~Worker() {
  Drain();
  AbortAll("the worker is stopping");
  WaitUntilIdle(absl::Now() + kStopTimeout);
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  keeper_.join();
  assignments_.clear();  // waits for those that were left
  session_->Flush(absl::Now() + (session_->connected() ? kLastFlush : absl::ZeroDuration()));
  session_.reset();
}

void Worker::Drain() {
  if (draining_.exchange(true)) return;
  spdlog::info("draining: nothing new is taken");
  session_->Heartbeat();
}

bool Worker::WaitUntilIdle(absl::Time deadline) {
  return WaitUntilFinished(deadline) &&
         session_->Flush(std::min(deadline, absl::Now() + kLastFlush));
}

bool Worker::WaitUntilFinished(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, absl::ToChronoTime(deadline),
                             [this] { return assignments_.empty(); });
}

int64_t Worker::Deliver(const std::function<bool()>& give_up) {
  int64_t left = outbox_->unacknowledged();
  absl::Time acknowledged = absl::Now();
  absl::Time connected = absl::Now();
  while (!session_->Flush(absl::Now() + kDeliverStep) && !give_up()) {
    const absl::Time now = absl::Now();
    if (const int64_t count = outbox_->unacknowledged(); count < left) {
      left = count;
      acknowledged = now;
    }
    if (session_->connected()) connected = now;
    if (now > connected + kAbsencePatience || now > acknowledged + kSilencePatience) break;
  }
  return outbox_->kept();
}

void Worker::AbortAll(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, assignment] : assignments_) assignment->Abort(reason);
}

absl::Status Worker::Health() const {
  const absl::Duration since = absl::Now() - absl::FromUnixNanos(pulse_);
  if (since < kPulseLimit) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("the worker's main loop has stood still for {}", absl::FormatDuration(since)));
}

v1::Hello Worker::MakeHello() {
  v1::Hello hello;
  hello.set_protocol(1);
  hello.set_worker_id(id());
  hello.set_incarnation(incarnation_);
  for (const v1::Device& device : inventory_.devices) *hello.add_devices() = device;
  for (const v1::KernelInfo& kernel : Catalogue()) *hello.add_kernels() = kernel;
  *hello.mutable_environment() = assignment_options_.environment;
  hello.set_data_address(assignment_options_.data_interface);
  for (const std::string& note : inventory_.notes) hello.add_notes(note);
  const std::lock_guard lock(names_mutex_);
  for (const std::string& name : names_) hello.add_assignments(name);
  return hello;
}

v1::Heartbeat Worker::MakeHeartbeat() {
  v1::Heartbeat heartbeat;
  heartbeat.set_draining(draining_);
  const std::lock_guard lock(names_mutex_);
  for (const std::string& name : names_) heartbeat.add_assignments(name);
  return heartbeat;
}

void Worker::OnWelcome(const v1::Welcome& welcome) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : welcome.abandon()) {
    const auto found = assignments_.find(name);
    if (found != assignments_.end()) {
      found->second->Abort("the coordinator has given this assignment up");
    }
  }
  for (const auto& [name, assignment] : assignments_) assignment->Resend();
}

void Worker::OnDisconnect() {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, assignment] : assignments_) assignment->Disconnect();
}

void Worker::OnMessage(const v1::ToWorker& message) {
  switch (message.message_case()) {
    case v1::ToWorker::kAssign:
      Take(message.assign());
      break;
    case v1::ToWorker::kCancel: {
      const std::lock_guard lock(mutex_);
      const auto found = assignments_.find(message.cancel().assignment());
      if (found != assignments_.end()) found->second->Abort(message.cancel().reason());
      break;
    }
    case v1::ToWorker::kValue: {
      const std::lock_guard lock(mutex_);
      const auto found = assignments_.find(message.value().assignment());
      if (found != assignments_.end()) found->second->Deliver(message.value());
      break;
    }
    case v1::ToWorker::kDrain:
      spdlog::info("the coordinator {}",
                   message.drain() ? "drains this worker" : "gives this worker work again");
      break;
    default:
      break;
  }
}

void Worker::Take(const v1::Assign& assign) {
  const std::string& name = assign.assignment();
  if (draining_) {
    Refuse(assign, "the worker is stopping and takes nothing new");
    return;
  }
  {
    const std::lock_guard lock(names_mutex_);
    if (!names_.insert(name).second) return;  // sent twice
  }
  spdlog::info("assigned assignment={} job={} trials={} ranks={}/{}", name, assign.job(),
               assign.trials_size(), assign.placements_size(), assign.cohort().ranks());
  const std::lock_guard lock(mutex_);
  // One of that name that has ended and was not removed yet.
  assignments_.erase(name);
  AssignmentListener& listener = *this;
  assignments_[name] =
      std::make_unique<Assignment>(assign, assignment_options_, pool_, leases_, listener);
}

void Worker::Refuse(const v1::Assign& assign, std::string_view reason) {
  v1::AssignmentEvent event;
  event.set_assignment(assign.assignment());
  event.mutable_ended()->set_reason(std::string(reason));
  event.mutable_ended()->set_fault(v1::FAULT_INFRASTRUCTURE);
  OnEvent(std::move(event));
}

void Worker::OnEvent(v1::AssignmentEvent event) {
  if (event.has_trial_ended()) metrics_.CountTrial(event.trial_ended().result().outcome());
  const std::string ended = event.has_ended() ? event.assignment() : std::string();
  if (absl::Status status = outbox_->Add(std::move(event)); !status.ok()) {
    const absl::string_view message = status.message();
    spdlog::error("an event would not survive a kill of this worker reason=\"{}\"",
                  std::string_view(message.data(), message.size()));
  }
  if (!ended.empty()) {
    // After its end is in the outbox: a heartbeat names it until then.
    const std::lock_guard lock(names_mutex_);
    names_.erase(ended);
  }
  session_->Wake();
}

void Worker::OnRelay(v1::FromWorker message) { session_->Relay(std::move(message)); }

void Worker::OnRunnerDeath(const Verdict& verdict) { metrics_.CountRunnerDeath(verdict.fault); }

void Worker::Keep() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    pulse_ = absl::ToUnixNanos(absl::Now());
    std::vector<std::unique_ptr<Assignment>> finished;
    for (auto entry = assignments_.begin(); entry != assignments_.end();) {
      if (entry->second->finished()) {
        finished.push_back(std::move(entry->second));
        entry = assignments_.erase(entry);
      } else {
        ++entry;
      }
    }
    metrics_.SetAssignments(static_cast<int>(assignments_.size()));
    lock.unlock();
    finished.clear();  // their threads are at their end
    metrics_.SetDevicesHeld(leases_.held());
    metrics_.SetConnected(session_->connected());
    metrics_.SetConnections(session_->connections());
    metrics_.SetStopping(draining_);
    metrics_.SetUnacknowledgedEvents(outbox_->unacknowledged());
    metrics_.SetIdleRunners(pool_.idle());
    metrics_.SetRunnersStarted(pool_.started());
    changed_.notify_all();
    lock.lock();
    changed_.wait_for(lock, absl::ToChronoNanoseconds(kKeepInterval), [this] { return stopping_; });
  }
}

std::string RunnerBesideThisProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string("lcab-runner") : (self.parent_path() / "lcab-runner").string();
}

}  // namespace lcab::worker
