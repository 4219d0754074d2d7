// Canonical texts of problems and trials: equal things have equal texts, in every run and build.

#ifndef LCAB_SUITES_TRIAL_KEY_H_
#define LCAB_SUITES_TRIAL_KEY_H_

#include <string>

#include "lcab/v1/problem.pb.h"
#include "lcab/v1/trial.pb.h"

namespace lcab::suites {

// `name`, or `name{a=1,b=x}` with the parameters in order.
std::string ComponentKey(const v1::Component& component);

// Everything that a problem is, in one line.
std::string ProblemKey(const v1::Problem& problem);

// Everything that decides what a trial measures: problem, pass, kernel, strategy, ranks, and of the
// measure mode, cache and inputs. How long it measures (samples, times, precision) and what it is
// allowed to use are left out: they do not make it another trial.
std::string TrialKey(const v1::TrialSpec& trial);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_TRIAL_KEY_H_
