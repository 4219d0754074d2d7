// The `measure` map of a suite: how trials are measured, and its defaults.

#ifndef LCAB_SUITES_MEASURE_H_
#define LCAB_SUITES_MEASURE_H_

#include "lcab/v1/trial.pb.h"
#include "suites/diagnostics.h"
#include "suites/yaml_tree.h"

namespace lcab::suites {

// Every field set: docs/suites.md has them.
v1::Measure DefaultMeasure();

// `defaults` with what `tree`, a map without lists, gives in their place.
v1::Measure ReadMeasure(const Tree& tree, const v1::Measure& defaults, Diagnostics& diagnostics);

}  // namespace lcab::suites

#endif  // LCAB_SUITES_MEASURE_H_
