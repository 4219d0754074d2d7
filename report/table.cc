#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/visible_text.h"

namespace lcab::report {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kLeastWidth = 8;  // of a column that shrinks
constexpr size_t kNoteIndent = 4;

// Bytes 10xxxxxx continue a character of UTF-8.
bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

// The first `width` characters.
std::string_view Prefix(std::string_view text, size_t width) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (BeginsCharacter(text[i]) && characters++ == width) return text.substr(0, i);
  }
  return text;
}

std::string Fit(const std::string& text, size_t width) {
  if (DisplayWidth(text) <= width) return text;
  return std::string(Prefix(text, width - 1)) + "~";
}

std::string_view Escape(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kGood:
      return "\033[32m";
    case Tone::kBad:
      return "\033[31m";
    case Tone::kFaint:
      return "\033[2m";
  }
  return "";
}

std::string Paint(std::string_view text, std::string_view escape, bool color) {
  if (!color || escape.empty() || text.empty()) return std::string(text);
  return fmt::format("{}{}\033[0m", escape, text);
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<Cell> cells) {
  cells.resize(columns_.size(), Cell(""));
  for (Cell& cell : cells) cell.text = VisibleText(cell.text);
  lines_.push_back({.kind = Kind::kRow, .cells = std::move(cells)});
}

void Table::AddHeading(std::string_view text) {
  lines_.push_back({.kind = Kind::kHeading, .cells = {Cell(VisibleText(text))}});
}

void Table::AddNote(std::string_view text, Tone tone) {
  lines_.push_back({.kind = Kind::kNote, .cells = {Cell(VisibleLines(text), tone)}});
}

std::vector<size_t> Table::Widths(int limit) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = DisplayWidth(columns_[c].title);
    for (const Line& line : lines_) {
      if (line.kind == Kind::kRow) width = std::max(width, DisplayWidth(line.cells[c].text));
    }
    widths.push_back(width);
  }
  const auto total = [&] {
    return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  };
  // The widest of those that may shrink gives way first.
  while (!widths.empty() && total() > static_cast<size_t>(std::max(limit, 1))) {
    size_t* widest = nullptr;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (!columns_[c].may_shrink || widths[c] <= kLeastWidth) continue;
      if (widest == nullptr || widths[c] > *widest) widest = &widths[c];
    }
    if (widest == nullptr) break;
    --*widest;
  }
  return widths;
}

std::string Table::Render(const Terminal& terminal) const {
  const std::vector<size_t> widths = Widths(terminal.width);
  std::string out;
  const auto append_row = [&](const std::vector<Cell>& cells, std::string_view escape) {
    std::string line;
    size_t pending = 0;  // spaces, written only when something follows
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string text = Fit(cells[c].text, widths[c]);
      const size_t padding = widths[c] - DisplayWidth(text);
      const bool right = columns_[c].align == Align::kRight;
      if (right) pending += padding;
      if (!text.empty()) {
        line.append(pending, ' ');
        pending = 0;
        line += Paint(text, escape.empty() ? Escape(cells[c].tone) : escape, terminal.color);
      } else {
        pending += DisplayWidth(text);
      }
      pending += (right ? 0 : padding) + kGap;
    }
    out += line + '\n';
  };
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title);
  append_row(titles, "\033[1m");
  for (const Line& line : lines_) {
    switch (line.kind) {
      case Kind::kRow:
        append_row(line.cells, "");
        break;
      case Kind::kHeading:
        out += '\n' + Paint(line.cells[0].text, "\033[1m", terminal.color) + '\n';
        break;
      case Kind::kNote:
        out += Paint(Wrap(line.cells[0].text, static_cast<size_t>(std::max(terminal.width, 40)),
                          kNoteIndent),
                     Escape(line.cells[0].tone), terminal.color);
        out += '\n';
        break;
    }
  }
  return out;
}

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

std::string Wrap(std::string_view text, size_t width, size_t indent) {
  std::string out(indent, ' ');
  size_t column = indent;
  bool first = true;
  while (!text.empty()) {
    const size_t end = text.find_first_of(" \n");
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (word.empty()) continue;
    if (!first && column + 1 + DisplayWidth(word) > width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
      first = true;
    }
    if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += DisplayWidth(word);
    first = false;
  }
  return out;
}

}  // namespace lcab::report
