// The verbs of lcab-client: each is made by one function, defined in its own file.

#ifndef LCAB_CLIENT_VERBS_H_
#define LCAB_CLIENT_VERBS_H_

#include <memory>
#include <vector>

#include "client/verb.h"

namespace lcab::client {

// Every verb, in the order in which help lists them.
std::vector<std::unique_ptr<Verb>> MakeVerbs();

std::unique_ptr<Verb> MakeCompletionVerb();
std::unique_ptr<Verb> MakeExplainVerb();
std::unique_ptr<Verb> MakeListVerb();
std::unique_ptr<Verb> MakeReferenceVerb();
std::unique_ptr<Verb> MakeVersionVerb();

}  // namespace lcab::client

#endif  // LCAB_CLIENT_VERBS_H_
