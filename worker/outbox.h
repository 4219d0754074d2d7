// Events on their way to the coordinator: numbered, kept until acknowledged, sent again on a new
// connection. Results, samples and ends of assignments also lie in a file until then, so that a
// worker that was killed still delivers them after it starts again.
//
// The file holds records one after the other: length and CRC-32 (four bytes each, little endian),
// then a lcab.v1.AssignmentEvent. It is cut to nothing when all that it holds is acknowledged.

#ifndef LCAB_WORKER_OUTBOX_H_
#define LCAB_WORKER_OUTBOX_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lcab/v1/fleet.pb.h"
#include "worker/file_descriptor.h"

namespace lcab::worker {

// Thread-safe.
class Outbox {
 public:
  // `path` is the file; what an earlier start left there is sent first, under that start's
  // incarnation. A torn or damaged end of the file is dropped and counted.
  static absl::StatusOr<std::unique_ptr<Outbox>> Open(const std::string& path,
                                                      const std::string& incarnation);

  // Gives the event its number. When the disk refuses it the event is still sent, and the status
  // says that it would not survive a kill.
  absl::Status Add(v1::AssignmentEvent event);

  // The next event that this connection has not carried yet.
  std::optional<v1::AssignmentEvent> Next();
  // A new connection: all that is not acknowledged is sent again, except stale progress.
  void Rewind();
  // All events of the incarnation up to the sequence number are stored.
  void Acknowledge(const std::string& incarnation, int64_t sequence);

  bool HasNext() const;
  int64_t unacknowledged() const;
  // Those of them that lie in the file: the next start sends them.
  int64_t kept() const;
  // Bytes at the end of the file that were no whole record when it was opened.
  int64_t dropped_bytes() const { return dropped_bytes_; }

 private:
  struct Entry {
    v1::AssignmentEvent event;
    bool on_disk = false;
  };

  Outbox(FileDescriptor file, std::string incarnation);
  absl::Status Load();
  absl::Status Write(const v1::AssignmentEvent& event);
  void TruncateIfEmpty();

  const FileDescriptor file_;
  const std::string incarnation_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // not acknowledged, in the order in which they are sent
  size_t next_ = 0;            // of entries_
  int64_t last_sequence_ = 0;
  int64_t file_bytes_ = 0;
  int64_t dropped_bytes_ = 0;
};

}  // namespace lcab::worker

#endif  // LCAB_WORKER_OUTBOX_H_
