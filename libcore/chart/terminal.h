// A chart in characters: braille dots if the terminal can show them, else ASCII symbols.
//
// Braille has 2 x 4 dots per character. Colors distinguish up to 6 runs. Symbols replace the dots without Unicode, for
// more than 6 runs, and for several runs without color. Validation points are an `o`. The legend is below the chart.
#pragma once

#include <string>

#include "chart/series.h"

namespace mtl {

struct TerminalOptions {
  int width = 80;   // of the whole chart, in characters; at least 40
  int height = 24;  // of the whole chart, about, in lines
  bool unicode = false;
  bool color = false;
};

std::string terminal_chart(const Chart& chart, const TerminalOptions& options);

/// The capabilities of the descriptor's terminal: its size (COLUMNS and LINES take precedence; 80 x 24 without a
/// terminal), a UTF-8 locale (LC_ALL, LC_CTYPE, LANG), and color (wants_color).
TerminalOptions detect_terminal(int descriptor);

}  // namespace mtl
