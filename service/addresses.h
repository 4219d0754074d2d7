// Where daemons listen unless they are told otherwise, and so where clients look for them.

#ifndef LCAB_SERVICE_ADDRESSES_H_
#define LCAB_SERVICE_ADDRESSES_H_

namespace lcab::service {

inline constexpr char kCoordinatorAddress[] = "127.0.0.1:7750";
inline constexpr char kCoordinatorMetricsAddress[] = "127.0.0.1:7751";
inline constexpr char kWorkerMetricsAddress[] = "127.0.0.1:7752";

}  // namespace lcab::service

#endif  // LCAB_SERVICE_ADDRESSES_H_
