#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "attention/philox.h"
#include "suites/fake_kernels.h"
#include "suites/parse.h"
#include "suites/source.h"

namespace lcab::suites {
namespace {

// Hundreds of copies of each suite, each with some bytes changed, doubled, moved or lost: every one
// is either read or refused with its place.
TEST(ParseMutatedSuite, IsReadOrRefusedWithThePlace) {
  constexpr std::string_view kBytes = "[]{}:,-&*!|>'\"#%@?\n\t 0K\\\x01\xFF~";
  const Catalogue catalogue = FakeCatalogue();
  PhiloxStream random(/*seed=*/1, /*purpose=*/99);
  for (const ShippedSuite& shipped : ShippedSuites()) {
    for (int n = 0; n < 400; ++n) {
      std::string text(shipped.text);
      for (uint64_t change = random.Below(4); change <= 4; ++change) {
        const size_t at = random.Below(text.size());
        const size_t length = random.Below(std::min<size_t>(text.size() - at, 30)) + 1;
        switch (random.Below(4)) {
          case 0:
            text[at] = kBytes[random.Below(kBytes.size())];
            break;
          case 1:
            text.insert(random.Below(text.size()), text.substr(at, length));
            break;
          case 2:
            text.erase(at, length);
            if (text.empty()) text = "a";
            break;
          default:
            text.insert(at, length, kBytes[random.Below(kBytes.size())]);
        }
      }
      const absl::Status status =
          ParseSuite({.file_name = "s.yaml", .text = text}, catalogue).status();
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_TRUE(std::string(status.message()).starts_with("s.yaml:")) << status;
    }
  }
}

}  // namespace
}  // namespace lcab::suites
