// Other people's code throws: what leaves it becomes a status here, so that a rank that fails can
// still tell the others.

#ifndef LCAB_MEASUREMENT_EXCEPTIONS_H_
#define LCAB_MEASUREMENT_EXCEPTIONS_H_

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace lcab::measurement {

// The status that `work` returns, or of what it throws: ResourceExhausted for std::bad_alloc,
// Internal for anything else.
template <typename Work>
absl::Status CatchExceptions(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the host has no memory left for this process");
  } catch (const std::exception& error) {
    return absl::InternalError(std::string("an exception left the kernel: ") + error.what());
  } catch (...) {
    return absl::InternalError("an exception of unknown type left the kernel");
  }
}

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_EXCEPTIONS_H_
