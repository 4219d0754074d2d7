// A verb of lcab-client: what it takes, what its help says, and what it does. One file a verb:
//
//   class CancelVerb : public Verb {
//    public:
//     std::string_view name() const override { return "cancel"; }
//     std::string_view summary() const override { return "End a job; what has run is kept"; }
//     std::string_view example() const override { return "lcab-client cancel jobs/12"; }
//     std::vector<Argument> Arguments() override {
//       return {{.name = "job", .target = &job_, .description = "...", .form = Form::kPositional,
//                .required = true, .value = "JOB"},
//               ServerArgument(&server_)};
//     }
//     ExitCode Run(Console& console) override;
//    private:
//     std::string job_, server_ = "127.0.0.1:7750";
//   };
//   std::unique_ptr<Verb> MakeCancelVerb() { return std::make_unique<CancelVerb>(); }
//
// and one line in verbs.h and in the table of verbs.cc. Parsing, help, docs/cli.md and shell
// completion follow from the declaration.

#ifndef LCAB_CLIENT_VERB_H_
#define LCAB_CLIENT_VERB_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/exit_codes.h"
#include "report/terminal.h"

namespace lcab::client {

// Where a verb prints. Results go to `out`; progress, warnings and errors go to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  report::Terminal out_terminal;
  report::Terminal err_terminal;
};

// Prints "error: <message>" and returns `code`. Use it as `return Fail(console, ...)`.
ExitCode Fail(Console& console, ExitCode code, std::string_view message);
// The same, with kDatabase where a database is what failed, else the code that ExitCodeOf() gives.
ExitCode Fail(Console& console, const absl::Status& status);

// Whether a database, here or a coordinator's, is what failed.
bool IsOfDatabase(const absl::Status& status);

enum class Form {
  kOption,      // --name VALUE; a bool is a flag, --name
  kPositional,  // VALUE, in the order of declaration; a vector takes all that are left
};

// One thing that the command line may give. What the target holds before parsing is the default.
struct Argument {
  using Target =
      std::variant<bool*, int64_t*, std::optional<int64_t>*, double*, std::string*,
                   std::optional<std::string>*, std::vector<std::string>*, absl::Duration*>;

  std::string name;         // without dashes
  Target target;            // outlives the parsing
  std::string description;  // one sentence without a full stop, with the unit
  Form form = Form::kOption;
  bool required = false;
  std::string value = "VALUE";       // as help shows it: FILE, JOB
  std::vector<std::string> choices;  // of text targets; empty: any
  std::string environment = {};      // variable that gives it where the command line does not
  std::string config = {};           // key of the configuration file that gives it after that;
                                     // std::string targets only
  // Of integer targets: what is outside is refused.
  std::optional<int64_t> minimum = {};
  std::optional<int64_t> maximum = {};
  // Looks at the target once everything has been given; what it returns is refused with kUsage.
  std::function<absl::Status()> check = {};
};

class Verb {
 public:
  virtual ~Verb() = default;

  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;            // one line without a full stop
  virtual std::string_view details() const { return {}; }  // paragraphs for --help; may be empty
  virtual std::string_view example() const = 0;            // one or more command lines
  virtual bool hidden() const { return false; }            // works, stands in no list
  // Called once, before parsing.
  virtual std::vector<Argument> Arguments() = 0;
  // Called once, after parsing has filled the targets.
  virtual ExitCode Run(Console& console) = 0;
};

}  // namespace lcab::client

#endif  // LCAB_CLIENT_VERB_H_
