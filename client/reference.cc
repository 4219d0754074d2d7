// `lcab-client reference`: the page of docs/ that tells of every verb. For those who change verbs.

#include <memory>
#include <string_view>
#include <vector>

#include "client/help.h"
#include "client/verb.h"
#include "client/verbs.h"

namespace lcab::client {
namespace {

class ReferenceVerb : public Verb {
 public:
  std::string_view name() const override { return "reference"; }
  std::string_view summary() const override { return "Print docs/cli.md"; }
  std::string_view example() const override { return "lcab-client reference > docs/cli.md"; }
  bool hidden() const override { return true; }
  std::vector<Argument> Arguments() override { return {}; }

  ExitCode Run(Console& console) override {
    console.out << ReferencePage(MakeVerbs());
    return ExitCode::kOk;
  }
};

}  // namespace

std::unique_ptr<Verb> MakeReferenceVerb() { return std::make_unique<ReferenceVerb>(); }

}  // namespace lcab::client
