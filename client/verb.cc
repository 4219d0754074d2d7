#include "client/verb.h"

#include <string_view>

#include "absl/status/status.h"

namespace lcab::client {

ExitCode Fail(Console& console, ExitCode code, std::string_view message) {
  const bool color = console.err_terminal.color;
  console.err << (color ? "\033[1;31merror:\033[0m " : "error: ") << message;
  if (message.empty() || message.back() != '\n') console.err << '\n';
  console.err.flush();
  return code;
}

ExitCode Fail(Console& console, const absl::Status& status) {
  const absl::string_view message = status.message();
  return Fail(console, ExitCodeOf(status.code()), std::string_view(message.data(), message.size()));
}

}  // namespace lcab::client
