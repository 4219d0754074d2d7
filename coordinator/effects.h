// What follows from a change of the store and may happen only once it is committed: messages to
// workers, rendezvous to open and close, watchers to wake, metrics to count.

#ifndef LCAB_COORDINATOR_EFFECTS_H_
#define LCAB_COORDINATOR_EFFECTS_H_

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/connection.h"
#include "lcab/v1/fleet.pb.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::coordinator {

struct SendToWorker {
  std::string worker;
  v1::ToWorker message;
};
struct OpenRendezvous {
  std::string assignment;
};
struct AbortRendezvous {
  std::string assignment;
  std::string reason;
};
struct CloseRendezvous {
  std::string assignment;
};
struct TrialEnded {
  std::string trial;
  std::string kernel;
  std::string mask;
  std::string strategy;
  v1::Pass pass = v1::PASS_UNSPECIFIED;
  v1::TrialResult result;
};
struct AttemptEnded {
  std::string trial;
  int number = 0;
  v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED;
  v1::Fault fault = v1::FAULT_UNSPECIFIED;
  bool counted = true;
  std::string reason;
};

struct Effects {
  // In the order in which they are to happen.
  std::vector<std::variant<SendToWorker, OpenRendezvous, AbortRendezvous, CloseRendezvous,
                           TrialEnded, AttemptEnded>>
      actions;
  // Whose watchers have something to read.
  std::set<int64_t> jobs;
  // Trials became pending or devices free.
  bool schedule = false;
};

// What every step of a trial's life is given.
struct Step {
  Connection& db;
  absl::Time now;
  int max_attempts;
  // From a cancel until the workers kill what is left, and after that until they are waited for no
  // longer.
  absl::Duration grace;
  Effects& effects;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_EFFECTS_H_
