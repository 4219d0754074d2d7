// A result is worth what is known of the build that made it.

#include "lcab_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lcab {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Version, NamesTheReleaseTheCompilerAndTheBuildType) {
  const BuildInfo info = GetBuildInfo();
  EXPECT_THAT(std::string(info.version), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(std::string(info.compiler), MatchesRegex("(GNU|Clang) [0-9.]+"));
  EXPECT_THAT(std::string(info.build_type), AnyOf("Release", "Debug", "Sanitize"));
}

TEST(Version, CommitIsTwelveDigitsAndSaysWhenTheTreeIsDirty) {
  EXPECT_THAT(std::string(GetBuildInfo().commit), MatchesRegex("unknown|[0-9a-f]{12,40}(-dirty)?"));
}

TEST(Version, FlagsAreThoseThatChangeTheCode) {
  const std::string flags(GetBuildInfo().flags);
  EXPECT_THAT(flags, HasSubstr("-O"));
  EXPECT_THAT(flags, HasSubstr("-ffp-contract=off"));
}

TEST(Version, SanitizersAreThoseThatTheCompilerSees) {
  const std::string sanitizers(GetBuildInfo().sanitizers);
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_EQ(sanitizers, "address,undefined");
#elif defined(__SANITIZE_THREAD__)
  EXPECT_EQ(sanitizers, "thread");
#else
  EXPECT_EQ(sanitizers, "");
#endif
}

}  // namespace
}  // namespace lcab
