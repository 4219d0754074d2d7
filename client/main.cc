// lcab-client: runs suites here or on a coordinator, and shows what came of them.

#include <csignal>
#include <iostream>

#include "client/command_line.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "report/terminal.h"
#include "service/logging.h"

int main(int argc, char** argv) {
  // A reader that leaves (`lcab-client results | head`) or a runner that dies must not end this
  // program in mid-run: writes fail instead, and are checked.
  std::signal(SIGPIPE, SIG_IGN);
  // What a coordinator inside this program has to say goes to standard error, as all that is not a
  // result; `run` has an option for more.
  if (!lcab::service::SetUpLogging("warn").ok()) return 1;
  lcab::client::Console console{std::cout, std::cerr, lcab::report::Terminal::Of(1),
                                lcab::report::Terminal::Of(2)};
  const auto verbs = lcab::client::MakeVerbs();
  return static_cast<int>(lcab::client::RunCommandLine({argv, argv + argc}, verbs, console));
}
