// Draws a chart with characters: braille dots if the terminal can show them, otherwise ASCII symbols.
//
// A braille character has 2 x 4 dots. Colors distinguish up to 6 runs. Without Unicode, with more than 6 runs, or with
// several runs but no color, symbols replace the dots. Validation points are drawn as `o`. The legend is below the
// chart.
#pragma once

#include <string>

#include "chart/series.h"

namespace mtl {

struct TerminalOptions {
  int width = 80;   // in characters; at least 40
  int height = 24;  // in lines; approximate
  bool unicode = false;
  bool color = false;
};

std::string terminal_chart(const Chart& chart, const TerminalOptions& options);

/// Detects what the terminal behind a file descriptor can do: size (COLUMNS and LINES take precedence; 80 x 24 without
/// a terminal), UTF-8 (from the locale: LC_ALL, LC_CTYPE, LANG), and color (wants_color()).
TerminalOptions detect_terminal(int descriptor);

}  // namespace mtl
