// std::random_device of this compiler's static library asks the C library for arc4random(), which
// came with glibc 2.36; portable programs bring their own, from the kernel's generator, and start
// on older systems.

#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  uint32_t value = 0;
  // Four bytes come whole, or not at all when a signal came first.
  while (getrandom(&value, sizeof(value), 0) != static_cast<ssize_t>(sizeof(value))) {
    if (errno != EINTR) std::abort();
  }
  return value;
}
