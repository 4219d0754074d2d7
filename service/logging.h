// How daemons log: events with fields on stderr, one line each, in which what a terminal would act
// upon is shown as VisibleText shows it.
//
//   spdlog::info("trial ended job={} trial={} outcome={}", job, trial, outcome);

#ifndef LCAB_SERVICE_LOGGING_H_
#define LCAB_SERVICE_LOGGING_H_

#include <string_view>

#include "absl/status/status.h"

namespace lcab::service {

// Sets the level ("trace", "debug", "info", "warn", "error", "off") and the form of the process's
// log lines. InvalidArgument lists the levels.
absl::Status SetUpLogging(std::string_view level);

}  // namespace lcab::service

#endif  // LCAB_SERVICE_LOGGING_H_
