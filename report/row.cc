#include "report/row.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "proto/proto_time.h"
#include "report/rates.h"
#include "suites/enum_names.h"
#include "suites/labels.h"

namespace lcab::report {
namespace {

using suites::Name;

FieldValue Real(double value) { return std::isfinite(value) ? FieldValue(value) : FieldValue(); }

FieldValue Text(std::string text) {
  return text.empty() ? FieldValue() : FieldValue(std::move(text));
}

bool Done(const v1::Trial& trial) { return trial.state() == v1::TRIAL_STATE_DONE; }

FieldValue Positive(int64_t value) { return value > 0 ? FieldValue(value) : FieldValue(); }

// A count of what a trial that ran did: known then, also where it is 0.
FieldValue Work(const v1::Trial& trial, int64_t count) {
  const v1::Outcome outcome = trial.result().outcome();
  const bool ran =
      Done(trial) && (outcome == v1::OUTCOME_OK || outcome == v1::OUTCOME_WRONG_RESULT);
  return ran ? FieldValue(count) : Positive(count);
}

FieldValue Time(bool has, const google::protobuf::Timestamp& time) {
  if (!has) return {};
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", FromProto(time), absl::UTCTimeZone());
}

// "jobs/12" of "jobs/12/trials/3".
std::string JobOf(std::string_view trial) {
  const size_t end = trial.find("/trials/");
  return std::string(trial.substr(0, end));
}

const v1::Problem& ProblemOf(const v1::Trial& trial) { return trial.spec().problem(); }
const v1::Environment& EnvironmentOf(const v1::Trial& trial) {
  return trial.result().environment();
}

// A statistic, where something was timed.
template <double (v1::Statistics::*kGet)() const>
FieldValue Statistic(const v1::Trial& trial) {
  const v1::Statistics& statistics = trial.result().statistics();
  return statistics.samples() > 0 ? Real((statistics.*kGet)()) : FieldValue();
}

template <bool (v1::Verification::*kGet)() const>
FieldValue Verdict(const v1::Trial& trial) {
  if (!trial.result().has_verification()) return {};
  return (trial.result().verification().*kGet)();
}

template <const std::string& (v1::Environment::*kGet)() const>
FieldValue EnvironmentText(const v1::Trial& trial) {
  return Text((EnvironmentOf(trial).*kGet)());
}

FieldValue SumOverRanks(const v1::Trial& trial, int64_t (v1::RankResult::*get)() const) {
  if (trial.result().ranks().empty()) return {};
  int64_t sum = 0;
  for (const v1::RankResult& rank : trial.result().ranks()) sum += (rank.*get)();
  return sum;
}

FieldValue Workers(const v1::Trial& trial) {
  std::set<std::string> workers;
  for (const v1::RankResult& rank : trial.result().ranks()) workers.insert(rank.worker());
  if (workers.empty() && !trial.attempts().empty()) {
    const auto& last = trial.attempts(trial.attempts_size() - 1).workers();
    workers.insert(last.begin(), last.end());
  }
  workers.erase("");
  return Text(fmt::format("{}", fmt::join(workers, " ")));
}

FieldValue Scale(const v1::Trial& trial) {
  const v1::SoftmaxOperator& softmax = ProblemOf(trial).softmax();
  if (softmax.has_scale()) return Real(softmax.scale());
  return Real(1 / std::sqrt(static_cast<double>(ProblemOf(trial).qk_head_dim())));
}

FieldValue Optional(std::optional<double> value) {
  return value.has_value() ? Real(*value) : FieldValue();
}

using enum FieldType;
using T = const v1::Trial&;

constexpr Field kFields[] = {
    // What it is.
    {"job", kText, "", "resource name of the job", [](T t) { return Text(JobOf(t.name())); }},
    {"trial", kText, "", "resource name of the trial", [](T t) { return Text(t.name()); }},
    {"state", kText, "", "pending, running or done", [](T t) { return Text(Name(t.state())); }},
    {"kernel", kText, "", "the kernel's name", [](T t) { return Text(t.spec().kernel().name()); }},
    {"kernel_options", kText, "", "its parameters that differ from their defaults, as a=1,b=x",
     [](T t) { return Text(suites::KernelOptionsText(t.spec().kernel())); }},
    {"strategy", kText, "", "how ranks share the problem; single: one device alone",
     [](T t) { return Text(t.spec().strategy().name()); }},
    {"strategy_options", kText, "", "its parameters that differ from their defaults",
     [](T t) { return Text(suites::StrategyOptionsText(t.spec().strategy())); }},
    {"ranks", kInteger, "", "ranks that share the problem",
     [](T t) { return FieldValue(int64_t{t.spec().ranks()}); }},
    {"ranks_per_device", kInteger, "", "ranks on each device",
     [](T t) { return FieldValue(int64_t{t.spec().ranks_per_device()}); }},
    {"virtual", kBool, "", "several ranks share a device, so that times say little of a cluster's",
     [](T t) { return FieldValue(t.spec().ranks_per_device() > 1); }},
    {"overlap", kBool, "", "communication on streams of its own",
     [](T t) { return FieldValue(t.spec().overlap()); }},
    {"mask", kText, "", "the mask's name", [](T t) { return Text(ProblemOf(t).mask().name()); }},
    {"mask_options", kText, "", "its parameters that differ from their defaults",
     [](T t) { return Text(suites::MaskOptionsText(ProblemOf(t).mask())); }},
    {"seq_len", kInteger, "tokens", "query tokens of the whole problem",
     [](T t) { return FieldValue(ProblemOf(t).q_tokens()); }},
    {"k_tokens", kInteger, "tokens", "key tokens of the whole problem",
     [](T t) { return FieldValue(ProblemOf(t).k_tokens()); }},
    {"q_heads", kInteger, "", "query heads",
     [](T t) { return FieldValue(ProblemOf(t).q_heads()); }},
    {"kv_heads", kInteger, "", "key and value heads",
     [](T t) { return FieldValue(ProblemOf(t).kv_heads()); }},
    {"qk_head_dim", kInteger, "", "head dimension of Q and K",
     [](T t) { return FieldValue(ProblemOf(t).qk_head_dim()); }},
    {"v_head_dim", kInteger, "", "head dimension of V",
     [](T t) { return FieldValue(ProblemOf(t).v_head_dim()); }},
    {"dtype", kText, "", "element type of the tensors",
     [](T t) { return Text(Name(ProblemOf(t).dtype())); }},
    {"scale", kReal, "", "what logits are multiplied by", Scale},
    {"softcap", kReal, "", "bound of tanh soft capping; 0: none",
     [](T t) { return Real(ProblemOf(t).softmax().softcap()); }},
    {"seed", kInteger, "", "of the inputs and of random masks",
     [](T t) { return FieldValue(static_cast<int64_t>(ProblemOf(t).seed())); }},
    {"draw", kInteger, "", "which draw of a random mask, from 0",
     [](T t) { return FieldValue(ProblemOf(t).draw()); }},
    {"pass", kText, "", "forward or backward", [](T t) { return Text(Name(t.spec().pass())); }},
    {"mode", kText, "", "measure, or verify: not timed",
     [](T t) { return Text(Name(t.spec().measure().mode())); }},
    {"cache", kText, "", "caches before each sample: cold (flushed) or warm",
     [](T t) { return Text(Name(t.spec().measure().cache())); }},
    {"inputs", kText, "", "distribution of the inputs",
     [](T t) { return Text(t.spec().measure().inputs()); }},
    // What became of it.
    {"outcome", kText, "",
     "ok, wrong_result, unsupported, out_of_memory, timed_out, crashed, cancelled or lost",
     [](T t) { return Done(t) ? Text(Name(t.result().outcome())) : FieldValue(); }},
    {"reason", kText, "", "why the outcome is not ok",
     [](T t) { return Text(t.result().reason()); }},
    {"fault", kText, "", "of a failed trial: kernel, limit (of time or memory) or infrastructure",
     [](T t) { return Text(Name(t.result().fault())); }},
    {"fault_rank", kInteger, "", "the rank at fault, where it is one",
     [](T t) {
       const bool one = t.result().fault() != v1::FAULT_UNSPECIFIED && t.result().rank() >= 0;
       return one ? FieldValue(int64_t{t.result().rank()}) : FieldValue();
     }},
    {"attempts", kInteger, "", "tries at the trial so far",
     [](T t) { return FieldValue(int64_t{t.attempts_size()}); }},
    // What was measured.
    {"area", kInteger, "pairs",
     "allowed (query, key) pairs, summed over query heads; 0 under a mask that allows none",
     [](T t) { return Work(t, t.result().area()); }},
    {"flops", kInteger, "operations",
     "floating-point operations of the pass over the whole problem, exact",
     [](T t) { return Work(t, t.result().flops()); }},
    {"median_seconds", kReal, "seconds",
     "median of the samples; a sample is the slowest rank's time of one iteration",
     Statistic<&v1::Statistics::median_seconds>},
    {"low_seconds", kReal, "seconds", "lower end of the median's confidence interval",
     Statistic<&v1::Statistics::low_seconds>},
    {"high_seconds", kReal, "seconds", "upper end of the median's confidence interval",
     Statistic<&v1::Statistics::high_seconds>},
    {"confidence", kReal, "", "of that interval, as reached",
     Statistic<&v1::Statistics::confidence>},
    {"minimum_seconds", kReal, "seconds", "shortest sample",
     Statistic<&v1::Statistics::minimum_seconds>},
    {"maximum_seconds", kReal, "seconds", "longest sample",
     Statistic<&v1::Statistics::maximum_seconds>},
    {"quantile20_seconds", kReal, "seconds", "0.2 quantile of the samples",
     Statistic<&v1::Statistics::quantile20_seconds>},
    {"quantile80_seconds", kReal, "seconds", "0.8 quantile of the samples",
     Statistic<&v1::Statistics::quantile80_seconds>},
    {"tflops", kReal, "10^12 operations a second",
     "flops / median_seconds, of all ranks together; only where the outcome is ok and flops is not "
     "0",
     [](T t) { return Optional(Tflops(t)); }},
    {"tflops_per_device", kReal, "10^12 operations a second", "tflops / devices",
     [](T t) { return Optional(TflopsPerDevice(t)); }},
    {"samples", kInteger, "", "samples kept",
     [](T t) { return Done(t) ? FieldValue(t.result().statistics().samples()) : FieldValue(); }},
    {"discarded", kInteger, "", "samples discarded as throttled",
     [](T t) { return Done(t) ? FieldValue(t.result().statistics().discarded()) : FieldValue(); }},
    {"iterations_per_sample", kInteger, "",
     "iterations timed together as one sample, where one is too short to be timed",
     [](T t) { return Positive(t.result().statistics().iterations_per_sample()); }},
    {"stop_reason", kText, "",
     "what ended the sampling: precision, max_time, max_samples, all_throttled or verify_only",
     [](T t) { return Text(Name(t.result().stop_reason())); }},
    {"max_error", kReal, "",
     "largest row-relative L2 error against fp64 of the sampled rows and keys, of out or gradients",
     [](T t) {
       if (!t.result().has_verification()) return FieldValue();
       return Real(t.result().verification().max_error());
     }},
    {"max_error_ratio", kReal, "",
     "largest error of a sampled row or key, or of an LSE, as a share of what is tolerated",
     [](T t) {
       if (!t.result().has_verification()) return FieldValue();
       return Real(t.result().verification().max_error_ratio());
     }},
    {"probe_ok", kBool, "", "every row and key agreed with the closed forms of the mask",
     Verdict<&v1::Verification::probe_ok>},
    {"numbers_ok", kBool, "", "sampled rows and keys agreed with fp64",
     Verdict<&v1::Verification::numbers_ok>},
    {"honesty_ok", kBool, "", "the timed iterations did the work",
     Verdict<&v1::Verification::honesty_ok>},
    {"rows_checked", kInteger, "",
     "rows of out, LSE and dQ that were held against the closed forms",
     [](T t) { return Positive(t.result().verification().rows_checked()); }},
    {"keys_checked", kInteger, "", "rows of dK and dV that were held against the closed forms",
     [](T t) { return Positive(t.result().verification().keys_checked()); }},
    {"bytes_sent", kInteger, "bytes", "payload sent by all ranks in one iteration, as counted",
     [](T t) {
       return t.result().ranks().empty() ? FieldValue() : FieldValue(t.result().bytes_sent());
     }},
    {"bytes_formula", kInteger, "bytes", "the same by the strategy's formula",
     [](T t) { return SumOverRanks(t, &v1::RankResult::bytes_formula); }},
    {"peak_bytes", kInteger, "bytes", "device memory at its peak, of the rank that needs most",
     [](T t) { return Positive(t.result().peak_bytes()); }},
    {"prepare_seconds", kReal, "seconds",
     "schedules, workspace and connections before anything is timed",
     [](T t) {
       return t.result().prepare_seconds() > 0 ? Real(t.result().prepare_seconds()) : FieldValue();
     }},
    {"rounds", kInteger, "", "rounds in which the trials of the cohort took turns",
     [](T t) { return Positive(t.result().rounds()); }},
    {"ran_in_turn", kBool, "",
     "the cohort's trials did not fit in memory together, so they ran one after the other",
     [](T t) { return Done(t) ? FieldValue(t.result().ran_in_turn()) : FieldValue(); }},
    {"deterministic", kBool, "", "the kernel declares that repeated runs are bitwise equal",
     [](T t) { return Done(t) ? FieldValue(t.result().deterministic()) : FieldValue(); }},
    {"start_time", kText, "", "start of the attempt that settled the trial, RFC 3339 in UTC",
     [](T t) { return Time(t.result().has_start_time(), t.result().start_time()); }},
    {"end_time", kText, "", "its end",
     [](T t) { return Time(t.result().has_end_time(), t.result().end_time()); }},
    // Where.
    {"workers", kText, "", "workers that ran it, separated by spaces", Workers},
    {"device_model", kText, "", "model of the devices",
     EnvironmentText<&v1::Environment::device_model>},
    {"cpu_model", kText, "", "model of the host's CPU",
     EnvironmentText<&v1::Environment::cpu_model>},
    {"cpu_cores", kInteger, "", "cores of the host that LCAB may use",
     [](T t) { return Positive(EnvironmentOf(t).cpu_cores()); }},
    {"threads", kInteger, "", "threads of a rank on a CPU",
     [](T t) { return Positive(EnvironmentOf(t).threads()); }},
    {"governor", kText, "", "the CPU's frequency governor",
     EnvironmentText<&v1::Environment::governor>},
    {"os", kText, "", "operating system", EnvironmentText<&v1::Environment::os>},
    {"os_kernel", kText, "", "its kernel", EnvironmentText<&v1::Environment::os_kernel>},
    {"hostname", kText, "", "host of rank 0", EnvironmentText<&v1::Environment::hostname>},
    {"lcab_version", kText, "", "version of LCAB that measured",
     EnvironmentText<&v1::Environment::lcab_version>},
    {"lcab_commit", kText, "", "commit that it was built from",
     EnvironmentText<&v1::Environment::lcab_commit>},
    {"compiler", kText, "", "compiler that built it", EnvironmentText<&v1::Environment::compiler>},
    {"build_flags", kText, "", "flags that it was built with",
     EnvironmentText<&v1::Environment::build_flags>},
    {"environment", kText, "",
     "digest of what must be equal for two results to be comparable besides their trials",
     EnvironmentText<&v1::Environment::digest>},
    {"key", kText, "", "canonical text of the trial: repetitions have equal keys",
     [](T t) { return Text(t.spec().key()); }},
};

}  // namespace

std::string_view Name(FieldType type) {
  switch (type) {
    case kText:
      return "text";
    case kInteger:
      return "integer";
    case kReal:
      return "real";
    case kBool:
      return "bool";
  }
  return "";
}

std::span<const Field> Fields() { return kFields; }

FieldValue Get(const Field& field, const v1::Trial& trial) { return field.get(trial); }

}  // namespace lcab::report
