// Whether a port can be listened on, asked before anything is begun that a refusal would leave
// behind.

#ifndef LCAB_SERVICE_FREE_PORT_H_
#define LCAB_SERVICE_FREE_PORT_H_

#include "absl/status/status.h"
#include "service/http_listener.h"

namespace lcab::service {

// Unavailable when no address of the host can be bound since the port is taken or the address is
// another machine's. Ok otherwise, also for a host that this cannot judge: the port may be taken
// the moment after, so who listens looks at what came of it in any case.
absl::Status CheckPortIsFree(const HostPort& address);

}  // namespace lcab::service

#endif  // LCAB_SERVICE_FREE_PORT_H_
