// Wakes those who watch a job: something of it was stored, or a trial of it came further.
//
//   JobNews::Watch watch(news, job);
//   while (...) {
//     Send(events after the last one);
//     for (const TrialStage& stage : watch.Wait(absl::Seconds(1))) ...
//   }

#ifndef LCAB_COORDINATOR_JOB_NEWS_H_
#define LCAB_COORDINATOR_JOB_NEWS_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace lcab::coordinator {

// Where a running trial stands. Not stored: a watcher that misses one sees the next.
struct TrialStage {
  int64_t number = 0;  // in the job
  std::string stage;
  int64_t samples = 0;
};

// Thread-safe.
class JobNews {
 public:
  // Watches from its construction on.
  class Watch {
   public:
    Watch(JobNews& news, int64_t job);
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();

    // Returns when there is news since the last call, or after `timeout`; with the latest stage of
    // each trial that came further meanwhile.
    std::vector<TrialStage> Wait(absl::Duration timeout);

   private:
    friend class JobNews;
    JobNews& news_;
    const int64_t job_;
    // Under the lock of news_.
    bool woken_ = true;
    std::map<int64_t, TrialStage> stages_;
  };

  // Events of these jobs were stored.
  void Publish(const std::set<int64_t>& jobs);
  void Publish(int64_t job, const TrialStage& stage);
  // Everybody wakes, now and from now on at once.
  void Close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<int64_t, Watch*> watches_;
  bool closed_ = false;
};

}  // namespace lcab::coordinator

#endif  // LCAB_COORDINATOR_JOB_NEWS_H_
