// `lcab-client version`: what this program was built from.

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <vector>

#include "client/verb.h"
#include "client/verbs.h"
#include "lcab_version.h"

namespace lcab::client {
namespace {

class VersionVerb : public Verb {
 public:
  std::string_view name() const override { return "version"; }
  std::string_view summary() const override { return "Say what this program was built from"; }
  std::string_view example() const override { return "lcab-client version"; }
  std::vector<Argument> Arguments() override { return {}; }

  ExitCode Run(Console& console) override {
    const BuildInfo build = GetBuildInfo();
    console.out << fmt::format("lcab {}\ncommit    {}\ncompiler  {}\nbuild     {}\nflags     {}\n",
                               build.version, build.commit, build.compiler, build.build_type,
                               build.flags);
    if (!build.sanitizers.empty()) {
      console.out << fmt::format("sanitizers {}\n", build.sanitizers);
    }
    return ExitCode::kOk;
  }
};

}  // namespace

std::unique_ptr<Verb> MakeVersionVerb() { return std::make_unique<VersionVerb>(); }

}  // namespace lcab::client
