// The parts of BuildInfo, each defined in a generated source. Private to lcab_version.

#ifndef LCAB_CMAKE_VERSION_LCAB_VERSION_PARTS_H_
#define LCAB_CMAKE_VERSION_LCAB_VERSION_PARTS_H_

namespace lcab::version_parts {

extern const char kVersion[];
extern const char kCommit[];
extern const char kCompiler[];
extern const char kFlags[];
extern const char kBuildType[];
extern const char kSanitizers[];

}  // namespace lcab::version_parts

#endif  // LCAB_CMAKE_VERSION_LCAB_VERSION_PARTS_H_
