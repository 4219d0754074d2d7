// `lcab-client reference`: pages of docs/ that are made from tables. For those who change them.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/help.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "report/results_page.h"

namespace lcab::client {
namespace {

class ReferenceVerb : public Verb {
 public:
  std::string_view name() const override { return "reference"; }
  std::string_view summary() const override { return "Print a page of docs/"; }
  std::string_view example() const override {
    return "lcab-client reference cli > docs/cli.md\n"
           "lcab-client reference results > docs/results.md";
  }
  bool hidden() const override { return true; }
  std::vector<Argument> Arguments() override {
    return {{.name = "page",
             .target = &page_,
             .description = "which page",
             .form = Form::kPositional,
             .required = true,
             .choices = {"cli", "results"}}};
  }

  ExitCode Run(Console& console) override {
    console.out << (page_ == "cli" ? ReferencePage(MakeVerbs()) : report::ResultsPage());
    return ExitCode::kOk;
  }

 private:
  std::string page_;
};

}  // namespace

std::unique_ptr<Verb> MakeReferenceVerb() { return std::make_unique<ReferenceVerb>(); }

}  // namespace lcab::client
