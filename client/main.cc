// lcab-client: runs suites here or on a coordinator, and shows what came of them.

#include <unistd.h>

#include <csignal>
#include <iostream>
#include <ostream>

#include "client/command_line.h"
#include "client/output_buffer.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "report/terminal.h"
#include "service/logging.h"

int main(int argc, char** argv) {
  // A reader that leaves (`lcab-client results | head`) or a runner that dies must not end this
  // program in mid-run: writes fail instead, and are checked.
  std::signal(SIGPIPE, SIG_IGN);
  // The same of a file that may not grow (ulimit -f).
  std::signal(SIGXFSZ, SIG_IGN);
  // What a coordinator inside this program has to say goes to standard error, as all that is not a
  // result; `run` has an option for more.
  if (!lcab::service::SetUpLogging("warn").ok()) return 1;
  lcab::client::OutputBuffer buffer(STDOUT_FILENO);
  std::ostream out(&buffer);
  lcab::client::Console console{out, std::cerr, lcab::report::Terminal::Of(1),
                                lcab::report::Terminal::Of(2)};
  const auto verbs = lcab::client::MakeVerbs();
  const auto code = lcab::client::RunCommandLine({argv, argv + argc}, verbs, console);
  return static_cast<int>(lcab::client::FinishOutput(code, buffer, console));
}
