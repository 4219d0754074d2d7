// What this binary was built from and how; stored beside every result.
//
//   fmt::print("{}\n", lcab::GetBuildInfo().commit);

#ifndef LCAB_CMAKE_VERSION_LCAB_VERSION_H_
#define LCAB_CMAKE_VERSION_LCAB_VERSION_H_

#include <string_view>

namespace lcab {

struct BuildInfo {
  std::string_view version;     // of the project, as "0.1.0"
  std::string_view commit;      // 12 hex digits, "-dirty" where tracked files differ, or "unknown"
  std::string_view compiler;    // as "GNU 12.2.0"
  std::string_view flags;       // optimisation and code generation, without warnings
  std::string_view build_type;  // as "Release"
  std::string_view sanitizers;  // as "address,undefined"; empty when there are none
};

// Valid for the life of the program, also before main.
[[nodiscard]] BuildInfo GetBuildInfo();

}  // namespace lcab

#endif  // LCAB_CMAKE_VERSION_LCAB_VERSION_H_
