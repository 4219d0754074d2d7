#include "report/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "report/rates.h"
#include "report/row.h"
#include "report/sample_trials.h"

namespace lcab::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string JsonText(const std::vector<v1::Trial>& trials) {
  std::ostringstream out;
  WriteJson(ResultRows(trials), out);
  return out.str();
}

nlohmann::json OneRow(const v1::Trial& trial) {
  return nlohmann::json::parse(JsonText({trial})).at(0);
}

TEST(Rows, ATrialIsOneFlatObject) {
  const nlohmann::json row = OneRow(OkTrial());
  for (const auto& [key, value] : row.items()) EXPECT_TRUE(value.is_primitive()) << key;
  EXPECT_EQ(row.at("job"), "jobs/12");
  EXPECT_EQ(row.at("trial"), "jobs/12/trials/3");
  EXPECT_EQ(row.at("kernel"), "cpu_tiled");
  EXPECT_EQ(row.at("strategy"), "single");
  EXPECT_EQ(row.at("ranks"), 1);
  EXPECT_EQ(row.at("mask"), "causal");
  EXPECT_EQ(row.at("seq_len"), 4096);
  EXPECT_EQ(row.at("pass"), "forward");
  EXPECT_EQ(row.at("outcome"), "ok");
  EXPECT_EQ(row.at("reason"), nullptr);
  EXPECT_EQ(row.at("fault"), nullptr);
  EXPECT_EQ(row.at("flops"), 2'000'000'000);
  EXPECT_EQ(row.at("median_seconds"), 0.002);
  EXPECT_DOUBLE_EQ(row.at("tflops").get<double>(), 1.0);
  EXPECT_EQ(row.at("samples"), 10);
  EXPECT_EQ(row.at("stop_reason"), "precision");
  EXPECT_EQ(row.at("max_error"), 0.0021);
  EXPECT_EQ(row.at("virtual"), false);
  EXPECT_EQ(row.at("cpu_model"), "A CPU, with a comma");
  EXPECT_EQ(row.at("scale"), 0.125);  // 1 / sqrt(64)
}

TEST(Rows, IntegersAreExact) {
  v1::Trial trial = OkTrial();
  trial.mutable_result()->set_area((int64_t{1} << 53) + 1);
  EXPECT_EQ(OneRow(trial).at("area").get<int64_t>(), 9'007'199'254'740'993);
}

TEST(Rows, AMaskThatAllowsNothingHasNoWorkAndNoRateButATime) {
  v1::Trial trial = OkTrial();
  trial.mutable_result()->set_area(0);
  trial.mutable_result()->set_flops(0);
  const nlohmann::json row = OneRow(trial);
  EXPECT_EQ(row.at("area"), 0);
  EXPECT_EQ(row.at("flops"), 0);
  EXPECT_EQ(row.at("median_seconds"), 0.002);
  EXPECT_EQ(row.at("tflops"), nullptr);
  EXPECT_EQ(row.at("tflops_per_device"), nullptr);
  // What never ran has no work that is known.
  trial.mutable_result()->set_outcome(v1::OUTCOME_CANCELLED);
  EXPECT_EQ(OneRow(trial).at("area"), nullptr);
}

TEST(Rows, OnlyTrialsThatAreOkHaveARate) {
  for (const v1::Outcome outcome :
       {v1::OUTCOME_WRONG_RESULT, v1::OUTCOME_CRASHED, v1::OUTCOME_TIMED_OUT, v1::OUTCOME_LOST}) {
    const nlohmann::json row = OneRow(FailedTrial(outcome, v1::FAULT_KERNEL, "a reason"));
    EXPECT_EQ(row.at("tflops"), nullptr);
    EXPECT_EQ(row.at("tflops_per_device"), nullptr);
    EXPECT_EQ(row.at("reason"), "a reason");
    EXPECT_EQ(row.at("fault"), "kernel");
  }
}

TEST(Rows, NothingInfiniteOrUndefinedIsWritten) {
  v1::Trial trial = OkTrial();
  v1::Statistics& statistics = *trial.mutable_result()->mutable_statistics();
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(), 0.0, -1.0}) {
    statistics.set_median_seconds(bad);
    trial.mutable_result()->mutable_verification()->set_max_error(bad);
    const nlohmann::json row = OneRow(trial);
    EXPECT_EQ(row.at("tflops"), nullptr) << bad;
    if (!std::isfinite(bad)) {
      EXPECT_EQ(row.at("median_seconds"), nullptr);
      EXPECT_EQ(row.at("max_error"), nullptr);
    }
    std::ostringstream csv;
    WriteCsv(ResultRows(std::vector{trial}), csv);
    EXPECT_THAT(csv.str(), Not(HasSubstr("nan")));
    EXPECT_THAT(csv.str(), Not(HasSubstr("inf")));
  }
}

TEST(Rows, ATrialThatDidNotEndHasNoResults) {
  v1::Trial trial = OkTrial();
  trial.clear_result();
  trial.set_state(v1::TRIAL_STATE_RUNNING);
  const nlohmann::json row = OneRow(trial);
  EXPECT_EQ(row.at("state"), "running");
  for (const char* key : {"outcome", "flops", "median_seconds", "tflops", "samples", "max_error",
                          "probe_ok", "bytes_sent", "start_time", "cpu_model"}) {
    EXPECT_EQ(row.at(key), nullptr) << key;
  }
}

TEST(Rows, ATrialWithNothingTimedHasNoTimes) {
  v1::Trial trial = OkTrial();
  trial.mutable_result()->mutable_statistics()->Clear();
  trial.mutable_result()->set_stop_reason(v1::STOP_REASON_VERIFY_ONLY);
  const nlohmann::json row = OneRow(trial);
  EXPECT_EQ(row.at("outcome"), "ok");
  EXPECT_EQ(row.at("samples"), 0);
  EXPECT_EQ(row.at("median_seconds"), nullptr);
  EXPECT_EQ(row.at("tflops"), nullptr);
}

TEST(Rows, TextsThatAreNotUtf8DoNotBreakTheJson) {
  v1::Trial trial = FailedTrial(v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "bad \xff\xfe \"quoted\"\n");
  EXPECT_THAT(OneRow(trial).at("reason").get<std::string>(), HasSubstr("\"quoted\"\n"));
}

TEST(Rows, NoTrialsAreAnEmptyArray) { EXPECT_EQ(JsonText({}), "[]\n"); }

// Case T5: a share of a problem on P ranks is not the problem on one.
TEST(Rows, RatesOfSeveralDevicesAreGivenTogetherAndForEach) {
  v1::Trial trial = OkTrial();
  trial.mutable_spec()->set_ranks(8);
  trial.mutable_result()->set_flops(140'737'488'355'328);  // 1.40737e14
  trial.mutable_result()->mutable_statistics()->set_median_seconds(0.03518437);
  EXPECT_NEAR(Tflops(trial).value(), 4000, 0.01);
  EXPECT_NEAR(TflopsPerDevice(trial).value(), 500, 0.01);
  trial.mutable_spec()->set_ranks_per_device(2);
  EXPECT_NEAR(TflopsPerDevice(trial).value(), 1000, 0.01);
}

// Splits RFC 4180 text; a second, simple reading of the format.
std::vector<std::vector<std::string>> ReadCsv(const std::string& text) {
  std::vector<std::vector<std::string>> records(1, std::vector<std::string>(1));
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        records.back().back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        records.back().back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      records.back().emplace_back();
    } else if (c == '\r') {
      EXPECT_EQ(text.at(++i), '\n');
      records.emplace_back(1);
    } else {
      records.back().back() += c;
    }
  }
  records.pop_back();
  return records;
}

TEST(Rows, CsvHasTheSameFieldsAndQuotesWhatNeedsIt) {
  const std::vector<v1::Trial> trials = {
      OkTrial(), FailedTrial(v1::OUTCOME_CRASHED, v1::FAULT_KERNEL, "signal 11,\r\n\"here\"")};
  std::ostringstream out;
  WriteCsv(ResultRows(trials), out);
  EXPECT_THAT(out.str(), StartsWith("job,trial,state,kernel,"));
  const auto records = ReadCsv(out.str());
  ASSERT_EQ(records.size(), 3U);
  const auto at = [&](size_t record, std::string_view name) {
    for (size_t c = 0; c < records[0].size(); ++c) {
      if (records[0][c] == name) return records.at(record).at(c);
    }
    return std::string("no such column");
  };
  for (const auto& record : records) EXPECT_EQ(record.size(), Fields().size());
  EXPECT_EQ(at(1, "cpu_model"), "A CPU, with a comma");
  EXPECT_EQ(at(1, "area"), "9007199254740992");
  EXPECT_EQ(at(1, "median_seconds"), "0.002");
  EXPECT_EQ(at(1, "virtual"), "false");
  EXPECT_EQ(at(2, "reason"), "signal 11,\r\n\"here\"");
  EXPECT_EQ(at(2, "tflops"), "");
}

TEST(Rows, NamesOfFieldsDiffer) {
  std::set<std::string_view> names;
  for (const Field& field : Fields()) EXPECT_TRUE(names.insert(field.name).second) << field.name;
}

TEST(Rows, ValuesAreOfTheTypeThatTheirFieldDeclares) {
  for (const Field& field : Fields()) {
    const FieldValue value = Get(field, OkTrial());
    const bool right =
        std::holds_alternative<std::monostate>(value) ||
        (field.type == FieldType::kText && std::holds_alternative<std::string>(value)) ||
        (field.type == FieldType::kInteger && std::holds_alternative<int64_t>(value)) ||
        (field.type == FieldType::kReal && std::holds_alternative<double>(value)) ||
        (field.type == FieldType::kBool && std::holds_alternative<bool>(value));
    EXPECT_TRUE(right) << field.name;
  }
}

}  // namespace
}  // namespace lcab::report
