#include "chart/terminal.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/console.h"
#include "base/json_cursor.h"
#include "base/printable.h"
#include "base/str.h"
#include "chart/axis.h"
#include "chart/label.h"

namespace mtl {

namespace {

constexpr std::array<int, 6> kAnsiColors = {34, 33, 32, 35, 36, 31};  // blue, yellow, green, magenta, cyan, red
constexpr std::string_view kSymbols = "*+x#@%&=~$";

/// One character of the plot.
struct Cell {
  unsigned dots = 0;  // braille
  char symbol = 0;    // replaces the dots
  int color = 0;      // ANSI; 0: the terminal's own
};

/// The area inside the axes, addressed by dots from the upper left.
class Plot {
 public:
  Plot(int columns, int rows, bool braille)
      : columns_(columns), rows_(rows), braille_(braille), cells_(columns * rows) {}

  int dot_columns() const { return braille_ ? 2 * columns_ : columns_; }
  int dot_rows() const { return braille_ ? 4 * rows_ : rows_; }

  void dot(int x, int y, char symbol, int color) {
    // Unicode numbers a braille cell's dots down each column, except that the lowest row comes last.
    constexpr unsigned kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    Cell* cell = at(x, y);
    if (cell == nullptr || (braille_ && cell->symbol != 0)) return;
    if (braille_)
      cell->dots |= kBits[y % 4][x % 2];
    else
      cell->symbol = symbol;
    cell->color = color;
  }

  void mark(int x, int y, char symbol, int color) {
    if (Cell* cell = at(x, y)) *cell = {.symbol = symbol, .color = color};
  }

  void line(int x0, int y0, int x1, int y1, char symbol, int color) {
    int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      auto between = [&](int from, int to) {
        return static_cast<int>(std::lround(from + (to - from) * double(i) / steps));
      };
      dot(between(x0, x1), between(y0, y1), symbol, color);
    }
  }

  std::string row(int y, bool with_color) const {
    std::string out;
    int color = 0;
    for (int x = 0; x < columns_; ++x) {
      const Cell& cell = cells_[y * columns_ + x];
      bool empty = cell.symbol == 0 && cell.dots == 0;
      if (with_color && !empty && cell.color != color) out += format("\033[%dm", color = cell.color);
      if (cell.symbol != 0)
        out += cell.symbol;
      else if (cell.dots != 0)
        append_utf8(out, 0x2800 + cell.dots);
      else
        out += ' ';
    }
    if (color != 0) out += "\033[0m";
    return out;
  }

 private:
  Cell* at(int x, int y) {
    int column = braille_ ? x / 2 : x, row = braille_ ? y / 4 : y;
    if (x < 0 || y < 0 || column >= columns_ || row >= rows_) return nullptr;
    return &cells_[row * columns_ + column];
  }

  int columns_, rows_;
  bool braille_;
  std::vector<Cell> cells_;
};

/// The settings of one drawing.
struct Look {
  TerminalOptions options;
  bool braille;
  int gutter;  // characters left of the vertical axis

  int color_of(const Series& series) const {
    return options.color ? kAnsiColors[series.color % kAnsiColors.size()] : 0;
  }
  /// Returns the printable text, cut to `room` characters.
  std::string fit(const std::string& text, int room) const {
    return cut_middle(printable_text(text), options.unicode ? "…" : "..",
                      [&](const std::string& cut) { return static_cast<int>(count_characters(cut)) <= room; });
  }
  char symbol_of(const Series& series) const {
    return series.is_markers ? 'o' : kSymbols[series.color % kSymbols.size()];
  }
};

int to_dot(double position, int dots) { return static_cast<int>(std::lround(position * (dots - 1))); }

void draw_series(Plot& plot, const Look& look, const Series& series, const ChartAxis& x_axis, const ChartAxis& y_axis) {
  bool is_joined = false;
  int previous_x = 0, previous_y = 0;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    double x = x_axis.position(series.x[i]), y = y_axis.position(series.y[i]);
    if (!std::isfinite(x) || !std::isfinite(y)) {
      is_joined = false;
      continue;
    }
    int dot_x = to_dot(x, plot.dot_columns()), dot_y = to_dot(1 - y, plot.dot_rows());
    char symbol = look.symbol_of(series);
    int color = look.color_of(series);
    if (series.is_markers)
      plot.mark(dot_x, dot_y, symbol, color);
    else if (is_joined)
      plot.line(previous_x, previous_y, dot_x, dot_y, symbol, color);
    else
      plot.dot(dot_x, dot_y, symbol, color);
    is_joined = true;
    previous_x = dot_x;
    previous_y = dot_y;
  }
}

/// Draws one panel: its name, then rows with the vertical axis. The horizontal axis is drawn separately.
std::string draw_panel(const Panel& panel, const Look& look, const ChartAxis& x_axis, int rows) {
  ChartAxis y_axis(y_range(panel), panel.log_y);
  int columns = look.options.width - look.gutter - 2;
  Plot plot(columns, rows, look.braille);
  for (const Series& series : panel.series) {
    if (!series.is_faint) draw_series(plot, look, series, x_axis, y_axis);
  }
  std::vector<std::string> labels(rows);
  for (const Tick& tick : y_axis.ticks(std::max(2, rows / 2 + 1))) {
    std::size_t row = std::clamp(to_dot(1 - y_axis.position(tick.value), rows), 0, rows - 1);
    if (!tick.label.empty()) labels[row] = tick.label;
  }
  std::string out = cat(std::string(look.gutter + 1, ' '), look.fit(panel.y_label, columns), "\n");
  for (int row = 0; row < rows; ++row) {
    const std::string& label = labels[row];
    const char* axis = look.options.unicode ? (label.empty() ? "│" : "┤") : (label.empty() ? "|" : "+");
    out += cat(format("%*s ", look.gutter, label.c_str()), axis, plot.row(row, look.options.color), "\n");
  }
  return out;
}

/// Draws the horizontal axis, with labels and a name if `labeled`.
std::string draw_x_axis(const Chart& chart, const Look& look, const ChartAxis& axis, bool labeled) {
  int columns = look.options.width - look.gutter - 2;
  const char* line = look.options.unicode ? "─" : "-";
  std::vector<std::string> rule(columns, line);
  std::string labels(look.options.width, ' ');
  int free_from = 0;
  for (const Tick& tick : axis.ticks(std::max(2, columns / 12))) {
    if (tick.label.empty()) continue;
    int column = std::clamp(to_dot(axis.position(tick.value), columns), 0, columns - 1);
    int length = static_cast<int>(tick.label.size());
    int begin = std::min(look.gutter + 2 + column - length / 2, look.options.width - length);
    rule[column] = look.options.unicode ? "┬" : "+";
    if (begin < free_from) continue;
    labels.replace(begin, tick.label.size(), tick.label);
    free_from = begin + length + 1;
  }
  std::string out = cat(std::string(look.gutter + 1, ' '), look.options.unicode ? "└" : "+", join(rule, ""), "\n");
  if (!labeled) return out;
  labels.erase(labels.find_last_not_of(' ') + 1);
  const int name_length = static_cast<int>(chart.x_label.size());
  const int name_begin = look.gutter + 2 + (columns - name_length) / 2;
  return cat(out, labels, "\n", format("%*s\n", name_begin + name_length, chart.x_label.c_str()));
}

std::string draw_legend(const Chart& chart, const Look& look) {
  std::string out, line;
  std::vector<LegendEntry> entries = legend_entries(chart);
  std::size_t used = 0, width = look.options.width;
  for (const auto& [series, is_shared] : entries) {
    std::string sample = look.braille && !series->is_markers ? "⠤⠤" : std::string(2, look.symbol_of(*series));
    if (series->is_markers) sample = "o ";
    std::string name = look.fit(series->name, look.options.width - 6);
    std::size_t length = 4 + count_characters(name) + 2;
    if (used > 0 && used + length > width) {
      out += line + "\n";
      line.clear();
      used = 0;
    }
    int color = is_shared ? 0 : look.color_of(*series);
    if (color != 0) sample = cat(format("\033[%dm", color), sample, "\033[0m");
    line += cat(" ", sample, " ", name, "  ");
    used += length;
  }
  return entries.size() < 2 ? "" : out + line + "\n";
}

bool needs_symbols(const Chart& chart, const TerminalOptions& options) {
  if (!options.unicode) return true;
  std::size_t runs = 0;
  for (const Panel& panel : chart.panels) {
    for (const Series& series : panel.series) runs = std::max(runs, series.color + 1);
  }
  return runs > (options.color ? kAnsiColors.size() : 1);
}

int environment_number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : static_cast<int>(parse_int(text).value_or(0));
}

}  // namespace

std::string terminal_chart(const Chart& chart, const TerminalOptions& options) {
  Look look{.options = options, .braille = !needs_symbols(chart, options), .gutter = 0};
  look.options.width = std::max(options.width, 40);
  for (const Panel& panel : chart.panels) {
    for (const Tick& tick : ChartAxis(y_range(panel), panel.log_y).ticks(6))
      look.gutter = std::max(look.gutter, static_cast<int>(tick.label.size()));
  }
  look.gutter = std::max(look.gutter + 1, 5);
  ChartAxis x_axis(x_range(chart), chart.log_x);
  std::string out;
  if (!chart.title.empty())
    out += cat(std::string(look.gutter + 1, ' '), look.fit(chart.title, look.options.width - look.gutter - 1), "\n");
  // Each panel needs two lines for its name and axis. Title, labels and legend need four. The first panel is twice as
  // tall.
  int panels = static_cast<int>(chart.panels.size());
  int unit = std::max(3, (options.height - 4 - 2 * panels) / (panels + 1));
  for (int i = 0; i < panels; ++i) {
    const Panel& panel = chart.panels[i];
    out += draw_panel(panel, look, x_axis, i == 0 ? 2 * unit : unit);
    out += draw_x_axis(chart, look, x_axis, i + 1 == panels);
  }
  return out + draw_legend(chart, look);
}

TerminalOptions detect_terminal(int descriptor) {
  TerminalOptions options;
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    options.width = size.ws_col;
    options.height = size.ws_row - 1;  // the prompt appears below the chart
  }
  if (int columns = environment_number("COLUMNS"); columns > 0) options.width = columns;
  if (int lines = environment_number("LINES"); lines > 0) options.height = lines;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* locale = std::getenv(name);
    if (locale == nullptr || *locale == '\0') continue;
    const std::string lower = lowered(locale);
    options.unicode = lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
    break;
  }
  options.color = wants_color(descriptor);
  return options;
}

}  // namespace mtl
