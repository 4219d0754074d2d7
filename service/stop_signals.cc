#include "service/stop_signals.h"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "absl/time/clock.h"

namespace lcab::service {

StopSignals::StopSignals() {
  sigemptyset(&set_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, signal);
  pthread_sigmask(SIG_BLOCK, &set_, &previous_);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

StopSignals::~StopSignals() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }

int StopSignals::Wait(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const timespec left = absl::ToTimespec(std::max(deadline - absl::Now(), absl::ZeroDuration()));
    const int signal = sigtimedwait(&set_, nullptr, &left);
    if (signal > 0) return signal;
    if (errno != EINTR) return 0;  // EAGAIN: the time is over
  }
}

}  // namespace lcab::service
