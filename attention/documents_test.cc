// Document lengths: that they fill, follow their histograms, and refuse what does not fit.

#include "attention/documents.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;

DocumentOptions By(std::string_view name) {
  const auto bins = LengthHistogram(name).value();
  return {.histogram = {bins.begin(), bins.end()}};
}

int64_t Sum(const std::vector<int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

TEST(DocumentsTest, LengthsFillTheSequenceExactly) {
  for (const std::string& name : LengthHistogramNames()) {
    for (const int64_t tokens : {0, 1, 2, 31, 997, 8192, 131071}) {
      for (int64_t draw = 0; draw < 5; ++draw) {
        const auto lengths = DrawDocuments(tokens, By(name), 7, draw).value();
        EXPECT_EQ(Sum(lengths), tokens);
        EXPECT_THAT(lengths, Each(Ge(1)));
      }
    }
  }
}

TEST(DocumentsTest, MoreDocumentsThanMemoryHoldsAreRefused) {
  DocumentOptions options;
  options.histogram = {{1, 2, 1}};
  EXPECT_EQ(DrawDocuments(kMaxDocuments, options, 1, 0).value().size(),
            static_cast<size_t>(kMaxDocuments));
  EXPECT_EQ(DrawDocuments(kMaxDocuments + 1, options, 1, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DrawDocuments(kMaxDocumentTokens, options, 1, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DocumentsTest, SeedAndDrawDecideTheLengths) {
  const auto lengths = DrawDocuments(100000, By("pile"), 1, 0).value();
  EXPECT_EQ(DrawDocuments(100000, By("pile"), 1, 0).value(), lengths);
  EXPECT_NE(DrawDocuments(100000, By("pile"), 1, 1).value(), lengths);
  EXPECT_NE(DrawDocuments(100000, By("pile"), 2, 0).value(), lengths);
}

// The generator and the rule in a form of their own: bins by weight, then uniform within the bin.
TEST(DocumentsTest, BinsComeWithTheirWeightsAndLengthsAreUniformInThem) {
  DocumentOptions options;
  options.histogram = {{1, 3, 1}, {10, 20, 2}, {100, 101, 1}};
  const auto lengths = DrawDocuments(4000000, options, 3, 0).value();
  std::map<int64_t, double> share;
  for (const int64_t length : lengths) {
    share[length] += 1.0 / static_cast<double>(lengths.size());
  }
  const double few = 5 / std::sqrt(static_cast<double>(lengths.size()));  // deviations
  EXPECT_NEAR(share[1], 0.125, few);
  EXPECT_NEAR(share[2], 0.125, few);
  EXPECT_EQ(share[3], 0);
  for (int64_t length = 10; length < 20; ++length) EXPECT_NEAR(share[length], 0.05, few) << length;
  EXPECT_NEAR(share[100], 0.25, few);
}

// Shares of documents up to a length, counted in the published histograms.
TEST(DocumentsTest, BuiltInHistogramsKeepTheSharesOfThePublishedOnes) {
  struct Case {
    std::string name;
    int64_t length;
    double share;
  };
  const std::vector<Case> cases = {
      {"pile", 64, 0.0939},        {"pile", 256, 0.4980},        {"pile", 700, 0.7843},
      {"pile", 2000, 0.9147},      {"pile", 16384, 0.9978},      {"prolong64k", 64, 0.0412},
      {"prolong64k", 256, 0.3538}, {"prolong64k", 1000, 0.8315}, {"prolong64k", 8000, 0.9862},
      {"prolong512k", 64, 0.0460}, {"prolong512k", 700, 0.7580}, {"prolong512k", 10912, 0.9927},
  };
  for (const Case& c : cases) {
    double below = 0, total = 0;
    const std::span<const LengthBin> bins = LengthHistogram(c.name).value();
    for (const LengthBin& bin : bins) {
      total += bin.weight;
      const double width = static_cast<double>(bin.end - bin.begin);
      const double part = std::clamp(static_cast<double>(c.length - bin.begin) / width, 0.0, 1.0);
      below += part * bin.weight;
    }
    EXPECT_NEAR(total, 1, 1e-9) << c.name;
    EXPECT_NEAR(below, c.share, 0.006) << c.name << " " << c.length;
  }
}

TEST(DocumentsTest, NoDocumentIsLongerThanTheCap) {
  DocumentOptions options = By("prolong512k");
  options.cap = 1000;
  const auto lengths = DrawDocuments(1000000, options, 1, 0).value();
  EXPECT_THAT(lengths, Each(Le(1000)));
  EXPECT_EQ(*std::max_element(lengths.begin(), lengths.end()), 1000);
  EXPECT_EQ(Sum(lengths), 1000000);
}

TEST(DocumentsTest, MixHasItsShareOfUniformDocumentsShuffled) {
  DocumentOptions options;
  options.histogram = {{1, 2, 1}};  // one-token documents, so that the two kinds are told apart
  options.uniform_share = 0.6;
  options.uniform_min = 8192;
  options.uniform_max = 30720;
  const auto lengths = DrawDocuments(1000000, options, 1, 0).value();
  EXPECT_EQ(std::count(lengths.begin(), lengths.end(), 1), 400000);
  EXPECT_EQ(Sum(lengths), 1000000);
  std::vector<int64_t> uniform;
  size_t first = lengths.size(), last = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] == 1) continue;
    uniform.push_back(lengths[i]);
    first = std::min(first, i);
    last = i;
  }
  EXPECT_THAT(uniform, Each(Le(30720)));
  // All but the one that was cut to what remained.
  EXPECT_LE(std::count_if(uniform.begin(), uniform.end(), [](int64_t x) { return x < 8192; }), 1);
  EXPECT_GT(last - first, lengths.size() / 2);
}

TEST(DocumentsTest, OptionsThatDoNotFitAreRefused) {
  const auto says = [](int64_t tokens, const DocumentOptions& options, int64_t draw = 0) {
    const auto lengths = DrawDocuments(tokens, options, 0, draw);
    return lengths.ok() ? "ok" : std::string(lengths.status().message());
  };
  DocumentOptions options = By("pile");
  EXPECT_THAT(says(-1, options), HasSubstr("-1 tokens"));
  EXPECT_THAT(says(int64_t{1} << 40, options), HasSubstr("2147483648"));
  EXPECT_THAT(says(10, options, -1), HasSubstr("draw -1"));
  options.cap = -5;
  EXPECT_THAT(says(10, options), HasSubstr("cap -5"));
  options = By("pile");
  options.uniform_share = std::nan("");
  EXPECT_THAT(says(10, options), HasSubstr("share"));
  options.uniform_share = 0.5;
  options.uniform_min = 9;
  options.uniform_max = 8;
  EXPECT_THAT(says(10, options), HasSubstr("9..8"));
  EXPECT_THAT(says(10, {}), HasSubstr("needs a bin"));
  EXPECT_THAT(says(10, {.histogram = {{5, 5, 1}}}), HasSubstr("[5,5): lengths must ascend"));
  EXPECT_THAT(says(10, {.histogram = {{5, 6, 0}}}), HasSubstr("the weight is 0"));
  EXPECT_THAT(says(10, {.histogram = {{5, 8, 1}, {1, 6, 1}}}),
              HasSubstr("[1,6) and [5,8) overlap"));
}

TEST(LengthHistogramTest, UnknownNameIsAnsweredWithTheNearest) {
  const auto bins = LengthHistogram("prolong64");
  ASSERT_FALSE(bins.ok());
  EXPECT_EQ(bins.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(bins.status().message()), HasSubstr("did you mean 'prolong64k'"));
}

TEST(LengthHistogramTest, JsonObjectOfBinsIsRead) {
  const auto bins = ParseLengthHistogram(R"j({"[0,32)": 0.25, "[ 32, 64 )": 3})j");
  ASSERT_TRUE(bins.ok()) << bins.status();
  ASSERT_EQ(bins->size(), 2u);
  EXPECT_EQ((*bins)[1].begin, 32);
  EXPECT_EQ((*bins)[1].end, 64);
  EXPECT_EQ((*bins)[1].weight, 3);
}

TEST(LengthHistogramTest, MalformedTextsAreRefusedWithTheBin) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "JSON object"},
      {"[1, 2]", "JSON object"},
      {"{\"[0,32)\": 1", "JSON object"},
      {"\xff\xfe", "JSON object"},
      {std::string(100000, '['), "JSON object"},
      {"{}", "needs a bin"},
      {R"j({"[0,32]": 1})j", "bin '[0,32]'"},
      {R"j({"[0,32) ": 1, "[0;64)": 1})j", "bin '[0;64)'"},
      {R"j({"[0,99999999999999999999)": 1})j", "bin '[0,99999999999999999999)'"},
      {R"j({"[0,32)x": 1})j", "bin '[0,32)x'"},
      {R"j({"[0,32)": "1"})j", "must be a number"},
      {R"j({"[0,32)": -1})j", "above 0"},
      {R"j({"[0,32)": 1e999})j", "JSON object"},
      {"{\"[0,32)\": 1,\n\n\"[32,64)\": 1e999}", "line 3: a number is too large"},
      {"{\n\"[0,32)\": nan}", "line 2: this is not JSON"},
      {"{\n\"[0,32)\": 0x10}", "line 2: this is not JSON"},
      {"{\"[0,0x10)\": 1}", "bin '[0,0x10)'"},
      {R"j({"[0,32)": {"[0,32)": 1}})j", "bin '[0,32)': the weight must be a number"},
      {R"j({"[0,32)": [1]})j", "bin '[0,32)': the weight must be a number"},
      {"7", "JSON object"},
      {R"j({"[0,32)": 1, "[0,32)": 2})j", "there twice"},
      {R"j({"[0,32)": 1, "[31,40)": 2})j", "overlap"},
      {R"j({"[-4,32)": 1})j", "[-4,32)"},
  };
  for (const auto& [text, says] : cases) {
    const auto bins = ParseLengthHistogram(text);
    ASSERT_FALSE(bins.ok()) << text.substr(0, 50);
    EXPECT_THAT(std::string(bins.status().message()), HasSubstr(says)) << text.substr(0, 50);
  }
}

TEST(LengthHistogramTest, NamesAreThoseThatAreFound) {
  EXPECT_THAT(LengthHistogramNames(), Not(IsEmpty()));
  for (const std::string& name : LengthHistogramNames()) {
    EXPECT_TRUE(Validate(LengthHistogram(name).value()).ok()) << name;
  }
}

}  // namespace
}  // namespace lcab
