// A chart in characters: braille dots where the terminal can show them, ASCII symbols elsewhere.
//
// Braille gives 2 x 4 dots a character. Colours distinguish runs; without colour, or without Unicode, each has a
// symbol of its own instead of dots. Validation points are an `o`. The legend is under the chart.
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

/// The capabilities of the descriptor's terminal: its size (COLUMNS and LINES win; 80 x 24 without a terminal), a UTF-8
/// locale (LC_ALL, LC_CTYPE, LANG), and colour unless NO_COLOR says otherwise.
TerminalOptions detect_terminal(int descriptor);

}  // namespace mtl
