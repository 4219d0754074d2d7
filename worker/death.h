// What the death of a runner means: whose fault it was, and what to tell people.

#ifndef LCAB_WORKER_DEATH_H_
#define LCAB_WORKER_DEATH_H_

#include <cstdint>
#include <string>

#include "lcab/v1/trial.pb.h"
#include "worker/child_process.h"

namespace lcab::worker {

struct Death {
  ProcessEnd end;
  bool out_of_memory_kill = false;  // the kernel's OOM killer was at work meanwhile
  int64_t memory_limit_bytes = 0;   // that the runner had; 0: none
  bool in_trial = false;            // else it was being set up, or between trials
  std::string stage;                // of the trial, as the runner last said; may be empty
  std::string last_output;          // the end of what it printed
};

struct Verdict {
  v1::Outcome outcome = v1::OUTCOME_UNSPECIFIED;
  v1::Fault fault = v1::FAULT_UNSPECIFIED;
  std::string reason;  // without the rank's name: "was killed by SIGSEGV (signal 11) ..."
};

// Signals that a program brings upon itself are the kernel's fault; those that only come from
// outside are infrastructure, unless the OOM killer sent them.
Verdict Judge(const Death& death);

// Kills by the kernel's OOM killer that this process can see: in its cgroup (v2), else on the whole
// machine. Only differences mean anything. 0 where nothing can be read.
int64_t OutOfMemoryKills();

}  // namespace lcab::worker

#endif  // LCAB_WORKER_DEATH_H_
