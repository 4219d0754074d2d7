// The real programs, started and killed by tests: a coordinator, workers, clients. Everything lives
// in a folder of its own and ends with the fleet.
//
//   Fleet fleet;
//   fleet.StartCoordinator();
//   fleet.StartWorker("w1", 2);
//   const std::string job = fleet.Submit("...");
//   EXPECT_EQ(fleet.WaitForEnd(job).state(), v1::JOB_STATE_SUCCEEDED);

#ifndef LCAB_TESTS_FLEET_H_
#define LCAB_TESTS_FLEET_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/coordinator_link.h"
#include "lcab/v1/jobs.pb.h"
#include "worker/child_process.h"

namespace lcab::tests {

// How long anything may take before a test calls it stuck, on a machine that is busy otherwise.
inline constexpr absl::Duration kPatience = absl::Seconds(90);

// What a program printed and how it ended.
struct ClientResult {
  int code = -1;
  std::string out;  // standard output and error together
};

class Fleet {
 public:
  Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;
  ~Fleet();

  const std::string& folder() const { return folder_; }
  std::string db() const { return folder_ + "/lcab.db"; }
  // "unix:..."
  std::string address() const;
  client::CoordinatorLink& link() { return *link_; }

  // Starts it and waits until it answers. Started again, it takes over the same database.
  void StartCoordinator(const std::vector<std::string>& flags = {});
  // Starts a worker and waits until it is connected (unless there is no coordinator).
  void StartWorker(const std::string& name, int slots, const std::vector<std::string>& flags = {});
  // Variables for the programs that are started from now on.
  void SetVariable(const std::string& name, const std::string& value);

  worker::ChildProcess& coordinator() { return *coordinator_; }
  worker::ChildProcess& worker(const std::string& name) { return *workers_.at(name); }
  // SIGKILL, and waits until it is gone.
  void KillCoordinator();
  void KillWorker(const std::string& name);
  // Processes of lcab-runner (or what stands in for it) whose parent is that worker, oldest first.
  std::vector<pid_t> RunnersOf(const std::string& worker) const;
  static std::vector<pid_t> ChildrenOf(pid_t parent);
  // A zombie that init has yet to reap is not.
  static bool IsAlive(pid_t process);

  // A suite with these matrices, as YAML, measured briefly.
  static std::string Suite(const std::string& matrices, const std::string& measure = "");
  std::string Submit(const std::string& suite);
  // The job once it has ended. Fails the test when it does not.
  v1::Job WaitForEnd(const std::string& job, absl::Duration patience = kPatience);
  // The first event that the predicate takes.
  using Predicate = std::function<bool(const v1::JobEvent&)>;
  v1::JobEvent WaitForEvent(const std::string& job, const Predicate& predicate);
  v1::Job GetJob(const std::string& job);
  absl::Status Cancel(const std::string& job);
  std::vector<v1::Trial> Trials(const std::string& job);
  std::string Log(const std::string& trial);

  // lcab-client with these words, run to its end.
  ClientResult Client(const std::vector<std::string>& words);
  // Started only; `output` is read once it has ended.
  std::unique_ptr<worker::ChildProcess> StartClient(const std::vector<std::string>& words,
                                                    const std::string& output);
  // A line for sh, in which $LCAB_PROGRAMS is the folder of our programs.
  std::unique_ptr<worker::ChildProcess> StartShell(const std::string& line,
                                                   const std::string& output);
  // Any of our programs, with exactly these words; what it prints goes to the file `output`.
  std::unique_ptr<worker::ChildProcess> StartProgram(const std::string& program,
                                                     const std::vector<std::string>& words,
                                                     const std::string& output);
  // Files of the fleet's folder, by name.
  std::string Read(const std::string& file) const;
  std::string Write(const std::string& file, const std::string& text) const;  // returns its path

 private:
  std::string folder_;
  std::unique_ptr<client::CoordinatorLink> link_;
  std::unique_ptr<worker::ChildProcess> coordinator_;
  std::map<std::string, std::unique_ptr<worker::ChildProcess>> workers_;
  int outputs_ = 0;
};

// Waits, asking now and then, until it is so; false when it takes too long.
bool Eventually(const std::function<bool()>& condition, absl::Duration patience = kPatience);

// The program's exit code, or -signal; waits for its end.
int CodeOf(worker::ChildProcess& process);

}  // namespace lcab::tests

#endif  // LCAB_TESTS_FLEET_H_
