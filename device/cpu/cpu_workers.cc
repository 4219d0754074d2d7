#include "device/cpu/cpu_workers.h"

#include <barrier>
#include <chrono>
#include <system_error>
#include <utility>

#include "fmt/format.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lcab {
namespace {

constexpr uint64_t kPartsBits = 40;
constexpr uint64_t kPartsMask = (uint64_t{1} << kPartsBits) - 1;

// Longer than the gap between two loops of one kernel, shorter than anyone would notice.
constexpr std::chrono::microseconds kSpin{50};

// The pool that this thread runs a part of, if any, and as which of its threads.
thread_local const CpuWorkers* running_pool = nullptr;
thread_local int running_thread = 0;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `ready()` or until kSpin has passed; returns ready().
template <typename Ready>
bool SpinUntil(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuWorkers>> CpuWorkers::Create(int threads) {
  if (threads < 1) {
    return absl::InvalidArgumentError(
        fmt::format("a CPU device needs at least 1 thread, not {}", threads));
  }
  std::unique_ptr<CpuWorkers> pool(new CpuWorkers(threads));
  for (int thread = 1; thread < threads; ++thread) {
    try {
      pool->workers_.emplace_back([raw = pool.get(), thread] { raw->Loop(thread); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(
          fmt::format("cannot start thread {} of {}: {}; ask for fewer threads", thread, threads,
                      error.what()));
    }
  }
  return pool;
}

CpuWorkers::~CpuWorkers() {
  {
    const std::lock_guard lock(park_mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void CpuWorkers::Run(int64_t parts, const std::function<void(int64_t, int)>& body) {
  if (parts <= 0) return;
  if (running_pool == this) {
    // Waiting for the other threads here could wait for ourselves.
    const int thread = running_thread;
    for (int64_t part = 0; part < parts; ++part) body(part, thread);
    return;
  }
  const std::lock_guard run_lock(run_mutex_);
  total_ = parts;
  body_ = &body;
  finished_.store(0, std::memory_order_relaxed);
  const uint64_t loop = (state_.load(std::memory_order_relaxed) >> kPartsBits) + 1;
  // Sequentially consistent against `parked_`: either a thread that parks sees these parts, or we
  // see that it parks.
  state_.store(loop << kPartsBits | static_cast<uint64_t>(parts));
  if (parts > 1 && parked_.load() > 0) {
    const std::lock_guard lock(park_mutex_);
    work_.notify_all();
  }
  TakeParts(0);
  const auto all_finished = [&] { return finished_.load() == parts; };
  if (SpinUntil(all_finished)) return;
  std::unique_lock lock(park_mutex_);
  caller_parked_ = true;
  done_.wait(lock, all_finished);
  caller_parked_ = false;
}

void CpuWorkers::RunOnEach(const std::function<void(int)>& body) {
  // Nobody can take a second part before all have taken their first.
  std::barrier everyone(threads_);
  Run(threads_, [&](int64_t, int thread) {
    everyone.arrive_and_wait();
    body(thread);
  });
}

void CpuWorkers::TakeParts(int thread) {
  const CpuWorkers* const outer_pool = std::exchange(running_pool, this);
  const int outer_thread = std::exchange(running_thread, thread);
  uint64_t state = state_.load(std::memory_order_acquire);
  while ((state & kPartsMask) != 0) {
    if (!state_.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      continue;
    }
    // From here until finished_ is raised the loop is alive: total_ and body_ hold still.
    const int64_t total = total_;
    (*body_)(total - static_cast<int64_t>(state & kPartsMask), thread);
    if (finished_.fetch_add(1) + 1 == total && thread != 0 && caller_parked_.load()) {
      const std::lock_guard lock(park_mutex_);
      done_.notify_one();
    }
    state = state_.load(std::memory_order_acquire);
  }
  running_pool = outer_pool;
  running_thread = outer_thread;
}

void CpuWorkers::Loop(int thread) {
  const auto has_work = [this] {
    return (state_.load() & kPartsMask) != 0 || stop_.load(std::memory_order_relaxed);
  };
  while (true) {
    if (!SpinUntil(has_work)) {
      std::unique_lock lock(park_mutex_);
      parked_.fetch_add(1);
      work_.wait(lock, has_work);
      parked_.fetch_sub(1);
    }
    if (stop_) return;
    TakeParts(thread);
  }
}

}  // namespace lcab
