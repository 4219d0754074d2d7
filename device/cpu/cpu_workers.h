// Threads that wait for loops to share: a fork and a join cost microseconds while loops follow each
// other closely, and nothing while there are none.
//
// A loop's state is one 64-bit word: how many parts nobody has taken yet, and a loop number. A part
// is taken by compare-and-swap on the whole word, so a thread that comes late to a finished loop
// cannot take a part of the next one by mistake, and the caller never waits for a sleeping thread:
// only for parts that were taken.

#ifndef LCAB_DEVICE_CPU_CPU_WORKERS_H_
#define LCAB_DEVICE_CPU_CPU_WORKERS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "device/device.h"

namespace lcab {

class CpuWorkers : public Workers {
 public:
  // threads >= 1, the caller of Run() among them. ResourceExhausted when a thread cannot start.
  static absl::StatusOr<std::unique_ptr<CpuWorkers>> Create(int threads);
  ~CpuWorkers() override;

  int threads() const override { return threads_; }
  void Run(int64_t parts, const std::function<void(int64_t part, int thread)>& body) override;
  // Runs `body(thread)` exactly once on each thread, all at the same time. Not within a part: the
  // other threads would not come.
  void RunOnEach(const std::function<void(int thread)>& body);

 private:
  explicit CpuWorkers(int threads) : threads_(threads) {}

  void Loop(int thread);
  void TakeParts(int thread);

  const int threads_;
  std::mutex run_mutex_;  // one Run() at a time

  // The loop in progress. `total_` and `body_` change only while no part is left and none is
  // running.
  std::atomic<uint64_t> state_{0};  // loop number << 40 | parts that nobody has taken
  int64_t total_ = 0;
  const std::function<void(int64_t, int)>* body_ = nullptr;
  std::atomic<int64_t> finished_{0};  // parts

  std::mutex park_mutex_;
  std::condition_variable work_;  // parked threads wait here
  std::condition_variable done_;  // the caller waits here for the last parts
  std::atomic<int> parked_{0};    // threads
  std::atomic<bool> caller_parked_{false};
  std::atomic<bool> stop_{false};

  std::vector<std::thread> workers_;
};

}  // namespace lcab

#endif  // LCAB_DEVICE_CPU_CPU_WORKERS_H_
