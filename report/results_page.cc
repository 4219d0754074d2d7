#include "report/results_page.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "report/explain.h"
#include "report/row.h"

namespace lcab::report {
namespace {

constexpr std::string_view kIntroduction =
    R"(# Result rows

Printed by `lcab-client reference results > docs/results.md`; a test compares the two.

`lcab-client results` and `lcab-client run` print a table for people, and with `--output json` or
`--output csv` one flat row a trial for programs:

```text
lcab-client results --output json | jq -r '.[] | [.kernel, .mask, .tflops] | @tsv'
```

- JSON is an array of objects, one a line, all with the same keys in the same order. CSV is RFC 4180,
  with a header.
- Integers are exact. Reals have as many digits as it takes to read back the same value.
- What a trial does not have is `null` in JSON and empty in CSV; there is no NaN and no infinity.
- Only a trial that is `ok` has a rate (`tflops`).
- Fields are added at times; the names and meanings of those below stay.

| outcome | meaning |
| --- | --- |
| `ok` | it ran and its results were verified |
| `wrong_result` | it ran and its results are wrong, or it did not do the work; never compared, whatever its speed |
| `unsupported` | strategy, kernel or ranks cannot do exactly this; nothing ran |
| `out_of_memory` | a rank needed more memory than it may use |
| `timed_out` | it did not end before its `timeout` |
| `crashed` | a process of it died |
| `cancelled` | somebody ended it |
| `lost` | its worker was not heard of again, in every attempt |

## Fields of a result
)";

constexpr std::string_view kTableHead =
    "| field | type | unit | meaning |\n| --- | --- | --- | --- |\n";

template <typename FieldOfRow>
std::string Row(const FieldOfRow& field) {
  return fmt::format("| `{}` | {} | {} | {} |\n", field.name, Name(field.type), field.unit,
                     field.description);
}

}  // namespace

std::string ResultsPage() {
  std::string page(kIntroduction);
  page += kTableHead;
  for (const Field& field : Fields()) page += Row(field);
  page +=
      "\n## Fields of `lcab-client explain`\n"
      "Those above from `kernel` to `inputs`, and:\n\n";
  page += kTableHead;
  for (const ExplainField& field : ExplainFields()) page += Row(field);
  return page;
}

}  // namespace lcab::report
