// The events of a job, read by a thread of its own that finds the coordinator again after a restart
// and goes on where it was.

#ifndef LCAB_CLIENT_EVENT_STREAM_H_
#define LCAB_CLIENT_EVENT_STREAM_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/coordinator_link.h"
#include "grpcpp/client_context.h"
#include "lcab/v1/jobs.pb.h"

namespace lcab::client {

class EventStream {
 public:
  // Events after `after_sequence`. `patience`: how long a coordinator may be away.
  EventStream(CoordinatorLink& link, std::string job, int64_t after_sequence,
              absl::Duration patience);
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;
  ~EventStream();

  // The next event, waiting at most that long.
  std::optional<v1::JobEvent> Next(absl::Duration timeout);
  // The job has ended, or the stream has failed, and Next has given all there was.
  bool over();
  // Ok when the job has ended.
  absl::Status status();
  // The coordinator is away at the moment.
  bool away();

 private:
  void Run();
  // One call, until it ends.
  grpc::Status Read();

  CoordinatorLink& link_;
  const std::string job_;
  const absl::Duration patience_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::JobEvent> events_;
  int64_t last_sequence_;
  grpc::ClientContext* context_ = nullptr;
  bool stopping_ = false;
  bool ended_ = false;
  bool away_ = false;
  absl::Status status_;
  std::thread thread_;
};

}  // namespace lcab::client

#endif  // LCAB_CLIENT_EVENT_STREAM_H_
