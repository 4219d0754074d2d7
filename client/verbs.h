// The verbs of lcab-client: each is made by one function, defined in its own file.

#ifndef LCAB_CLIENT_VERBS_H_
#define LCAB_CLIENT_VERBS_H_

#include <memory>
#include <vector>

#include "client/verb.h"

namespace lcab::client {

// Every verb, in the order in which help lists them.
std::vector<std::unique_ptr<Verb>> MakeVerbs();

std::unique_ptr<Verb> MakeCancelVerb();
std::unique_ptr<Verb> MakeCompletionVerb();
std::unique_ptr<Verb> MakeDrainVerb();
std::unique_ptr<Verb> MakeExplainVerb();
std::unique_ptr<Verb> MakeJobVerb();
std::unique_ptr<Verb> MakeJobsVerb();
std::unique_ptr<Verb> MakeListVerb();
std::unique_ptr<Verb> MakeLogsVerb();
std::unique_ptr<Verb> MakeReferenceVerb();
std::unique_ptr<Verb> MakeReproVerb();
std::unique_ptr<Verb> MakeResultsVerb();
std::unique_ptr<Verb> MakeRetryVerb();
std::unique_ptr<Verb> MakeRunVerb();
std::unique_ptr<Verb> MakeSubmitVerb();
std::unique_ptr<Verb> MakeVersionVerb();
std::unique_ptr<Verb> MakeWatchVerb();
std::unique_ptr<Verb> MakeWorkersVerb();

}  // namespace lcab::client

#endif  // LCAB_CLIENT_VERBS_H_
