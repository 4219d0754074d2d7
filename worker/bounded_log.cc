#include "worker/bounded_log.h"

#include <fmt/format.h>

#include <algorithm>

namespace lcab::worker {
namespace {

constexpr size_t kLastBytes = 2048;

// Keeps the last `most` bytes of text; returns how many went.
size_t KeepEnd(std::string& text, size_t most) {
  if (text.size() <= most) return 0;
  const size_t gone = text.size() - most;
  text.erase(0, gone);
  return gone;
}

}  // namespace

std::string BoundedLog::Append(std::string_view text) {
  last_.append(text.substr(text.size() - std::min(text.size(), kLastBytes)));
  KeepEnd(last_, kLastBytes);

  const size_t passed = std::min(text.size(), head_left_);
  head_left_ -= passed;
  std::string_view held = text.substr(passed);
  if (held.size() > tail_bytes_) {
    // Nothing before its end would be kept.
    cut_bytes_ += static_cast<int64_t>(tail_.size() + held.size() - tail_bytes_);
    tail_ = held.substr(held.size() - tail_bytes_);
  } else {
    tail_.append(held);
    // Trimmed now and then, not for every line.
    if (tail_.size() > 2 * tail_bytes_)
      cut_bytes_ += static_cast<int64_t>(KeepEnd(tail_, tail_bytes_));
  }
  return std::string(text.substr(0, passed));
}

std::string BoundedLog::Flush() {
  cut_bytes_ += static_cast<int64_t>(KeepEnd(tail_, tail_bytes_));
  std::string text;
  if (cut_bytes_ > 0) text = fmt::format("\n[... {} bytes were cut here ...]\n", cut_bytes_);
  text += tail_;
  tail_.clear();
  cut_bytes_ = 0;
  return text;
}

}  // namespace lcab::worker
