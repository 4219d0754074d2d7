// A runner for tests of the worker: it speaks runner.proto and does what the names of a cohort's
// kernels tell it, without computing anything.
//
//   ok            a result at once, after a vote of all ranks
//   segv, abort   ends by that signal            exit      exits with code 3
//   kill          ends by SIGKILL                hang      does nothing for ever
//   bad_alloc     an allocation fails            deaf      hangs and ignores the abort
//   print         20 MiB on stderr, one line of 6 MiB in them, then ok
//   close         closes its channel and hangs   garbage   writes bytes that are no message
//   lost_peer     reports that it lost rank 1    fail      reports out_of_memory
//   leave         ends its cohort without a result
//   give_up       reports timed_out and leaves, as one whose kernel hangs
// An option `rank` of the kernel says which rank does so; the others wait for that one at a vote.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "fmt/format.h"
#include "lcab/v1/runner.pb.h"
#include "worker/channel.h"

namespace {

using lcab::worker::Channel;
namespace v1 = lcab::v1;

class FakeRunner {
 public:
  explicit FakeRunner(int fd) : channel_(lcab::worker::FileDescriptor(fd)) {}

  // Returns when the worker asks for it or is gone.
  void Serve() {
    std::thread work;
    while (true) {
      v1::ToRunner message;
      if (!channel_.Read(message, absl::InfiniteFuture()).ok() || message.shutdown()) {
        if (closed_) HangForEver();
        _exit(0);
      }
      if (message.has_run()) {
        if (work.joinable()) work.join();
        {
          const std::lock_guard lock(mutex_);
          aborted_ = false;
        }
        work = std::thread([this, run = message.run()] { RunCohort(run); });
      }
      const std::lock_guard lock(mutex_);
      if (message.has_value()) values_[message.value().request()] = message.value();
      if (message.has_abort()) aborted_ = true;
      changed_.notify_all();
    }
  }

 private:
  void Send(const v1::FromRunner& message) {
    if (!channel_.Write(message, absl::Now() + absl::Seconds(20)).ok()) _exit(1);
  }

  void Complete(int trial, int rank, v1::Outcome outcome, v1::Fault fault, std::string reason) {
    v1::FromRunner message;
    message.mutable_completed()->set_trial(trial);
    v1::TrialResult& result = *message.mutable_completed()->mutable_result();
    result.set_outcome(outcome);
    result.set_fault(fault);
    result.set_reason(std::move(reason));
    result.set_rank(rank);
    Send(message);
  }

  // All ranks meet; false when the attempt was aborted.
  bool Vote(const v1::RunCohort& run, int trial) {
    const auto key = [&](int rank) {
      return fmt::format("{}/{}/{}", run.assignment(), trial, rank);
    };
    v1::FromRunner put;
    put.mutable_put()->set_key(key(run.rank()));
    put.mutable_put()->set_value("ready");
    Send(put);
    for (int rank = 0; rank < run.cohort().ranks(); ++rank) {
      v1::FromRunner get;
      const int64_t request = ++request_;
      get.mutable_get()->set_request(request);
      get.mutable_get()->set_key(key(rank));
      get.mutable_get()->mutable_timeout()->set_seconds(60);
      Send(get);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return aborted_ || values_.count(request) > 0; });
      if (aborted_ || values_[request].value() != "ready") return false;
    }
    return true;
  }

  void WaitForAbort() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return aborted_; });
  }

  [[noreturn]] static void HangForEver() {
    while (true) pause();
  }

  void Fault(const std::string& what, const v1::RunCohort& run, int trial) {
    const int rank = run.rank();
    if (what == "segv" || what == "abort" || what == "kill") {
      fmt::print(stderr, "about to end by {}\n", what);
      std::signal(SIGSEGV, SIG_DFL);  // sanitizers would make an exit code of it
      raise(what == "segv" ? SIGSEGV : what == "abort" ? SIGABRT : SIGKILL);
    }
    if (what == "exit") _exit(3);
    if (what == "bad_alloc") {
      fmt::print(stderr, "terminate called after throwing an instance of 'std::bad_alloc'\n");
      std::abort();
    }
    if (what == "deaf") HangForEver();
    if (what == "close") {
      closed_ = true;
      channel_.Shutdown();
      HangForEver();
    }
    if (what == "garbage") {
      const std::string bytes(16, '\xFF');
      [[maybe_unused]] const ssize_t count = write(channel_.fd(), bytes.data(), bytes.size());
      HangForEver();
    }
    if (what == "hang") WaitForAbort();
    if (what == "fail") {
      Complete(trial, rank, v1::OUTCOME_OUT_OF_MEMORY, v1::FAULT_LIMIT, "8 bytes too many");
    }
    if (what == "give_up") {
      Complete(trial, rank, v1::OUTCOME_TIMED_OUT, v1::FAULT_LIMIT, "it does not return");
      v1::FromRunner done;
      done.mutable_done()->set_discard_reason("a kernel hangs");
      Send(done);
      _exit(3);
    }
    if (what == "lost_peer") {
      Complete(trial, rank, v1::OUTCOME_CRASHED, v1::FAULT_INFRASTRUCTURE, "lost rank 1");
      WaitForAbort();
    }
    if (what == "print") {
      for (int line = 0; line < 14 * 1024; ++line) {
        fmt::print(stderr, "{:06} {}\n", line, std::string(1024 - 8, '.'));
      }
      fmt::print(stderr, "{}\n", std::string((6 << 20) - 1, 'x'));
    }
  }

  // Five iterations of a quarter of a second, or as many as the environment says, in chunks.
  void SendSamples(int trial, int ranks) {
    const char* given = std::getenv("LCAB_FAKE_RUNNER_SAMPLES");
    const int64_t iterations = given == nullptr ? 5 : std::atoll(given);
    constexpr int64_t kChunk = 10'000;
    for (int64_t first = 0; first < iterations; first += kChunk) {
      const int64_t count = std::min(kChunk, iterations - first);
      v1::FromRunner samples;
      samples.mutable_samples()->set_trial(trial);
      v1::SampleChunk& chunk = *samples.mutable_samples()->mutable_chunk();
      chunk.set_first(first);
      chunk.set_ranks(ranks);
      for (int64_t n = 0; n < count * ranks; ++n) chunk.add_seconds(0.25);
      for (int64_t n = 0; n < count; ++n) chunk.add_marks(0);
      Send(samples);
    }
  }

  void RunCohort(const v1::RunCohort& run) {
    bool left = false;
    for (const int trial : run.trials()) {
      const v1::Component& kernel = run.cohort().trials(trial).kernel();
      v1::FromRunner started;
      started.mutable_started()->set_trial(trial);
      Send(started);
      const auto at = kernel.options().find("rank");
      const bool mine = at == kernel.options().end() || at->second.integer_value() == run.rank();
      if (kernel.name() == "leave") left = true;
      if (mine) Fault(kernel.name(), run, trial);
      if (!Vote(run, trial)) break;
      if (run.rank() == 0 && kernel.name() != "fail" && !left) {
        SendSamples(trial, run.cohort().ranks());
        Complete(trial, 0, v1::OUTCOME_OK, v1::FAULT_UNSPECIFIED, "");
      }
    }
    v1::FromRunner done;
    done.mutable_done();
    Send(done);
  }

  Channel channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, v1::RendezvousValue> values_;
  bool aborted_ = false;
  int64_t request_ = 0;
  std::atomic<bool> closed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  for (int n = 1; n + 1 < argc; ++n) {
    if (std::string(argv[n]) == "--fd") FakeRunner(std::atoi(argv[n + 1])).Serve();
  }
  fmt::print(stderr, "usage: {} --fd N\n", argv[0]);
  return 2;
}
