// Where a worker's ranks listen for ranks on other machines: checked before anything starts.

#ifndef LCAB_WORKER_DATA_INTERFACE_H_
#define LCAB_WORKER_DATA_INTERFACE_H_

#include <string>

#include "absl/status/status.h"

namespace lcab::worker {

// `name`: a network interface of this host that has an address, an address or name of this host, or
// empty for none. InvalidArgument, with the interfaces that there are, for anything else.
absl::Status CheckDataInterface(const std::string& name);

}  // namespace lcab::worker

#endif  // LCAB_WORKER_DATA_INTERFACE_H_
