#include "worker/outbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lcab::worker {
namespace {

constexpr size_t kHeaderBytes = 8;
// Longer records are not written (see Channel::kMaxMessageBytes), so a longer length is damage.
constexpr uint32_t kMostRecordBytes = 64 << 20;

void AppendNumber(std::string& text, uint32_t number) {
  for (int n = 0; n < 4; ++n) text += static_cast<char>(number >> (8 * n) & 0xFF);
}

uint32_t ReadNumber(const char* bytes) {
  uint32_t number = 0;
  for (int n = 0; n < 4; ++n) {
    number |= uint32_t{static_cast<unsigned char>(bytes[n])} << (8 * n);
  }
  return number;
}

uint32_t Checksum(const char* bytes, size_t count) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const unsigned char*>(bytes), count));
}

bool IsDurable(const v1::AssignmentEvent& event) {
  return event.has_samples() || event.has_trial_ended() || event.has_ended();
}

bool IsTerminal(const v1::AssignmentEvent& event) {
  return event.has_trial_ended() || event.has_ended();
}

absl::Status FromErrno(const char* what) {
  return absl::UnavailableError(
      fmt::format("cannot {} the file of unacknowledged events: {}", what, std::strerror(errno)));
}

}  // namespace

Outbox::Outbox(FileDescriptor file, std::string incarnation)
    : file_(std::move(file)), incarnation_(std::move(incarnation)) {}

absl::StatusOr<std::unique_ptr<Outbox>> Outbox::Open(const std::string& path,
                                                     const std::string& incarnation) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.valid()) {
    return absl::UnavailableError(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  }
  std::unique_ptr<Outbox> outbox(new Outbox(std::move(file), incarnation));
  if (absl::Status status = outbox->Load(); !status.ok()) return status;
  return outbox;
}

absl::Status Outbox::Load() {
  struct stat info;
  if (fstat(file_.get(), &info) != 0) return FromErrno("examine");
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError("the file of unacknowledged events is no regular file");
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t count =
        pread(file_.get(), &bytes[have], bytes.size() - have, static_cast<off_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FromErrno("read");
    if (count == 0) break;
    have += static_cast<size_t>(count);
  }
  bytes.resize(have);
  size_t at = 0;
  while (bytes.size() - at >= kHeaderBytes) {
    const uint32_t length = ReadNumber(&bytes[at]);
    if (length > kMostRecordBytes || bytes.size() - at - kHeaderBytes < length) break;
    const char* record = &bytes[at] + kHeaderBytes;
    Entry entry{.on_disk = true};
    if (Checksum(record, length) != ReadNumber(&bytes[at + 4]) ||
        !entry.event.ParseFromArray(record, static_cast<int>(length))) {
      break;
    }
    entries_.push_back(std::move(entry));
    at += kHeaderBytes + length;
  }
  dropped_bytes_ = static_cast<int64_t>(bytes.size() - at);
  file_bytes_ = static_cast<int64_t>(at);
  // What follows a torn record would never be read again.
  if (dropped_bytes_ > 0 && ftruncate(file_.get(), file_bytes_) != 0) return FromErrno("cut");
  return absl::OkStatus();
}

absl::Status Outbox::Write(const v1::AssignmentEvent& event) {
  std::string payload;
  if (!event.SerializeToString(&payload) || payload.size() > kMostRecordBytes) {
    return absl::InternalError("an event cannot be written as a record");
  }
  std::string record;
  AppendNumber(record, static_cast<uint32_t>(payload.size()));
  AppendNumber(record, Checksum(payload.data(), payload.size()));
  record += payload;
  size_t written = 0;
  while (written < record.size()) {
    const ssize_t count = pwrite(file_.get(), record.data() + written, record.size() - written,
                                 file_bytes_ + static_cast<off_t>(written));
    if (count < 0 && errno == EINTR) continue;
    // A half-written record lies behind file_bytes_ and is overwritten by the next.
    if (count < 0) return FromErrno("write");
    written += static_cast<size_t>(count);
  }
  file_bytes_ += static_cast<int64_t>(record.size());
  // Samples are worth nothing without their result, which follows and takes them along.
  if (IsTerminal(event) && fdatasync(file_.get()) != 0) return FromErrno("sync");
  return absl::OkStatus();
}

absl::Status Outbox::Add(v1::AssignmentEvent event) {
  const std::lock_guard lock(mutex_);
  event.set_incarnation(incarnation_);
  event.set_sequence(++last_sequence_);
  absl::Status status = IsDurable(event) ? Write(event) : absl::OkStatus();
  const bool on_disk = IsDurable(event) && status.ok();
  entries_.push_back({.event = std::move(event), .on_disk = on_disk});
  return status;
}

std::optional<v1::AssignmentEvent> Outbox::Next() {
  const std::lock_guard lock(mutex_);
  if (next_ >= entries_.size()) return std::nullopt;
  return entries_[next_++].event;
}

void Outbox::Rewind() {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return entry.event.has_progress(); });
  next_ = 0;
}

void Outbox::Acknowledge(const std::string& incarnation, int64_t sequence) {
  const std::lock_guard lock(mutex_);
  const size_t before = entries_.size();
  size_t sent_and_gone = 0;
  size_t index = 0;
  std::erase_if(entries_, [&](const Entry& entry) {
    const bool gone =
        entry.event.incarnation() == incarnation && entry.event.sequence() <= sequence;
    if (gone && index < next_) ++sent_and_gone;
    ++index;
    return gone;
  });
  next_ -= sent_and_gone;
  if (entries_.size() != before) TruncateIfEmpty();
}

void Outbox::TruncateIfEmpty() {
  if (file_bytes_ == 0) return;
  for (const Entry& entry : entries_) {
    if (entry.on_disk) return;
  }
  // When this fails the records are sent again after a restart, which the coordinator takes calmly.
  if (ftruncate(file_.get(), 0) == 0) file_bytes_ = 0;
}

bool Outbox::HasNext() const {
  const std::lock_guard lock(mutex_);
  return next_ < entries_.size();
}

int64_t Outbox::unacknowledged() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

int64_t Outbox::kept() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const Entry& entry) { return entry.on_disk; });
}

}  // namespace lcab::worker
