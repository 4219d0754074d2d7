// Quantities as people read them, with three significant digits.

#ifndef LCAB_REPORT_QUANTITIES_H_
#define LCAB_REPORT_QUANTITIES_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace lcab::report {

// "812 ns", "6.52 ms", "1.20 s", "3 m 05 s"; "-" for what is not a positive time.
std::string SecondsText(double seconds);
// The same for a wait: "4 s", "2 m 05 s", "1 h 10 m".
std::string WaitText(absl::Duration duration);
// "640 B", "3.75 MiB".
std::string BytesText(int64_t bytes);
// "812 M", "1.24 G", "35.2 T", of any unit that is counted.
std::string CountText(double count);
// "0.812", "41.2", "702": three significant digits, no exponent.
std::string ThreeDigits(double value);
// "1,048,576"
std::string Grouped(int64_t value);

}  // namespace lcab::report

#endif  // LCAB_REPORT_QUANTITIES_H_
