// Aligned columns of text for people.
//
//   Table table({{"kernel"}, {.title = "median", .align = Align::kRight}});
//   table.AddHeading("causal, 4K tokens");
//   table.AddRow({"cpu_tiled", "6.52 ms"});
//   std::cout << table.Render(terminal);

#ifndef LCAB_REPORT_TABLE_H_
#define LCAB_REPORT_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/terminal.h"

namespace lcab::report {

enum class Align { kLeft, kRight };

// Meaning, not colour: what a cell says, for a reader who looks for trouble.
enum class Tone { kPlain, kGood, kBad, kFaint };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  bool may_shrink = false;  // cut, with "~" at the end, where the table is too wide
};

struct Cell {
  std::string text;
  Tone tone = Tone::kPlain;

  Cell(std::string cell_text, Tone cell_tone = Tone::kPlain)  // NOLINT(google-explicit-constructor)
      : text(std::move(cell_text)), tone(cell_tone) {}
  Cell(const char* cell_text) : text(cell_text) {}  // NOLINT(google-explicit-constructor)
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  // As many cells as there are columns.
  void AddRow(std::vector<Cell> cells);
  // A line of its own above the rows that follow.
  void AddHeading(std::string_view text);
  // Text below the last row, wrapped and indented.
  void AddNote(std::string_view text, Tone tone);

  // Lines no longer than the terminal is wide, as far as columns that may shrink allow; without
  // trailing spaces.
  std::string Render(const Terminal& terminal) const;

 private:
  enum class Kind { kRow, kHeading, kNote };
  struct Line {
    Kind kind = Kind::kRow;
    std::vector<Cell> cells;  // one for headings and notes
  };

  std::vector<size_t> Widths(int limit) const;

  std::vector<Column> columns_;
  std::vector<Line> lines_;
};

// Columns that a text takes on a terminal: characters of UTF-8, each one wide.
size_t DisplayWidth(std::string_view text);

// `text` in words that fit `width`, each line after `indent` spaces; a longer word stands alone.
std::string Wrap(std::string_view text, size_t width, size_t indent);

}  // namespace lcab::report

#endif  // LCAB_REPORT_TABLE_H_
