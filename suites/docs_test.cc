// docs/suites.md is the reference of the format: what it says is held against the parser.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "proto/proto_time.h"
#include "suites/catalogue.h"
#include "suites/enum_names.h"
#include "suites/expand.h"
#include "suites/format.h"
#include "suites/measure.h"
#include "suites/parse.h"

namespace lcab::suites {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::vector<std::string> DocLines() {
  std::ifstream file("docs/suites.md");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

struct DocRow {
  std::string key;
  std::string default_value;
};

// The rows of the table below `### <what>`.
std::vector<DocRow> DocRows(std::string_view what) {
  std::vector<DocRow> rows;
  bool inside = false;
  for (const std::string& line : DocLines()) {
    if (line.starts_with("#")) inside = line == "### " + std::string(what);
    if (!inside || !line.starts_with("| `")) continue;
    std::istringstream cells(line);
    std::string cell;
    std::getline(cells, cell, '|');
    std::getline(cells, cell, '|');
    DocRow row{.key = cell.substr(2, cell.size() - 4)};
    std::getline(cells, cell, '|');
    row.default_value = cell.size() < 2 ? "" : cell.substr(1, cell.size() - 2);
    rows.push_back(row);
  }
  return rows;
}

TEST(SuitesPage, TellsEveryKeyOfEveryMapAndNoOther) {
  for (const FormatMap& map : kFormatMaps) {
    std::vector<std::string> keys;
    for (const DocRow& row : DocRows(map.what)) keys.push_back(row.key);
    EXPECT_THAT(keys, ElementsAreArray(map.keys.begin(), map.keys.end())) << map.what;
  }
}

TEST(SuitesPage, DefaultsOfMeasureAreThoseOfTheParser) {
  const v1::Measure measure = DefaultMeasure();
  const auto number = [](auto value) {
    std::ostringstream text;
    text << value;
    return text.str();
  };
  // As Abseil writes durations: 10m for 10 minutes.
  const auto duration = [](const google::protobuf::Duration& value) {
    return absl::FormatDuration(FromProto(value));
  };
  const std::map<std::string, std::string> expected = {
      {"mode", Name(measure.mode())},
      {"warmup", number(measure.warmup())},
      {"min_samples", number(measure.min_samples())},
      {"max_samples", number(measure.max_samples())},
      {"max_time", duration(measure.max_time())},
      {"confidence", number(measure.confidence())},
      {"precision", number(measure.precision())},
      {"cache", Name(measure.cache())},
      {"inputs", measure.inputs()},
      {"timeout", duration(measure.timeout())},
      {"memory_limit", number(measure.memory_limit_bytes())},
  };
  std::map<std::string, std::string> written;
  for (const DocRow& row : DocRows("a measure")) written[row.key] = row.default_value;
  EXPECT_EQ(written, expected);
}

TEST(SuitesPage, RequiredKeysAreThoseThatTheParserAsksFor) {
  const absl::StatusOr<Suite> suite =
      ParseSuite({.file_name = "s.yaml", .text = "matrices: [{shape: {}, operator: {}}]\n"},
                 Catalogue::Builtin());
  const std::string errors(suite.status().message());
  for (const FormatMap& map : {kSuiteMap, kMatrixMap, kShapeMap, kOperatorMap}) {
    for (const DocRow& row : DocRows(map.what)) {
      if (row.default_value != "required") {
        EXPECT_EQ(errors.find("needs the key '" + row.key + "'"), std::string::npos) << row.key;
      } else if (row.key == "head_dim") {
        EXPECT_THAT(errors, HasSubstr("needs either head_dim, or"));
      } else if (row.key != "matrices" && row.key != "shape") {  // these are given above
        EXPECT_THAT(errors, HasSubstr(std::string(map.what) + " needs the key '" + row.key + "'"));
      }
    }
  }
}

TEST(SuitesPage, EveryExampleIsASuite) {
  std::vector<std::string> examples;
  bool inside = false;
  for (const std::string& line : DocLines()) {
    if (line == "```yaml") {
      inside = true;
      examples.emplace_back();
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      examples.back() += line + "\n";
    }
  }
  ASSERT_GE(examples.size(), 2U);
  const Catalogue catalogue = Catalogue::Builtin();
  for (const std::string& example : examples) {
    const absl::StatusOr<Suite> suite =
        ParseSuite({.file_name = "docs/suites.md", .text = example}, catalogue);
    ASSERT_TRUE(suite.ok()) << suite.status() << example;
    const absl::StatusOr<Expansion> expansion = Expand(*suite, catalogue);
    ASSERT_TRUE(expansion.ok()) << expansion.status() << example;
    if (suite->name == "example") {
      // As the page counts them; the second matrix has 4 strategies x 2 ranks x 2 overlaps.
      EXPECT_EQ(expansion->trials, 2 * 2 * 6 * 2 * 2 + 4 * 2 * 2);
    }
  }
}

}  // namespace
}  // namespace lcab::suites
