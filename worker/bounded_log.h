// What one rank printed during one trial, held to a bound: the beginning is passed on as it comes,
// of the rest the end is kept, and what was cut between them is said.
//
//   BoundedLog log;
//   Send(log.Append(text));  // as it comes; may be empty
//   Send(log.Flush());       // when the trial ends

#ifndef LCAB_WORKER_BOUNDED_LOG_H_
#define LCAB_WORKER_BOUNDED_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lcab::worker {

class BoundedLog {
 public:
  static constexpr size_t kHeadBytes = 256 << 10;
  static constexpr size_t kTailBytes = 64 << 10;

  explicit BoundedLog(size_t head_bytes = kHeadBytes, size_t tail_bytes = kTailBytes)
      : head_left_(head_bytes), tail_bytes_(tail_bytes) {}

  // Takes more text; returns what may be passed on now.
  std::string Append(std::string_view text);
  // What was held back: a marker that says how much is missing, if any is, and the end. Text that
  // comes after that is held back anew.
  std::string Flush();
  // The last bytes that were printed, passed on or not, for messages.
  std::string_view last() const { return last_; }

 private:
  size_t head_left_;
  const size_t tail_bytes_;
  std::string tail_;
  int64_t cut_bytes_ = 0;
  std::string last_;
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_BOUNDED_LOG_H_
