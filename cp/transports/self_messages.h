// The messages that a rank sends to itself: no transport carries them.

#ifndef LCAB_CP_TRANSPORTS_SELF_MESSAGES_H_
#define LCAB_CP_TRANSPORTS_SELF_MESSAGES_H_

#include <span>

#include "absl/status/status.h"
#include "cp/transport.h"

namespace lcab::cp {

// Copies each send of `rank` to itself to its receive, matched in order. InvalidArgument when they
// differ in number or size.
absl::Status CopyOwnMessages(int rank, std::span<const SendBuffer> sends,
                             std::span<const ReceiveBuffer> receives);

}  // namespace lcab::cp

#endif  // LCAB_CP_TRANSPORTS_SELF_MESSAGES_H_
