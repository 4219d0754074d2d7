// From the words of a command line to a verb that runs: parsing, help, and what the environment and
// the configuration file give where the command line does not.

#ifndef LCAB_CLIENT_COMMAND_LINE_H_
#define LCAB_CLIENT_COMMAND_LINE_H_

#include <memory>
#include <string>
#include <vector>

#include "client/exit_codes.h"
#include "client/verb.h"

namespace lcab::client {

// `words[0]` is the program's name. Runs the verb that is named, or prints help or what is wrong
// with the words (kUsage). Once it has returned, the verbs' targets hold what was given.
ExitCode RunCommandLine(const std::vector<std::string>& words,
                        const std::vector<std::unique_ptr<Verb>>& verbs, Console& console);

}  // namespace lcab::client

#endif  // LCAB_CLIENT_COMMAND_LINE_H_
