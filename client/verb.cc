#include "client/verb.h"

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/connection.h"
#include "proto/visible_text.h"
#include "service/grpc_status.h"

namespace lcab::client {

ExitCode Fail(Console& console, ExitCode code, std::string_view message) {
  const bool color = console.err_terminal.color;
  console.err << (color ? "\033[1;31merror:\033[0m " : "error: ") << VisibleLines(message);
  if (message.empty() || message.back() != '\n') console.err << '\n';
  console.err.flush();
  return code;
}

bool IsOfDatabase(const absl::Status& status) {
  const std::string reason = service::ErrorReason(status);
  return reason == coordinator::kDatabaseFailed || reason == coordinator::kDatabaseLocked;
}

ExitCode Fail(Console& console, const absl::Status& status) {
  const absl::string_view message = status.message();
  const ExitCode code = IsOfDatabase(status) ? ExitCode::kDatabase : ExitCodeOf(status.code());
  return Fail(console, code, std::string_view(message.data(), message.size()));
}

}  // namespace lcab::client
