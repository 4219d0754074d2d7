#include "device/device.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"

namespace lcab {

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this == &other) return *this;
  if (device_ != nullptr) device_->Free(data_, bytes_);
  device_ = std::exchange(other.device_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Memory::~Memory() {
  if (device_ != nullptr) device_->Free(data_, bytes_);
}

absl::StatusOr<Memory> Device::Allocate(int64_t bytes) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(
        fmt::format("cannot allocate {} bytes on {}: ask for 0 or more", bytes, info().id));
  }
  {
    const std::lock_guard lock(memory_mutex_);
    const int64_t left = info().memory_bytes - allocated_;
    if (bytes > left) {
      return absl::ResourceExhaustedError(fmt::format(
          "{} cannot allocate {} bytes: {} bytes are left of the {} that it may use; use shorter "
          "sequences or fewer heads, or raise the device's memory limit",
          info().id, bytes, left, info().memory_bytes));
    }
    // Taken before the allocation itself, so that two threads cannot both use what is left.
    allocated_ += bytes;
  }
  absl::StatusOr<std::byte*> data = DoAllocate(bytes);
  const std::lock_guard lock(memory_mutex_);
  if (!data.ok()) {
    allocated_ -= bytes;
    return data.status();
  }
  peak_ = std::max(peak_, allocated_);
  Memory memory;
  memory.device_ = this;
  memory.data_ = *data;
  memory.bytes_ = bytes;
  return memory;
}

int64_t Device::allocated_bytes() const {
  const std::lock_guard lock(memory_mutex_);
  return allocated_;
}

int64_t Device::peak_bytes() const {
  const std::lock_guard lock(memory_mutex_);
  return peak_;
}

void Device::ResetPeak() {
  const std::lock_guard lock(memory_mutex_);
  peak_ = allocated_;
}

void Device::Free(std::byte* data, int64_t bytes) {
  DoFree(data, bytes);
  const std::lock_guard lock(memory_mutex_);
  allocated_ -= bytes;
}

}  // namespace lcab
