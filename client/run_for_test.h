// Runs lcab-client in this process, for tests.

#ifndef LCAB_CLIENT_RUN_FOR_TEST_H_
#define LCAB_CLIENT_RUN_FOR_TEST_H_

#include <initializer_list>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "client/command_line.h"
#include "client/exit_codes.h"
#include "client/verb.h"
#include "client/verbs.h"

namespace lcab::client {

struct RunResult {
  ExitCode code = ExitCode::kInternal;
  std::string out;
  std::string err;
};

// With these verbs, not on a terminal.
inline RunResult RunForTest(const std::vector<std::unique_ptr<Verb>>& verbs,
                            std::initializer_list<std::string> words) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err, {}, {}};
  std::vector<std::string> all = {"lcab-client"};
  all.insert(all.end(), words);
  const ExitCode code = RunCommandLine(all, verbs, console);
  return {code, out.str(), err.str()};
}

// With all verbs.
inline RunResult RunForTest(std::initializer_list<std::string> words) {
  return RunForTest(MakeVerbs(), words);
}

}  // namespace lcab::client

#endif  // LCAB_CLIENT_RUN_FOR_TEST_H_
