// Draws a chart with characters: with braille dots if the terminal can show them, otherwise with ASCII symbols.
//
// Braille has 2 x 4 dots per character. Colors distinguish up to 6 runs. Symbols replace the dots if the terminal lacks
// Unicode, if there are more than 6 runs, or if there are several runs and the terminal lacks color. Each validation
// point is an `o`. The legend is below the chart.
#pragma once

#include <string>

#include "chart/series.h"

namespace mtl {

struct TerminalOptions {
  int width = 80;   // of the whole chart, in characters; at least 40
  int height = 24;  // of the whole chart, in lines; approximate
  bool unicode = false;
  bool color = false;
};

std::string terminal_chart(const Chart& chart, const TerminalOptions& options);

/// Detects the capabilities of the terminal behind a file descriptor: size (COLUMNS and LINES take precedence; 80 x 24
/// if there is no terminal), UTF-8 (from the locale: LC_ALL, LC_CTYPE, LANG), and color (wants_color()).
TerminalOptions detect_terminal(int descriptor);

}  // namespace mtl
