// A suite that runs on this machine, in a coordinator and a worker inside this program.

#ifndef LCAB_CLIENT_LOCAL_RUN_H_
#define LCAB_CLIENT_LOCAL_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/coordinator_link.h"
#include "client/exit_codes.h"
#include "client/interrupts.h"
#include "client/local_coordinator.h"
#include "client/verb.h"
#include "suites/parse.h"

namespace lcab::client {

// What a verb that runs suites here takes, and the run itself.
class LocalRun {
 public:
  // Where results go, how the machine is divided, what is logged, how rows are printed.
  std::vector<Argument> Arguments();

  // Runs the suite to its end and prints what came of it. An interrupt cancels what has not run
  // yet, a second one stops at once. When the database cannot be written any more, the program ends
  // with kDatabase: what runs would have nowhere to go. With `resume`, the newest job of the same
  // suite in the database goes on, if there is one.
  ExitCode Run(const suites::SuiteSource& source, bool resume, Interrupts& interrupts,
               Console& console);

  const std::string& db() const { return db_; }

 private:
  absl::StatusOr<std::string> FindOrSubmit(CoordinatorLink& link, const suites::SuiteSource& source,
                                           bool resume, const Interrupts& interrupts,
                                           Console& console) const;
  ExitCode FollowJob(const LocalCoordinator& local, CoordinatorLink& link, const std::string& job,
                     Interrupts& interrupts, Console& console) const;

  std::string runner_, output_;
  std::string db_ = "lcab.db";
  std::string log_level_ = "error";
  int64_t cpu_slots_ = 0;
};

}  // namespace lcab::client

#endif  // LCAB_CLIENT_LOCAL_RUN_H_
