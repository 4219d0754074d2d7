#include "worker/runner/testing/fake_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/time/clock.h"
#include "fmt/format.h"
#include "proto/proto_time.h"
#include "worker/runner/connection.h"
#include "worker/runner/run_cohort.h"

namespace lcab::runner {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(120);

std::string RunnerProgram() {
  const char* folder = std::getenv("LCAB_BIN_DIR");
  return fmt::format("{}/lcab-runner", folder == nullptr ? "build/release/bin" : folder);
}

// Between fork and exec only what is safe there.
pid_t StartProcess(const std::string& program, int fd) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (dup2(fd, 3) == 3)
    execl(program.c_str(), program.c_str(), "--fd", "3", "--test-hooks", nullptr);
  _exit(127);
}

// What main() does, in a thread.
void ServeInThread(worker::FileDescriptor socket) {
  Connection connection(std::move(socket));
  WarmState warm;
  warm.test_hooks = true;
  while (std::optional<v1::RunCohort> run = connection.NextCohort()) {
    const std::string discard_reason = RunCohort(*run, connection, warm);
    v1::FromRunner done;
    done.mutable_done()->set_discard_reason(discard_reason);
    if (!connection.Send(done).ok() || !discard_reason.empty()) return;
  }
}

}  // namespace

struct FakeWorker::Rank {
  std::unique_ptr<worker::Channel> channel;
  std::thread runner;
  pid_t pid = -1;
};

FakeWorker::FakeWorker(int ranks, Kind kind) : kind_(kind) {
  for (int rank = 0; rank < ranks; ++rank) {
    auto [ours, theirs] = worker::MakeChannelPair().value();
    auto state = std::make_unique<Rank>();
    state->channel = std::make_unique<worker::Channel>(std::move(ours));
    if (kind == Kind::kThreads) {
      state->runner =
          std::thread([socket = std::move(theirs)]() mutable { ServeInThread(std::move(socket)); });
    } else {
      state->pid = StartProcess(RunnerProgram(), theirs.get());
    }
    ranks_.push_back(std::move(state));
  }
}

FakeWorker::~FakeWorker() {
  for (const auto& rank : ranks_) rank->channel->Shutdown();
  for (const auto& rank : ranks_) {
    if (rank->runner.joinable()) rank->runner.join();
    if (rank->pid > 0) {
      kill(rank->pid, SIGKILL);
      waitpid(rank->pid, nullptr, 0);
    }
  }
}

void FakeWorker::Kill(int rank, int signal) {
  const std::lock_guard lock(mutex_);
  const pid_t pid = ranks_[static_cast<size_t>(rank)]->pid;
  if (pid > 0) kill(pid, signal);  // it may have ended meanwhile
}

void FakeWorker::Write(int rank, const v1::ToRunner& message) {
  ranks_[static_cast<size_t>(rank)]
      ->channel->Write(message, absl::Now() + absl::Seconds(20))
      .IgnoreError();
}

void FakeWorker::AbortAll(const std::string& reason) {
  v1::ToRunner message;
  message.mutable_abort()->set_reason(reason);
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) Write(rank, message);
}

void FakeWorker::Answer(int rank, int64_t request, const std::string& value, int code,
                        const std::string& error) {
  v1::ToRunner message;
  message.mutable_value()->set_request(request);
  message.mutable_value()->set_value(value);
  message.mutable_value()->set_code(code);
  message.mutable_value()->set_error(error);
  Write(rank, message);
}

void FakeWorker::Handle(int rank, const v1::FromRunner& message) {
  const std::lock_guard lock(mutex_);
  if (message.has_put()) {
    values_.emplace(message.put().key(), message.put().value());
    for (const PendingGet& get : pending_) {
      if (get.key == message.put().key()) {
        Answer(get.rank, get.request, message.put().value(), 0, "");
      }
    }
    std::erase_if(pending_, [&](const PendingGet& get) { return get.key == message.put().key(); });
  } else if (message.has_get()) {
    const auto found = values_.find(message.get().key());
    if (found != values_.end()) {
      Answer(rank, message.get().request(), found->second, 0, "");
    } else {
      pending_.push_back({rank, message.get().request(), message.get().key(),
                          absl::Now() + FromProto(message.get().timeout())});
    }
  } else if (message.has_started()) {
    ++outcome_.started[message.started().trial()];
  } else if (message.has_progress() && rank == 0) {
    std::vector<std::string>& stages = outcome_.stages[message.progress().trial()];
    if (stages.empty() || stages.back() != message.progress().stage()) {
      stages.push_back(message.progress().stage());
    }
  } else if (message.has_samples()) {
    outcome_.samples[message.samples().trial()].push_back(message.samples().chunk());
  } else if (message.has_completed()) {
    const int trial = message.completed().trial();
    if (outcome_.results.emplace(trial, message.completed().result()).second) {
      outcome_.result_rank[trial] = rank;
    }
  } else if (message.has_done()) {
    outcome_.done[static_cast<size_t>(rank)] = message.done().discard_reason();
  }
}

void FakeWorker::Serve(int rank, const Act& act) {
  Rank& state = *ranks_[static_cast<size_t>(rank)];
  const absl::Time limit = absl::Now() + kLimit;
  while (absl::Now() < limit) {
    v1::FromRunner message;
    const absl::Status status = state.channel->Read(message, absl::Now() + absl::Milliseconds(20));
    if (absl::IsDeadlineExceeded(status)) {
      const std::lock_guard lock(mutex_);
      for (const PendingGet& get : pending_) {
        if (get.rank == rank && get.expires < absl::Now()) {
          Answer(rank, get.request, "", static_cast<int>(absl::StatusCode::kDeadlineExceeded),
                 "no such key in time");
        }
      }
      std::erase_if(pending_, [&](const PendingGet& get) {
        return get.rank == rank && get.expires < absl::Now();
      });
      continue;
    }
    if (!status.ok()) break;  // it is gone
    Handle(rank, message);
    if (act != nullptr) act(rank, message);
    if (message.has_done()) return;
  }
  if (state.pid > 0) {
    // Its channel is closed, or its time is up: it ends by itself, or now.
    if (absl::Now() >= limit) Kill(rank, SIGKILL);
    // Waited for without being reaped, so that nobody else gets its number before it is forgotten.
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(state.pid), &info, WEXITED | WNOWAIT);
    const std::lock_guard lock(mutex_);
    waitpid(state.pid, &outcome_.exit_status[static_cast<size_t>(rank)], 0);
    state.pid = -1;
  }
}

CohortOutcome FakeWorker::Run(const v1::CohortSpec& cohort,
                              const std::map<std::string, std::string>& hooks, const Act& act,
                              int64_t memory_limit_bytes) {
  outcome_ = CohortOutcome();
  outcome_.done.resize(ranks_.size());
  outcome_.exit_status.assign(ranks_.size(), -1);
  values_.clear();
  pending_.clear();
  ++attempt_;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    v1::ToRunner message;
    v1::RunCohort& run = *message.mutable_run();
    run.set_assignment(fmt::format("assignments/{}", attempt_));
    *run.mutable_cohort() = cohort;
    run.set_rank(rank);
    run.set_threads(1);
    run.set_device_index(rank);
    run.set_memory_limit_bytes(memory_limit_bytes);
    *run.mutable_vote_timeout() = ToProto(absl::Seconds(20));
    run.set_worker("workers/test");
    for (int trial = 0; trial < cohort.trials_size(); ++trial) run.add_trials(trial);
    for (const auto& [name, value] : hooks) (*run.mutable_test_hooks())[name] = value;
    Write(rank, message);
  }
  std::vector<std::thread> readers;
  readers.reserve(ranks_.size());
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    readers.emplace_back([this, rank, &act] { Serve(rank, act); });
  }
  for (std::thread& reader : readers) reader.join();
  return std::move(outcome_);
}

v1::TrialSpec MakeTrial(int ranks, int64_t seq_len, v1::Pass pass) {
  v1::TrialSpec spec;
  v1::Problem& problem = *spec.mutable_problem();
  problem.mutable_softmax();
  problem.set_q_heads(4);
  problem.set_kv_heads(2);
  problem.set_qk_head_dim(32);
  problem.set_v_head_dim(32);
  problem.set_dtype(v1::DTYPE_BF16);
  problem.mutable_mask()->set_name("causal");
  problem.set_q_tokens(seq_len);
  problem.set_k_tokens(seq_len);
  problem.set_seed(1);
  spec.set_pass(pass);
  spec.mutable_kernel()->set_name("cpu_tiled");
  spec.mutable_strategy()->set_name(ranks == 1 ? "single" : "ring");
  spec.set_ranks(ranks);
  spec.set_ranks_per_device(1);
  spec.set_overlap(true);
  v1::Measure& measure = *spec.mutable_measure();
  measure.set_mode(v1::MEASURE_MODE_MEASURE);
  measure.set_warmup(1);
  measure.set_min_samples(6);
  measure.set_max_samples(1000);
  *measure.mutable_max_time() = ToProto(absl::Milliseconds(300));
  measure.set_confidence(0.95);
  measure.set_precision(0.05);
  measure.set_cache(v1::CACHE_WARM);
  measure.set_inputs("normal");
  *measure.mutable_timeout() = ToProto(absl::Seconds(60));
  return spec;
}

}  // namespace lcab::runner
