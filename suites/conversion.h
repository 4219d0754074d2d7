// Between the words as they travel (lcab.v1) and as they compute: problems, parameters, kernels.
// What comes from a message is checked here, once: it may have come from anywhere.

#ifndef LCAB_SUITES_CONVERSION_H_
#define LCAB_SUITES_CONVERSION_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "attention/dtype.h"
#include "attention/parameters.h"
#include "attention/problem.h"
#include "kernels/kernel.h"
#include "lcab/v1/fleet.pb.h"
#include "lcab/v1/problem.pb.h"

namespace lcab::suites {

v1::DType ToProto(DType dtype);
v1::Pass ToProto(Pass pass);
v1::Value ToProto(const Value& value);
v1::Component MakeComponent(std::string_view name, const Options& options);
v1::ParameterInfo ToProto(const Parameter& parameter);

// InvalidArgument for unspecified and unknown values.
absl::StatusOr<DType> FromProto(v1::DType dtype);
absl::StatusOr<Pass> FromProto(v1::Pass pass);
// InvalidArgument for a value of no kind, and for lists nested deeper than any parameter's.
absl::StatusOr<Value> FromProto(const v1::Value& value);
absl::StatusOr<Options> OptionsOf(const v1::Component& component);
absl::StatusOr<Parameter> FromProto(const v1::ParameterInfo& parameter);

// The problem of a trial, its mask made. Fails as MakeMask() and Validate() do, and with
// InvalidArgument for counts of tokens beyond kMostTokens.
absl::StatusOr<Problem> MakeProblem(const v1::Problem& problem);

// Query or key tokens of one problem.
inline constexpr int64_t kMostTokens = int64_t{1} << 31;

// What a worker tells of a kernel of its own.
v1::KernelInfo Describe(const Kernel& kernel);

// "cpu" or "cuda".
std::string_view Name(DeviceKind kind);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_CONVERSION_H_
