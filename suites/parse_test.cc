#include "suites/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "attention/parameters.h"
#include "proto/proto_time.h"
#include "suites/expand.h"
#include "suites/fake_kernels.h"
#include "suites/measure.h"

namespace lcab::suites {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::string_view kSmall = R"(name: small
matrices:
  - shape: {q_heads: 8, kv_heads: 2, head_dim: 64}
    seq_len: 4K
    mask: causal
    kernel: cpu_tiled
)";

absl::StatusOr<Suite> Parse(std::string_view text) {
  return ParseSuite({.file_name = "s.yaml", .text = std::string(text)}, FakeCatalogue());
}

std::string Error(std::string_view text) {
  const absl::StatusOr<Suite> suite = Parse(text);
  if (suite.ok()) return "no error";
  EXPECT_EQ(suite.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(suite.status().message());
}

// kSmall with one text in place of another.
std::string With(std::string_view from, std::string_view to) {
  std::string text(kSmall);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ParseSuite, WhatIsLeftOutHasItsDefault) {
  const absl::StatusOr<Suite> suite = Parse(kSmall);
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->name, "small");
  EXPECT_EQ(suite->seed, 1U);
  ASSERT_EQ(suite->matrices.size(), 1U);
  const Matrix& matrix = suite->matrices.front();
  ASSERT_EQ(matrix.shapes.size(), 1U);
  EXPECT_EQ(matrix.shapes[0].value.q_heads, 8);
  EXPECT_EQ(matrix.shapes[0].value.kv_heads, 2);
  EXPECT_EQ(matrix.shapes[0].value.qk_head_dim, 64);
  EXPECT_EQ(matrix.shapes[0].value.v_head_dim, 64);
  EXPECT_EQ(matrix.shapes[0].value.dtype, DType::kBFloat16);
  EXPECT_EQ(matrix.lengths[0].value.q_tokens, 4096);
  EXPECT_EQ(matrix.lengths[0].value.k_tokens, 4096);
  EXPECT_EQ(matrix.masks[0].value.name, "causal");
  EXPECT_EQ(GetInteger(matrix.kernels[0].value.options, "tile"), 64);
  EXPECT_EQ(matrix.strategies[0].value.name, "single");
  EXPECT_EQ(matrix.passes[0].value, Pass::kForward);
  EXPECT_EQ(matrix.ranks[0].value, 1);
  EXPECT_EQ(matrix.ranks_per_device[0].value, 1);
  EXPECT_TRUE(matrix.overlaps[0].value);
  EXPECT_FALSE(matrix.operators[0].value.scale.has_value());
  EXPECT_EQ(matrix.measures[0].value.SerializeAsString(), DefaultMeasure().SerializeAsString());
}

TEST(ParseSuite, AnOperatorThatIsNotBuiltIsAnsweredWithThoseThatAre) {
  EXPECT_EQ(Error(std::string(kSmall) + "    operator: linear\n"),
            "s.yaml:7:15: unknown operator 'linear'; known: softmax");
  EXPECT_THAT(Error(std::string(kSmall) + "    operator: [softmax, {name: softmx}]\n"),
              HasSubstr("s.yaml:7:32: unknown operator 'softmx'; did you mean 'softmax'?"));
}

TEST(ParseSuite, ScaleAndSoftcapAreNumbersThatFp32CanCompute) {
  const auto error = [](std::string_view fields) {
    return Error(std::string(kSmall) + "    operator: {name: softmax, " + std::string(fields) +
                 "}\n");
  };
  for (const std::string_view value : {"1e999", "nan", "inf", ".inf", "0x10", "+1", "1_000"}) {
    EXPECT_THAT(error("scale: " + std::string(value)), HasSubstr("s.yaml:7:38: scale is '"));
    EXPECT_THAT(error("softcap: " + std::string(value)), HasSubstr("s.yaml:7:40: softcap is '"));
  }
  EXPECT_THAT(error("scale: 1000000"),
              HasSubstr("s.yaml:7:38: scale is 1000000; it must be 0, or"));
  EXPECT_THAT(error("softcap: -1"), HasSubstr("s.yaml:7:40: softcap is -1; it must be 0 (none)"));
  EXPECT_THAT(error("softcap: 1e-300"), HasSubstr("s.yaml:7:40: softcap is 1e-300"));
  EXPECT_THAT(error("softcap: 1e30"), HasSubstr("s.yaml:7:40: softcap is 1e+30"));
  EXPECT_EQ(error("softcap: 30, scale: -0.5"), "no error");
}

TEST(ParseSuite, NumbersAreWrittenInOneWayOnly) {
  for (const std::string_view value :
       {"1e999", "nan", "inf", "0x10", "-1", "0", "010", "4k", "1.5K", "'4K'", "1e3", "4 K",
        "99999999999999999999", "9007199254740993G"}) {
    EXPECT_THAT(Error(With("4K", value)), HasSubstr("s.yaml:4:14: seq_len ")) << value;
  }
  for (const std::string_view bin :
       {"[1, 1e999, 1]", "[1, 10, nan]", "[1, 10, inf]", "[1, 0x10, 1]", "[1, 10]", "[a, 10, 1]"}) {
    const absl::StatusOr<Suite> suite =
        Parse(With("causal\n", "{name: causal_document, histogram: [" + std::string(bin) + "]}\n"));
    // Lists are read by what they look like; the mask then refuses them, in the same words.
    if (!suite.ok()) continue;
    const absl::StatusOr<Expansion> expansion = Expand(*suite, FakeCatalogue());
    ASSERT_FALSE(expansion.ok()) << bin;
    EXPECT_THAT(std::string(expansion.status().message()), HasSubstr("s.yaml:5:11: ")) << bin;
  }
}

TEST(ParseSuite, NamesThatMeanSomethingElsewhereAreRefused) {
  for (const std::string& name :
       {std::string(".."), std::string("."), std::string("a/b"), std::string("-rf"),
        std::string("\"a\\x01b\""), std::string("\"\""), std::string(65, 'x'), std::string("a b"),
        std::string("\xC3\xA9")}) {
    EXPECT_THAT(Error(With("small", name)),
                AllOf(HasSubstr("s.yaml:1:7: name is "),
                      HasSubstr("1 to 64 letters, digits, '_', '-' and '.', and begin with")))
        << name;
  }
  EXPECT_EQ(Error(With("small", "~")), "s.yaml:1:7: name must be a text; this is nothing");
  EXPECT_EQ(Error(With("small", std::string(64, 'x'))), "no error");
}

TEST(ParseSuite, CombinationsOfLongListsAreRefusedBeforeTheyFillTheMemory) {
  std::string lengths = "1", names = "causal_document";
  for (int n = 0; n < 50'000; ++n) lengths += ",1";
  for (int n = 0; n < 1'000; ++n) names += ", causal_document";
  EXPECT_THAT(Error(With("causal\n", "{name: causal_document, share: [0.1, 0.2], lengths: [" +
                                         lengths + "], uniform_min: [1, 2, 3, 4, 5, 6, 7, 8, 9, " +
                                         "10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]}\n")),
              HasSubstr("hold more than 1000000 values"));
  EXPECT_THAT(Error(With("causal\n", "{name: [" + names + "], lengths: [" + lengths + "]}\n")),
              HasSubstr("hold more than 1000000 values"));
}

TEST(ParseSuite, EveryListIsAnAxis) {
  const absl::StatusOr<Suite> suite = Parse(R"(
name: axes
seed: 7
measure: {min_samples: 4, max_time: 500ms, cache: warm}
matrices:
  - shape: [{q_heads: [8, 16], kv_heads: 8, head_dim: 64, dtype: [bf16, fp32]},
            {q_heads: 4, qk_head_dim: 192, v_head_dim: 128}]
    operator: [softmax, {name: softmax, softcap: [20, 30.5], scale: 0.1}]
    seq_len: [1K, {per_rank: [2K, 3K]}, {q_tokens: 0, k_tokens: 96}]
    mask: [full, {name: sliding_window_causal, window: [128, 1K]}, {name: causal_document, draws: 3}]
    kernel: {name: [cpu_tiled, cpu_reference], tile: [32, 64], order: columns, skip_empty: false}
    pass: [forward, backward]
    strategy: [single, ring]
    ranks: [1, 2]
    ranks_per_device: [1, 2]
    overlap: [true, false]
    measure: {cache: [cold, warm], inputs: heavy_tailed}
)");
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->seed, 7U);
  const Matrix& matrix = suite->matrices.front();
  EXPECT_EQ(matrix.shapes.size(), 5U);
  EXPECT_EQ(matrix.shapes[4].value.kv_heads, 4);  // as many as q_heads
  EXPECT_EQ(matrix.shapes[4].value.qk_head_dim, 192);
  EXPECT_EQ(matrix.shapes[4].value.v_head_dim, 128);
  ASSERT_EQ(matrix.operators.size(), 3U);
  EXPECT_EQ(matrix.operators[2].value.softcap, 30.5);
  EXPECT_EQ(matrix.operators[2].value.scale, 0.1);
  ASSERT_EQ(matrix.lengths.size(), 4U);
  EXPECT_TRUE(matrix.lengths[1].value.per_rank);
  EXPECT_EQ(matrix.lengths[2].value.q_tokens, 3072);
  EXPECT_EQ(matrix.lengths[3].value.q_tokens, 0);
  EXPECT_EQ(matrix.lengths[3].value.k_tokens, 96);
  ASSERT_EQ(matrix.masks.size(), 4U);
  EXPECT_EQ(GetInteger(matrix.masks[2].value.options, "window"), 1024);
  EXPECT_EQ(matrix.masks[3].value.draws, 3);
  ASSERT_EQ(matrix.kernels.size(), 4U);
  EXPECT_EQ(matrix.kernels[3].value.name, "cpu_reference");
  EXPECT_EQ(GetInteger(matrix.kernels[3].value.options, "tile"), 64);
  EXPECT_EQ(GetText(matrix.kernels[3].value.options, "order"), "columns");
  EXPECT_FALSE(GetBool(matrix.kernels[3].value.options, "skip_empty"));
  EXPECT_EQ(matrix.passes.size(), 2U);
  EXPECT_EQ(matrix.strategies.size(), 2U);
  EXPECT_EQ(matrix.ranks.size(), 2U);
  EXPECT_EQ(matrix.ranks_per_device.size(), 2U);
  EXPECT_EQ(matrix.overlaps.size(), 2U);
  ASSERT_EQ(matrix.measures.size(), 2U);
  EXPECT_EQ(matrix.measures[0].value.cache(), v1::CACHE_COLD);
  EXPECT_EQ(matrix.measures[1].value.cache(), v1::CACHE_WARM);
  EXPECT_EQ(matrix.measures[1].value.inputs(), "heavy_tailed");
  EXPECT_EQ(matrix.measures[1].value.min_samples(), 4);  // the suite's
  EXPECT_EQ(FromProto(matrix.measures[1].value.max_time()), absl::Milliseconds(500));
}

TEST(ParseSuite, ListsThatAreValuesAreNoAxes) {
  const absl::StatusOr<Suite> suite =
      Parse(With("mask: causal",
                 "mask: {name: slices, slices: [[0, 160, 0, 96, causal], [0, 1K, "
                 "96, 128, full]]}"));
  ASSERT_TRUE(suite.ok()) << suite.status();
  ASSERT_EQ(suite->matrices[0].masks.size(), 1U);
  const Value::List& slices = GetList(suite->matrices[0].masks[0].value.options, "slices");
  ASSERT_EQ(slices.size(), 2U);
  const auto& second = std::get<Value::List>(slices[1].data);
  EXPECT_EQ(second[1], Value{int64_t{1024}});
  EXPECT_EQ(second[4], Value{std::string("full")});
}

TEST(ParseSuite, HiddenKernelsRunWhenNamedAndStandInNoMessage) {
  EXPECT_TRUE(Parse(With("cpu_tiled", "test_crash")).ok());
  EXPECT_THAT(Error(With("cpu_tiled", "test_crush")), ::testing::Not(HasSubstr("test_crash")));
}

TEST(ParseSuite, KernelsThatWorkersAnnouncedAreKnownWithTheirParameters) {
  Catalogue catalogue = FakeCatalogue();
  v1::KernelInfo info;
  info.set_name("cudnn");
  info.set_device_kind("cuda");
  v1::ParameterInfo& parameter = *info.add_parameters();
  parameter.set_name("deterministic");
  parameter.set_kind(v1::ParameterInfo::KIND_BOOL);
  parameter.mutable_default_value()->set_bool_value(false);
  ASSERT_TRUE(catalogue.Add(info).ok());
  const SuiteSource good{.file_name = "s.yaml",
                         .text = With("cpu_tiled", "{name: cudnn, deterministic: true}")};
  const absl::StatusOr<Suite> suite = ParseSuite(good, catalogue);
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_TRUE(GetBool(suite->matrices[0].kernels[0].value.options, "deterministic"));
  EXPECT_THAT(Error(good.text), HasSubstr("unknown kernel 'cudnn'"));
}

TEST(ParseSuite, AMisspeltNameIsRefusedAtItsPlaceWithTheNearest) {
  EXPECT_EQ(Error(With("kernel: cpu_tiled", "kernel: [cpu_tild]")),
            "s.yaml:6:14: unknown kernel 'cpu_tild'; did you mean 'cpu_tiled'? Known: "
            "cpu_reference, cpu_tiled");
  EXPECT_THAT(Error(With("mask: causal", "mask: casual")),
              HasSubstr("s.yaml:5:11: unknown mask 'casual'; did you mean 'causal'?"));
  EXPECT_THAT(Error(With("kernel:", "strategy: rign\n    kernel:")),
              HasSubstr("s.yaml:6:15: unknown strategy 'rign'; did you mean 'ring'?"));
  EXPECT_THAT(Error(With("seq_len", "seqlen")),
              AllOf(HasSubstr("s.yaml:4:5: unknown key of a matrix 'seqlen'; did you mean "
                              "'seq_len'?"),
                    HasSubstr("s.yaml:3:5: a matrix needs the key 'seq_len'")));
  EXPECT_THAT(Error(With("q_heads", "qheads")), HasSubstr("unknown key of a shape 'qheads'"));
  EXPECT_THAT(Error(With("cpu_tiled", "{name: cpu_tiled, tlie: 3}")),
              HasSubstr("s.yaml:6:31: unknown parameter of kernel cpu_tiled 'tlie'; did you mean "
                        "'tile'?"));
  EXPECT_THAT(Error("nmae: x\nmatrices: []\n"), HasSubstr("did you mean 'name'?"));
}

TEST(ParseSuite, ImpossibleValuesAreRefusedAtTheirPlace) {
  EXPECT_THAT(Error(With("seq_len: 4K", "seq_len: [0]")),
              HasSubstr("s.yaml:4:15: seq_len is '0'; it must be from 1 to 2147483648"));
  EXPECT_THAT(Error(With("4K", "-5")), HasSubstr("seq_len is '-5'"));
  EXPECT_THAT(Error(With("4K", "99999999999999999999")), HasSubstr("s.yaml:4:14"));
  EXPECT_THAT(Error(With("q_heads: 8", "q_heads: 33")),
              HasSubstr("s.yaml:3:22: q_heads is 33 and kv_heads is 2: every kv head serves the "
                        "same number of query heads, so 2 must divide q_heads; 34 would do"));
  EXPECT_THAT(Error(With("head_dim: 64", "head_dim: 0")), HasSubstr("head_dim is '0'"));
  EXPECT_THAT(Error(With("head_dim: 64", "v_head_dim: 64")), HasSubstr("either head_dim, or both"));
  EXPECT_THAT(Error(With("head_dim: 64", "head_dim: 64, qk_head_dim: 64")),
              HasSubstr("either head_dim, or both"));
  EXPECT_THAT(Error(With("head_dim: 64", "head_dim: 64, dtype: fp16")),
              HasSubstr("unknown dtype 'fp16'"));
  EXPECT_THAT(Error(With("kernel:", "pass: back\n    kernel:")), HasSubstr("unknown pass 'back'"));
  EXPECT_THAT(Error(With("kernel:", "ranks: 0\n    kernel:")), HasSubstr("ranks is '0'"));
  EXPECT_THAT(Error(With("kernel:", "overlap: yes\n    kernel:")),
              HasSubstr("overlap is 'yes'; it must be true or false"));
  EXPECT_THAT(Error(With("cpu_tiled", "{name: cpu_tiled, tile: 2048}")),
              HasSubstr("s.yaml:6:37: 'cpu_tiled': parameter 'tile' must be in 1..1024"));
  EXPECT_THAT(Error(With("cpu_tiled", "{name: cpu_tiled, order: cols}")),
              HasSubstr("s.yaml:6:38: "));
  EXPECT_THAT(Error(With("cpu_tiled", "{name: cpu_tiled, skip_empty: 1}")),
              HasSubstr("skip_empty is '1'; it must be true or false"));
  EXPECT_THAT(Error(With("cpu_tiled", "{tile: 3}")), HasSubstr("a kernel is a name, or a map"));
}

TEST(ParseSuite, UnitsMustBeThoseOfTheValue) {
  EXPECT_THAT(Error(With("4K", "4KB")), HasSubstr("with K (1024), M (1024 K) or G"));
  EXPECT_THAT(Error(With("4K", "\"4K\"")), HasSubstr("remove the quotes"));
  EXPECT_THAT(Error("measure: {max_time: 5}\n" + std::string(kSmall)),
              HasSubstr("s.yaml:1:21: max_time is '5'; it must be a duration with its unit"));
  EXPECT_THAT(Error("measure: {max_time: 0s}\n" + std::string(kSmall)),
              HasSubstr("it must be from 1ms to 24h"));
  EXPECT_THAT(Error("measure: {confidence: 95%}\n" + std::string(kSmall)), HasSubstr("confidence"));
  EXPECT_THAT(Error("measure: {confidence: 1}\n" + std::string(kSmall)),
              HasSubstr("from 0.5 to 0.999"));
}

TEST(ParseSuite, SettingsThatContradictEachOtherAreRefused) {
  EXPECT_THAT(Error("measure: {min_samples: 20, max_samples: 10}\n" + std::string(kSmall)),
              HasSubstr("max_samples is 10, below min_samples, which is 20"));
  EXPECT_THAT(Error("measure: {max_time: 1m, timeout: 30s}\n" + std::string(kSmall)),
              HasSubstr("timeout is 30s, shorter than max_time, which is 1m"));
}

TEST(ParseSuite, AxesStandOnlyBelowMatrices) {
  EXPECT_THAT(Error("measure: {cache: [cold, warm]}\n" + std::string(kSmall)),
              HasSubstr("s.yaml:1:18: cache must be cold or warm; this is a list"));
}

TEST(ParseSuite, EmptyListsAreRefused) {
  EXPECT_THAT(Error(With("mask: causal", "mask: []")), HasSubstr("s.yaml:5:11: an empty list"));
  EXPECT_THAT(Error(With("kernel: cpu_tiled", "kernel:")), HasSubstr("a value is missing"));
  EXPECT_THAT(Error("name: x\nmatrices: []\n"), HasSubstr("at least one matrix"));
  EXPECT_THAT(Error("name: x\nmatrices: 3\n"), HasSubstr("at least one matrix"));
}

TEST(ParseSuite, EverythingThatIsWrongIsTold) {
  const std::string errors = Error(R"(name: a b
sed: 3
matrices:
  - shape: {q_heads: 7, kv_heads: [2, 7], head_dim: 64}
    seq_len: 1k
    mask: [full, cusal]
    kernel: [cpu_tild, cpu_tiled]
)");
  for (const char* place : {"s.yaml:1:7:", "s.yaml:2:1:", "s.yaml:4:22:", "s.yaml:5:14:",
                            "s.yaml:6:18:", "s.yaml:7:14:"}) {
    EXPECT_THAT(errors, HasSubstr(place));
  }
}

TEST(ParseSuite, WhatAnAxisRepeatsIsToldOnce) {
  const std::string errors =
      Error(With("kernel: cpu_tiled", "kernel: {name: cpu_tild, tile: [1, 2, 3]}"));
  EXPECT_EQ(errors.find("cpu_tild"), errors.rfind("cpu_tild"));
}

TEST(ParseSuite, DrawsAreForRandomMasks) {
  EXPECT_THAT(Error(With("mask: causal", "mask: {name: causal, draws: 3}")),
              HasSubstr("mask causal is not random: remove 'draws'"));
  EXPECT_THAT(Error(With("mask: causal", "mask: {name: causal_document, draws: 0}")),
              HasSubstr("draws is '0'; it must be from 1 to 1000"));
}

TEST(ParseSuite, AHistogramMayBeAFile) {
  SuiteSource source{
      .file_name = "s.yaml",
      .text = With("mask: causal", "mask: {name: causal_document, histogram: lengths.json}")};
  const absl::StatusOr<Suite> missing = ParseSuite(source, FakeCatalogue());
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("s.yaml:5:46: there is no file 'lengths.json'"));
  source.files["lengths.json"] = R"json({"[1,100)": 3, "[100,200)": 1.5})json";
  const absl::StatusOr<Suite> suite = ParseSuite(source, FakeCatalogue());
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(ValueText(suite->matrices[0].masks[0].value.options.at("histogram")),
            "[[1,100,3],[100,200,1.5]]");
  source.files["lengths.json"] = "[1, 2]";
  EXPECT_THAT(std::string(ParseSuite(source, FakeCatalogue()).status().message()),
              HasSubstr("s.yaml:5:46: 'lengths.json': "));
}

TEST(ParseSuite, NoTextCrashesTheParser) {
  const std::string text = With("mask: causal", "mask: {name: causal_document, draws: 2}");
  for (size_t i = 0; i < text.size(); ++i) {
    Error(text.substr(0, i));
    for (const char c : {'[', ']', '{', '}', '\n', ' ', '-', ':', '9', '*', '\x01'}) {
      std::string changed = text;
      changed[i] = c;
      Error(changed);
    }
  }
}

TEST(ParseSuite, MessagesHoldNoControlCharacters) {
  const std::string error = Error(With("cpu_tiled", "\"cpu\\e[31m\""));
  EXPECT_THAT(error, HasSubstr("'cpu\\x1b[31m'"));
  EXPECT_EQ(error.find('\033'), std::string::npos);
}

}  // namespace
}  // namespace lcab::suites
