#include "suites/axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lcab::suites {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Trees as one-line texts: scalars as they are, maps as {key=value ...}.
std::string Text(const Tree& tree) {
  if (tree.kind == Tree::Kind::kScalar) return tree.text;
  std::string text = tree.kind == Tree::Kind::kList ? "[" : "{";
  for (const Tree& element : tree.list) text += Text(element) + " ";
  for (const TreeEntry& entry : tree.entries) text += entry.key + "=" + Text(entry.value) + " ";
  text.back() = tree.kind == Tree::Kind::kList ? ']' : '}';
  return text;
}

struct Read {
  std::vector<std::string> texts;
  std::string findings;
};

Read Of(std::string_view yaml, const IsValue& is_value) {
  Diagnostics diagnostics("f.yaml");
  const std::optional<Tree> tree = ReadYaml(yaml, diagnostics);
  Read read;
  for (const Tree& one : Alternatives(tree.value(), is_value, diagnostics)) {
    read.texts.push_back(Text(one));
  }
  read.findings = std::string(diagnostics.ToStatus().message());
  return read;
}

Read Of(std::string_view yaml) {
  return Of(yaml, [](const Tree&, std::string_view) { return false; });
}

TEST(Axes, AScalarIsItselfAndAListItsElements) {
  EXPECT_THAT(Of("a").texts, ElementsAre("a"));
  EXPECT_THAT(Of("[a, b]").texts, ElementsAre("a", "b"));
}

TEST(Axes, ListsInAMapMultiplyWithTheLastKeyFastest) {
  EXPECT_THAT(Of("{x: [1, 2], y: [3, 4], z: 5}").texts,
              ElementsAre("{x=1 y=3 z=5}", "{x=1 y=4 z=5}", "{x=2 y=3 z=5}", "{x=2 y=4 z=5}"));
}

TEST(Axes, AListOfMapsStandsForAllTheyStandFor) {
  EXPECT_THAT(Of("[{x: [1, 2]}, {y: 3}]").texts, ElementsAre("{x=1}", "{x=2}", "{y=3}"));
}

TEST(Axes, AListThatIsAValueStaysWhole) {
  const Read read = Of("{name: slices, slices: [[0, 1], [2, 3]], n: [1, 2]}",
                       [](const Tree&, std::string_view key) { return key == "slices"; });
  EXPECT_THAT(read.texts, ElementsAre("{name=slices slices=[[0 1] [2 3]] n=1}",
                                      "{name=slices slices=[[0 1] [2 3]] n=2}"));
}

TEST(Axes, EmptyListsMissingValuesAndNestedListsAreFoundTogether) {
  const Read read = Of("{x: [], y: , z: [[1]]}");
  EXPECT_THAT(read.texts, IsEmpty());
  EXPECT_THAT(read.findings, HasSubstr("f.yaml:1:5: an empty list makes no trial"));
  EXPECT_THAT(read.findings, HasSubstr("a value is missing"));
  EXPECT_THAT(read.findings, HasSubstr("f.yaml:1:18: a list within a list"));
}

TEST(Axes, TooManyCombinationsAreRefusedBeforeTheyAreMade) {
  std::string list = "[0";
  for (int i = 1; i < 100; ++i) list += "," + std::to_string(i);
  list += "]";
  EXPECT_EQ(Of("{x: " + list + "}").texts.size(), 100U);
  const Read read = Of("{a: " + list + ", b: " + list + ", c: " + list + ", d: " + list + "}");
  EXPECT_THAT(read.texts, IsEmpty());
  EXPECT_THAT(read.findings, HasSubstr("more than 2000 combinations"));
}

}  // namespace
}  // namespace lcab::suites
