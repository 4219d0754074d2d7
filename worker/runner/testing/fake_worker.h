// The worker's side of runners, for their tests: starts one a rank, as a thread or as a process,
// gives them a cohort, keeps its rendezvous and collects what they say.

#ifndef LCAB_WORKER_RUNNER_TESTING_FAKE_WORKER_H_
#define LCAB_WORKER_RUNNER_TESTING_FAKE_WORKER_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "lcab/v1/runner.pb.h"
#include "lcab/v1/trial.pb.h"
#include "worker/channel.h"

namespace lcab::runner {

struct CohortOutcome {
  std::map<int, v1::TrialResult> results;  // by trial; the first of several
  std::map<int, int> result_rank;          // who reported it
  std::map<int, std::vector<v1::SampleChunk>> samples;
  std::map<int, int> started;                      // by trial: ranks that said so
  std::map<int, std::vector<std::string>> stages;  // of rank 0, in order, without repetition
  std::vector<std::optional<std::string>> done;    // by rank: discard reason
  std::vector<int> exit_status;                    // by rank, of processes that have ended
};

class FakeWorker {
 public:
  enum class Kind { kThreads, kProcesses };
  FakeWorker(int ranks, Kind kind);
  ~FakeWorker();

  // Runs the cohort on all ranks and waits until each is done or gone. `act` is called for each
  // message, in the thread that read it, and may Kill() or Abort().
  using Act = std::function<void(int rank, const v1::FromRunner& message)>;
  CohortOutcome Run(const v1::CohortSpec& cohort,
                    const std::map<std::string, std::string>& hooks = {}, const Act& act = nullptr,
                    int64_t memory_limit_bytes = 0);

  void Kill(int rank, int signal);
  void AbortAll(const std::string& reason);

 private:
  struct Rank;
  struct PendingGet {
    int rank = 0;
    int64_t request = 0;
    std::string key;
    absl::Time expires;
  };

  void Serve(int rank, const Act& act);
  void Handle(int rank, const v1::FromRunner& message);
  void Answer(int rank, int64_t request, const std::string& value, int code,
              const std::string& error);
  void Write(int rank, const v1::ToRunner& message);

  const Kind kind_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::mutex mutex_;
  CohortOutcome outcome_;
  std::map<std::string, std::string> values_;
  std::vector<PendingGet> pending_;
  int attempt_ = 0;
};

// A trial with short limits: cpu_tiled, strategy `single` or `ring` by ranks, full mask.
v1::TrialSpec MakeTrial(int ranks, int64_t seq_len, v1::Pass pass);

}  // namespace lcab::runner

#endif  // LCAB_WORKER_RUNNER_TESTING_FAKE_WORKER_H_
