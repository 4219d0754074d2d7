#include "lcab_version.h"

#include "lcab_version_parts.h"

namespace lcab {

BuildInfo GetBuildInfo() {
  return {
      .version = version_parts::kVersion,
      .commit = version_parts::kCommit,
      .compiler = version_parts::kCompiler,
      .flags = version_parts::kFlags,
      .build_type = version_parts::kBuildType,
      .sanitizers = version_parts::kSanitizers,
  };
}

}  // namespace lcab
