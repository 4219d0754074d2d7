// `lcab-client explain`: what a suite would run, what that takes, and what cannot run and why.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/output.h"
#include "client/submission.h"
#include "client/verb.h"
#include "client/verbs.h"
#include "report/explain.h"
#include "suites/calibration.h"
#include "suites/catalogue.h"
#include "suites/estimate.h"
#include "suites/expand.h"
#include "suites/parse.h"
#include "suites/source.h"

namespace lcab::client {
namespace {

class ExplainVerb : public Verb {
 public:
  std::string_view name() const override { return "explain"; }
  std::string_view summary() const override {
    return "Say what a suite would run: trials, work, bytes, memory, time, and what cannot run";
  }
  std::string_view details() const override {
    return "Area, FLOPs and bytes are exact. Memory is that of the rank that needs most. Times are "
           "rough: each kernel is run for a tenth of a second here, and 'at most' is a trial that "
           "samples until its limits, with its checks. Explain asks no coordinator: it knows the "
           "kernels of this program, of which a fleet's workers may have others.";
  }
  std::string_view example() const override {
    return "lcab-client explain quick\nlcab-client explain suites/cp_cpu.yaml --output json";
  }
  std::vector<Argument> Arguments() override {
    return {SuiteArgument(&suite_), OutputArgument(&output_)};
  }

  ExitCode Run(Console& console) override {
    const absl::StatusOr<suites::SuiteSource> source = suites::LoadSuite(suite_);
    if (!source.ok()) return Refuse(console, source.status());
    suites::Catalogue catalogue = suites::Catalogue::Builtin();
    catalogue.set_other_kernels(
        " (explain knows the kernels of this program only; `lcab-client submit` has the "
        "coordinator check a suite against those of its workers)");
    const absl::StatusOr<suites::Suite> suite = suites::ParseSuite(*source, catalogue);
    if (!suite.ok()) return Refuse(console, suite.status());
    absl::StatusOr<suites::Expansion> expansion = suites::Expand(*suite, catalogue);
    if (!expansion.ok()) return Refuse(console, expansion.status());
    return Explain(console, *expansion, catalogue);
  }

 private:
  static ExitCode Refuse(Console& console, const absl::Status& status) {
    return Fail(console, ExitCode::kSuite, std::string(status.message()));
  }

  ExitCode Explain(Console& console, suites::Expansion& expansion,
                   const suites::Catalogue& catalogue) const {
    suites::Calibration calibration;
    std::vector<report::ExplainedTrial> trials;
    for (size_t cohort = 0; cohort < expansion.cohorts.size(); ++cohort) {
      for (v1::TrialSpec& spec : *expansion.cohorts[cohort].mutable_trials()) {
        absl::StatusOr<suites::Estimate> estimate =
            suites::EstimateTrial(spec, catalogue, calibration);
        if (!estimate.ok()) {
          return Fail(console, ExitCode::kInternal,
                      fmt::format("{}: {}", spec.key(), std::string(estimate.status().message())));
        }
        trials.push_back({.cohort = static_cast<int64_t>(cohort),
                          .index = static_cast<int64_t>(trials.size()),
                          .spec = std::move(spec),
                          .estimate = *estimate});
      }
    }
    if (output_ == kTable) {
      console.out << report::ExplainTable(trials, console.out_terminal);
    } else {
      PrintRows(console, output_, report::ExplainRows(trials));
    }
    return ExitCode::kOk;
  }

  std::string suite_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Verb> MakeExplainVerb() { return std::make_unique<ExplainVerb>(); }

}  // namespace lcab::client
