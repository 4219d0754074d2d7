#include "report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace lcab::report {
namespace {

// no-color.org: any value but an empty one.
bool IsSet(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool IsDumb() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string_view(term) == "dumb";
}

}  // namespace

Terminal Terminal::Of(int file_descriptor) {
  Terminal terminal;
  if (isatty(file_descriptor) != 1) return terminal;
  terminal.interactive = !IsDumb();
  terminal.color = terminal.interactive && !IsSet("NO_COLOR");
  winsize size{};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.width = size.ws_col;
  }
  return terminal;
}

}  // namespace lcab::report
