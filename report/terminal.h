// What the place that text is written to can show: a terminal, how wide, colours or none.

#ifndef LCAB_REPORT_TERMINAL_H_
#define LCAB_REPORT_TERMINAL_H_

namespace lcab::report {

struct Terminal {
  bool interactive = false;  // a person's terminal that can write over what stands there; not a
                             // pipe, a file or a terminal that TERM calls "dumb"
  bool color = false;        // interactive, and NO_COLOR is not set
  int width = 120;           // columns

  // Of a file descriptor (1 is standard output, 2 standard error), as it is now.
  static Terminal Of(int file_descriptor);
};

}  // namespace lcab::report

#endif  // LCAB_REPORT_TERMINAL_H_
