#include "coordinator/job_news.h"

#include <utility>

namespace lcab::coordinator {

JobNews::Watch::Watch(JobNews& news, int64_t job) : news_(news), job_(job) {
  const std::lock_guard lock(news_.mutex_);
  news_.watches_.emplace(job, this);
}

JobNews::Watch::~Watch() {
  const std::lock_guard lock(news_.mutex_);
  const auto [begin, end] = news_.watches_.equal_range(job_);
  for (auto watch = begin; watch != end; ++watch) {
    if (watch->second != this) continue;
    news_.watches_.erase(watch);
    return;
  }
}

std::vector<TrialStage> JobNews::Watch::Wait(absl::Duration timeout) {
  std::unique_lock lock(news_.mutex_);
  news_.changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout),
                          [this] { return woken_ || news_.closed_; });
  woken_ = false;
  std::vector<TrialStage> stages;
  for (auto& [number, stage] : stages_) stages.push_back(std::move(stage));
  stages_.clear();
  return stages;
}

void JobNews::Publish(const std::set<int64_t>& jobs) {
  const std::lock_guard lock(mutex_);
  if (watches_.empty()) return;
  for (const int64_t job : jobs) {
    const auto [begin, end] = watches_.equal_range(job);
    for (auto watch = begin; watch != end; ++watch) watch->second->woken_ = true;
  }
  changed_.notify_all();
}

void JobNews::Publish(int64_t job, const TrialStage& stage) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = watches_.equal_range(job);
  for (auto watch = begin; watch != end; ++watch) {
    watch->second->stages_[stage.number] = stage;
    watch->second->woken_ = true;
  }
  changed_.notify_all();
}

void JobNews::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace lcab::coordinator
