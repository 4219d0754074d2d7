// What a worker and a runner say to each other (lcab/v1/runner.proto) over a socket pair: each
// message behind its length, four bytes, little endian. Needs no gRPC, so the runner can link it.
//
//   auto [ours, theirs] = MakeChannelPair().value();   // in the worker; `theirs` goes to the
//   runner Channel channel(std::move(ours)); channel.Write(message, absl::Now() +
//   absl::Seconds(5)); absl::Status status = channel.Read(reply, absl::Now() + absl::Seconds(5));

#ifndef LCAB_WORKER_CHANNEL_H_
#define LCAB_WORKER_CHANNEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/message_lite.h"
#include "worker/file_descriptor.h"

namespace lcab::worker {

// Two connected stream sockets, closed on exec.
absl::StatusOr<std::pair<FileDescriptor, FileDescriptor>> MakeChannelPair();

// Any number of threads may write; one may read.
class Channel {
 public:
  // Longer messages are neither sent nor taken: they mean that the two sides lost step.
  static constexpr uint32_t kMaxMessageBytes = 64 << 20;

  // Makes the socket non-blocking.
  explicit Channel(FileDescriptor fd);

  // InvalidArgument for a message that is too long (the channel is still good). Unavailable when
  // the other side is gone. DeadlineExceeded when it did not read in time; nothing can be written
  // after that, because half a message may have been.
  absl::Status Write(const google::protobuf::MessageLite& message, absl::Time deadline);

  // Waits for the next message. DeadlineExceeded when none came; Unavailable when the other side
  // closed; Cancelled after Shutdown; DataLoss when what came is no message.
  absl::Status Read(google::protobuf::MessageLite& message, absl::Time deadline);

  // The same without waiting: false when no whole message is there yet.
  absl::StatusOr<bool> TryRead(google::protobuf::MessageLite& message);

  // From any thread: reads and writes end with Cancelled, and the other side sees a closed channel.
  void Shutdown();

  // To wait for with poll().
  int fd() const { return fd_.get(); }

 private:
  absl::StatusOr<bool> TakeMessage(google::protobuf::MessageLite& message);
  absl::Status Wait(short events, absl::Time deadline, const char* what) const;

  FileDescriptor fd_;
  std::mutex write_mutex_;
  bool write_broken_ = false;
  std::atomic<bool> shut_down_ = false;
  std::string received_;
  size_t consumed_ = 0;  // of received_
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_CHANNEL_H_
