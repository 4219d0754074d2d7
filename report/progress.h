// How far a job is, as its events come in: on a terminal a bar (what runs now, how many trials are
// done, how long is left), elsewhere a line for each trial that ends.
//
//   Progress progress(std::cerr, Terminal::Of(2));
//   while (reader->Read(&event)) progress.Show(event, absl::Now());
//   progress.Finish();

#ifndef LCAB_REPORT_PROGRESS_H_
#define LCAB_REPORT_PROGRESS_H_

#include <map>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "lcab/v1/jobs.pb.h"
#include "report/terminal.h"

namespace lcab::report {

// Not for several threads at once.
class Progress {
 public:
  // `out` must outlive this object.
  Progress(std::ostream& out, const Terminal& terminal) : out_(out), terminal_(terminal) {}
  // Leaves no bar behind.
  ~Progress() { Finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // An event of the job that is watched. The bar is written at most every 100 ms, and when a trial
  // ends.
  void Show(const v1::JobEvent& event, absl::Time now);
  // Writes the bar anew where time has passed without an event, so that its clock goes on.
  void Tick(absl::Time now);
  // A line above the bar. What a terminal would act upon is shown instead.
  void Note(std::string_view line);
  // Takes the bar away. Later events start another.
  void Finish();

 private:
  void NoteEnd(const v1::JobEvent& event);
  void Print(std::string_view line);
  void Draw(absl::Time now);
  std::string Bar(absl::Time now) const;

  std::ostream& out_;
  const Terminal terminal_;
  v1::TrialCounts counts_;
  std::map<std::string, std::string> running_;  // what runs, by trial
  absl::Time started_ = absl::InfinitePast();
  absl::Time drawn_ = absl::InfinitePast();
  int64_t done_at_start_ = 0;  // a job that is joined late has done some already
  std::string shown_;          // the bar that stands there; empty: none
};

// Trials that have ended.
int64_t Ended(const v1::TrialCounts& counts);

}  // namespace lcab::report

#endif  // LCAB_REPORT_PROGRESS_H_
