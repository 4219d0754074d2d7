// Interrupts (SIGINT, SIGTERM, SIGHUP) of a verb that takes a while: the first is counted, for the
// verb to end in order; the second ends the program at once, whatever it is waiting for.
//
//   Interrupts interrupts;  // before anything that starts threads: they inherit the blocked mask
//   while (interrupts.count() == 0 && !done()) ...

#ifndef LCAB_CLIENT_INTERRUPTS_H_
#define LCAB_CLIENT_INTERRUPTS_H_

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "client/exit_codes.h"
#include "service/stop_signals.h"

namespace lcab::client {

class Interrupts {
 public:
  Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts();

  // How many came.
  int count() const { return count_; }

  // Before the second one ends the program, `words` go to standard error and `last` is called, from
  // another thread.
  void BeforeTheEnd(std::function<void()> last, std::string words);

  // Ends the program now, after `last`: no destructor runs, so nothing is waited for. Runners end
  // with the program that started them.
  [[noreturn]] void EndNow(ExitCode code);

 private:
  void Watch();

  service::StopSignals signals_;
  std::atomic<int> count_ = 0;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::function<void()> last_;
  std::string words_ = "Stopped at once.\n";
  std::thread thread_;
};

}  // namespace lcab::client

#endif  // LCAB_CLIENT_INTERRUPTS_H_
