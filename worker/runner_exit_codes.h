// How a runner ends where it cannot tell its worker in words.

#ifndef LCAB_WORKER_RUNNER_EXIT_CODES_H_
#define LCAB_WORKER_RUNNER_EXIT_CODES_H_

namespace lcab::worker {

// A peer died while ranks were connecting, which the transport cannot survive. A number that no
// program ends with by habit.
inline constexpr int kLostPeerExitCode = 113;

}  // namespace lcab::worker

#endif  // LCAB_WORKER_RUNNER_EXIT_CODES_H_
