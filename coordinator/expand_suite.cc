#include "coordinator/expand_suite.h"

#include <string_view>

#include "spdlog/spdlog.h"
#include "suites/catalogue.h"
#include "suites/expand.h"
#include "suites/parse.h"

namespace lcab::coordinator {

absl::StatusOr<Expansion> ExpandSuite(const v1::SubmitJobRequest& request,
                                      const std::vector<v1::KernelInfo>& announced) {
  suites::Catalogue catalogue = suites::Catalogue::Builtin();
  for (const v1::KernelInfo& kernel : announced) {
    // A worker of another build may announce what this one cannot read: suites cannot name it then.
    if (const absl::Status status = catalogue.Add(kernel); !status.ok()) {
      spdlog::warn("announced kernel is not understood kernel={} why=\"{}\"", kernel.name(),
                   std::string_view(status.message().data(), status.message().size()));
    }
  }
  suites::SuiteSource source{
      .file_name = request.file_name().empty() ? "suite" : request.file_name(),
      .text = request.suite_text()};
  for (const auto& [name, content] : request.files()) source.files[name] = content;
  const auto suite = suites::ParseSuite(source, catalogue);
  if (!suite.ok()) return suite.status();
  auto expanded = suites::Expand(*suite, catalogue);
  if (!expanded.ok()) return expanded.status();
  return Expansion{.suite_name = suite->name, .cohorts = std::move(expanded->cohorts)};
}

}  // namespace lcab::coordinator
