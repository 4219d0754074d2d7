// The help texts of lcab-client: on the terminal and, the same text, in docs/cli.md.

#ifndef LCAB_CLIENT_HELP_H_
#define LCAB_CLIENT_HELP_H_

#include <memory>
#include <string>
#include <vector>

#include "client/verb.h"

namespace lcab::client {

// `lcab-client --help`: the verbs and the exit codes.
std::string ProgramHelp(const std::vector<std::unique_ptr<Verb>>& verbs);

// `lcab-client VERB --help`.
std::string VerbHelp(const Verb& verb, const std::vector<Argument>& arguments);

// docs/cli.md: both of the above for every verb that is not hidden.
std::string ReferencePage(const std::vector<std::unique_ptr<Verb>>& verbs);

}  // namespace lcab::client

#endif  // LCAB_CLIENT_HELP_H_
