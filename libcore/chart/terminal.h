// A chart in characters: braille dots if the terminal can show them, else ASCII symbols.
//
// Braille has 2 x 4 dots per character. Colors distinguish up to 6 runs. Symbols replace the dots if there is no
// Unicode, if there are more than 6 runs, and if there are several runs but no color. Each validation point is an `o`.
// The legend is below the chart.
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

/// Detects the capabilities of the descriptor's terminal: its size (COLUMNS and LINES take precedence; 80 x 24 without
/// a terminal), a UTF-8 locale (LC_ALL, LC_CTYPE, LANG), and color (wants_color).
TerminalOptions detect_terminal(int descriptor);

}  // namespace mtl
