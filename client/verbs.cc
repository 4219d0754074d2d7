#include "client/verbs.h"

#include <memory>
#include <vector>

namespace lcab::client {

std::vector<std::unique_ptr<Verb>> MakeVerbs() {
  using Make = std::unique_ptr<Verb> (*)();
  static constexpr Make kMakers[] = {
      MakeRunVerb,        MakeExplainVerb,   MakeListVerb,    MakeSubmitVerb, MakeWatchVerb,
      MakeJobsVerb,       MakeJobVerb,       MakeCancelVerb,  MakeRetryVerb,  MakeLogsVerb,
      MakeResultsVerb,    MakeReproVerb,     MakeWorkersVerb, MakeDrainVerb,  MakeVersionVerb,
      MakeCompletionVerb, MakeReferenceVerb,
  };
  std::vector<std::unique_ptr<Verb>> verbs;
  for (const Make make : kMakers) verbs.push_back(make());
  return verbs;
}

}  // namespace lcab::client
