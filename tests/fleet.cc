#include "tests/fleet.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/time/clock.h"
#include "client/event_stream.h"
#include "client/follow.h"
#include "grpcpp/support/sync_stream.h"
#include "gtest/gtest.h"
#include "lcab/v1/fleet.pb.h"
#include "worker/file_descriptor.h"

namespace lcab::tests {
namespace {

std::string ProgramFolder() {
  const char* folder = std::getenv("LCAB_BIN_DIR");
  return folder == nullptr ? "build/release/bin" : folder;
}

std::string Program(const std::string& name) { return fmt::format("{}/{}", ProgramFolder(), name); }

// Its output goes to the file.
std::unique_ptr<worker::ChildProcess> Start(const std::string& program,
                                            const std::vector<std::string>& words,
                                            const std::string& path) {
  const worker::FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  auto process = worker::ChildProcess::Spawn(
      {.program = program, .arguments = words, .output_fd = file.get()});
  EXPECT_TRUE(process.ok()) << process.status();
  return process.ok() ? *std::move(process) : nullptr;
}

// The number behind "PPid:" in /proc/PID/status; 0 where there is no such process.
pid_t ParentOf(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("PPid:", 0) == 0) return std::atoi(line.c_str() + 5);
  }
  return 0;
}

}  // namespace

bool Eventually(const std::function<bool()>& condition, absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  std::mutex mutex;
  std::condition_variable never;
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    std::unique_lock lock(mutex);
    never.wait_for(lock, std::chrono::milliseconds(20));
  }
  return true;
}

int CodeOf(worker::ChildProcess& process) {
  const auto end = process.Reap(absl::Now() + kPatience);
  if (!end.ok()) {
    ADD_FAILURE() << end.status();
    return -1000;
  }
  return end->signal != 0 ? -end->signal : end->exit_code;
}

Fleet::Fleet() {
  folder_ = testing::TempDir() + "/lcab-fleet-XXXXXX";
  if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
  link_ = std::make_unique<client::CoordinatorLink>(address());
}

Fleet::~Fleet() {
  if (testing::Test::HasFailure() || std::getenv("LCAB_FLEET_LOGS") != nullptr) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().extension() != ".log") continue;
      fmt::print(stderr, "--- {}\n{}\n", entry.path().filename().string(),
                 Read(entry.path().filename()));
    }
  }
  for (auto& [name, worker] : workers_) worker->Signal(SIGKILL);
  if (coordinator_ != nullptr) coordinator_->Signal(SIGKILL);
  workers_.clear();
  coordinator_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string Fleet::address() const { return "unix:" + folder_ + "/socket"; }

std::unique_ptr<worker::ChildProcess> Fleet::StartProgram(const std::string& program,
                                                          const std::vector<std::string>& words,
                                                          const std::string& output) {
  return Start(Program(program), words, folder_ + "/" + output);
}

std::unique_ptr<worker::ChildProcess> Fleet::StartShell(const std::string& line,
                                                        const std::string& output) {
  setenv("LCAB_PROGRAMS", ProgramFolder().c_str(), 1);
  return Start("/bin/sh", {"-c", line}, folder_ + "/" + output);
}

void Fleet::StartCoordinator(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"--listen", address(), "--db", db(), "--metrics-listen", ""};
  words.insert(words.end(), flags.begin(), flags.end());
  coordinator_ = StartProgram("lcab-coordinator", words, "coordinator.log");
  EXPECT_TRUE(link_->WaitForConnection(kPatience)) << "the coordinator does not answer";
}

void Fleet::StartWorker(const std::string& name, int slots, const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"--coordinator",    address(),
                                    "--name",           name,
                                    "--cpu-slots",      std::to_string(slots),
                                    "--state-dir",      folder_ + "/state-" + name,
                                    "--metrics-listen", ""};
  words.insert(words.end(), flags.begin(), flags.end());
  workers_[name] = StartProgram("lcab-worker", words, name + ".log");
  if (coordinator_ == nullptr) return;
  EXPECT_TRUE(Eventually([&] {
    v1::ListWorkersResponse response;
    const absl::Status status = link_->Call([&](grpc::ClientContext* context) {
      return link_->fleet().ListWorkers(context, {}, &response);
    });
    for (const v1::Worker& worker : response.workers()) {
      if (worker.name() == "workers/" + name && worker.state() == v1::WORKER_STATE_CONNECTED) {
        return true;
      }
    }
    return false;
  })) << name
      << " does not connect";
}

void Fleet::SetVariable(const std::string& name, const std::string& value) {
  setenv(name.c_str(), value.c_str(), 1);
}

void Fleet::KillCoordinator() {
  coordinator_->Signal(SIGKILL);
  EXPECT_EQ(CodeOf(*coordinator_), -SIGKILL);
}

void Fleet::KillWorker(const std::string& name) {
  const std::vector<pid_t> runners = RunnersOf(name);
  workers_.at(name)->Signal(SIGKILL);
  EXPECT_EQ(CodeOf(*workers_.at(name)), -SIGKILL);
  // None of its runners outlives it. (A zombie that init has yet to reap is no process any more.)
  EXPECT_TRUE(Eventually([&] {
    return std::none_of(runners.begin(), runners.end(), [](pid_t pid) { return IsAlive(pid); });
  })) << "runners outlive their worker";
}

bool Fleet::IsAlive(pid_t process) { return ParentOf(std::to_string(process)) > 1; }

std::vector<pid_t> Fleet::RunnersOf(const std::string& worker) const {
  return ChildrenOf(workers_.at(worker)->pid());
}

std::vector<pid_t> Fleet::ChildrenOf(pid_t parent) {
  std::vector<pid_t> runners;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    if (!std::all_of(pid.begin(), pid.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    if (ParentOf(pid) == parent) runners.push_back(std::atoi(pid.c_str()));
  }
  std::sort(runners.begin(), runners.end());
  return runners;
}

std::string Fleet::Suite(const std::string& matrices, const std::string& measure) {
  return fmt::format(
      "name: test\nseed: 7\nmeasure: {}\nmatrices:\n{}\n",
      measure.empty() ? "{min_samples: 2, max_samples: 4, max_time: 50ms, warmup: 1, timeout: 60s}"
                      : measure,
      matrices);
}

std::string Fleet::Submit(const std::string& suite) {
  v1::SubmitJobRequest request;
  request.set_suite_text(suite);
  request.set_file_name("test.yaml");
  v1::Job job;
  const absl::Status status = link_->Call([&](grpc::ClientContext* context) {
    return link_->jobs().SubmitJob(context, request, &job);
  });
  EXPECT_TRUE(status.ok()) << status;
  return job.name();
}

v1::JobEvent Fleet::WaitForEvent(const std::string& job, const Predicate& predicate) {
  client::EventStream events(*link_, job, 0, kPatience);
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline && !events.over()) {
    const std::optional<v1::JobEvent> event = events.Next(absl::Milliseconds(200));
    if (event.has_value() && predicate(*event)) return *event;
  }
  ADD_FAILURE() << "an event of " << job << " did not come: " << events.status();
  return {};
}

v1::Job Fleet::GetJob(const std::string& job) {
  v1::GetJobRequest request;
  request.set_name(job);
  v1::Job result;
  const absl::Status status = link_->Call([&](grpc::ClientContext* context) {
    return link_->jobs().GetJob(context, request, &result);
  });
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

v1::Job Fleet::WaitForEnd(const std::string& job, absl::Duration patience) {
  client::EventStream events(*link_, job, 0, patience);
  const absl::Time deadline = absl::Now() + patience;
  while (absl::Now() < deadline && !events.over()) events.Next(absl::Milliseconds(200));
  EXPECT_TRUE(events.over()) << job << " does not end: " << GetJob(job).DebugString();
  return GetJob(job);
}

absl::Status Fleet::Cancel(const std::string& job) {
  v1::CancelJobRequest request;
  request.set_name(job);
  return link_->Call([&](grpc::ClientContext* context) {
    v1::Job response;
    return link_->jobs().CancelJob(context, request, &response);
  });
}

std::vector<v1::Trial> Fleet::Trials(const std::string& job) {
  const auto trials = client::ListTrials(*link_, job);
  EXPECT_TRUE(trials.ok()) << trials.status();
  return trials.ok() ? *trials : std::vector<v1::Trial>();
}

std::string Fleet::Log(const std::string& trial) {
  v1::GetTrialLogsRequest request;
  request.set_name(trial);
  std::string text;
  const absl::Status status = link_->Call([&](grpc::ClientContext* context) {
    const auto reader = link_->jobs().GetTrialLogs(context, request);
    v1::LogChunk chunk;
    while (reader->Read(&chunk)) text += chunk.text();
    return reader->Finish();
  });
  EXPECT_TRUE(status.ok()) << status;
  return text;
}

ClientResult Fleet::Client(const std::vector<std::string>& words) {
  const std::string output = fmt::format("client-{}.out", ++outputs_);
  const std::unique_ptr<worker::ChildProcess> process = StartClient(words, output);
  const int code = process == nullptr ? -1 : CodeOf(*process);
  return {code, Read(output)};
}

std::unique_ptr<worker::ChildProcess> Fleet::StartClient(const std::vector<std::string>& words,
                                                         const std::string& output) {
  return StartProgram("lcab-client", words, output);
}

std::string Fleet::Read(const std::string& file) const {
  std::ifstream stream(folder_ + "/" + file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string Fleet::Write(const std::string& file, const std::string& text) const {
  std::string path = folder_ + "/" + file;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace lcab::tests
