// SIGTERM and SIGINT as something a main function waits for, instead of handlers.
//
//   StopSignals signals;  // first thing in main: threads started later inherit the blocked mask
//   while (!server.done() && signals.Wait(absl::Milliseconds(200)) == 0) {}

#ifndef LCAB_SERVICE_STOP_SIGNALS_H_
#define LCAB_SERVICE_STOP_SIGNALS_H_

#include <csignal>

#include "absl/time/time.h"

namespace lcab::service {

// Blocks SIGTERM, SIGINT and SIGHUP in the calling thread for its life, and ignores SIGPIPE and
// SIGXFSZ: a peer that went away and a file that may not grow are errors of the write, not the end
// of the process.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  // The signal that came, or 0 when none came in time.
  int Wait(absl::Duration timeout);

 private:
  sigset_t set_;
  sigset_t previous_;
};

}  // namespace lcab::service

#endif  // LCAB_SERVICE_STOP_SIGNALS_H_
