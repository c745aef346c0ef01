#include "chart/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/str.h"
#include "chart/axis.h"
#include "chart/label.h"
#include "chart/svg_canvas.h"

namespace mtl {

namespace {

// All lengths are in pixels.
constexpr double kWidth = 860, kRight = 24, kFont = 13, kTitleFont = 17;
constexpr double kFirstPanel = 340, kOtherPanel = 170, kPanelGap = 26, kLegendRow = 22;
constexpr std::size_t kPointLimit = 2000;
constexpr std::array<const char*, 7> kColors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                "#E69F00", "#56B4E9", "#000000"};
constexpr const char* kShared = "#666";  // legend color for markers from all runs
constexpr std::array<const char*, 4> kDashes = {"", "7 3", "2 2.5", "9 3 2 3"};

const char* color_of(const Series& series) { return kColors[series.color % kColors.size()]; }
const char* dash_of(const Series& series) { return kDashes[series.color / kColors.size() % kDashes.size()]; }

std::string fit(const std::string& text, double width, double font) {
  return cut_middle(text, "…", [&](const std::string& cut) { return text_width(cut, font) <= width; });
}

/// The style sheet for every document.
std::string style_sheet() {
  return format(
      "<style>text{font:%.0fpx Helvetica,Arial,'Liberation Sans','DejaVu Sans',sans-serif;fill:#222}"
      ".g{stroke:#e4e4e4}.m{stroke:#f1f1f1}.a{stroke:#555}.l{fill:none;stroke-width:1.7;stroke-linejoin:round;"
      "stroke-linecap:round}.f{stroke-width:1;opacity:.3}.p{fill:#fff;stroke-width:1.7}</style>\n",
      kFont);
}

std::string marker(const char* color, double x, double y) {
  return format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.6\" class=\"p\" stroke=\"%s\"/>\n", x, y, color);
}

/// Draws the legend above the panels, in rows, unless it has just one entry. Returns the y below it.
double draw_legend(SvgCanvas& canvas, const Chart& chart, double left, double top) {
  std::vector<LegendEntry> entries = legend_entries(chart);
  if (entries.size() < 2) return top;
  constexpr double kSwatch = 26, kSpace = 22, kLongest = 300;
  double x = left, y = top + kLegendRow / 2;
  for (const auto& [entry, is_shared] : entries) {
    std::string name = fit(entry->name, kLongest, kFont);
    double width = kSwatch + 7 + text_width(name, kFont);
    if (x > left && x + width > kWidth - kRight) {
      x = left;
      y += kLegendRow;
    }
    if (entry->is_markers) {
      canvas.raw(marker(is_shared ? kShared : color_of(*entry), x + kSwatch / 2, y));
    } else {
      canvas.raw(format("<path d=\"M%.1f %.1fh%.1f\" class=\"l\" stroke=\"%s\" stroke-dasharray=\"%s\"/>\n", x, y,
                        kSwatch, color_of(*entry), *dash_of(*entry) != '\0' ? dash_of(*entry) : "none"));
    }
    canvas.text(x + kSwatch + 7, y + 4.5, name);
    x += width + kSpace;
  }
  return y + kLegendRow / 2 + 8;
}

/// A panel's rectangle, and the axes that map values into it.
struct Frame {
  double left, top, width, height;
  ChartAxis x, y;

  double at_x(double value) const { return left + x.position(value) * width; }
  double at_y(double value) const { return top + (1 - y.position(value)) * height; }
};

void draw_line(SvgCanvas& canvas, const Frame& frame, const Series& series) {
  Series thinned = thin(series, kPointLimit);
  std::string path;
  std::vector<std::pair<double, double>> segment;  // points since the last gap
  auto end_segment = [&] {
    if (segment.size() == 1)
      canvas.raw(format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"%s\"/>\n", segment[0].first,
                        segment[0].second, color_of(series)));
    for (std::size_t i = 0; segment.size() > 1 && i < segment.size(); ++i)
      path += format("%c%.1f %.1f", i == 0 ? 'M' : 'L', segment[i].first, segment[i].second);
    segment.clear();
  };
  for (std::size_t i = 0; i < thinned.x.size(); ++i) {
    double x = frame.at_x(thinned.x[i]), y = frame.at_y(thinned.y[i]);
    if (std::isfinite(x) && std::isfinite(y))
      segment.emplace_back(x, y);
    else
      end_segment();
  }
  end_segment();
  if (path.empty()) return;
  std::string dash = *dash_of(series) != '\0' ? cat(" stroke-dasharray=\"", dash_of(series), "\"") : "";
  canvas.raw(cat("<path class=\"l", series.is_faint ? " f" : "", "\" stroke=\"", color_of(series), "\"", dash, " d=\"",
                 path, "\"/>\n"));
}

void draw_markers(SvgCanvas& canvas, const Frame& frame, const Series& series) {
  Series thinned = thin(series, kPointLimit / 10);  // more would overlap
  for (std::size_t i = 0; i < thinned.x.size(); ++i) {
    double x = frame.at_x(thinned.x[i]), y = frame.at_y(thinned.y[i]);
    if (std::isfinite(x) && std::isfinite(y)) canvas.raw(marker(color_of(series), x, y));
  }
}

/// Draws grid, ticks and axis lines. Only the last panel gets labels under its x axis.
void draw_frame(SvgCanvas& canvas, const Frame& frame, const std::vector<Tick>& x_ticks,
                const std::vector<Tick>& y_ticks, bool is_last) {
  double bottom = frame.top + frame.height, right = frame.left + frame.width;
  for (const Tick& tick : x_ticks) {
    double x = frame.at_x(tick.value);
    canvas.line(x, frame.top, x, bottom, tick.label.empty() ? "m" : "g");
    if (!tick.label.empty()) canvas.line(x, bottom, x, bottom + 5, "a");
    if (is_last) canvas.text(x, bottom + 20, tick.label, "text-anchor=\"middle\"");
  }
  for (const Tick& tick : y_ticks) {
    double y = frame.at_y(tick.value);
    canvas.line(frame.left, y, right, y, tick.label.empty() ? "m" : "g");
    if (tick.label.empty()) continue;
    canvas.line(frame.left - 5, y, frame.left, y, "a");
    canvas.text(frame.left - 9, y + 4.5, tick.label, "text-anchor=\"end\"");
  }
  canvas.line(frame.left, frame.top, frame.left, bottom, "a");
  canvas.line(frame.left, bottom, right, bottom, "a");
}

/// Returns as many ticks as fit without overlapping labels.
std::vector<Tick> spaced_x_ticks(const ChartAxis& axis, double width) {
  for (int count = 9; count > 1; --count) {
    std::vector<Tick> ticks = axis.ticks(count);
    double end = -1e9;
    bool fits = true;
    for (const Tick& tick : ticks) {
      if (tick.label.empty()) continue;
      double half = text_width(tick.label, kFont) / 2, x = axis.position(tick.value) * width;
      fits = fits && x - half > end + 12;
      end = x + half;
    }
    if (fits) return ticks;
  }
  return axis.ticks(1);
}

}  // namespace

std::string svg_chart(const Chart& chart) {
  std::vector<ChartAxis> y_axes;
  std::vector<std::vector<Tick>> y_ticks;
  double widest = 0;
  for (const Panel& panel : chart.panels) {
    y_axes.emplace_back(y_range(panel), panel.log_y);
    y_ticks.push_back(y_axes.back().ticks(y_ticks.empty() ? 7 : 4));
    for (const Tick& tick : y_ticks.back()) widest = std::max(widest, text_width(tick.label, kFont));
  }
  double left = 14 + kFont + 12 + widest + 9;  // margin, rotated label, space, tick labels, tick
  SvgCanvas canvas;
  double top = 18;
  if (!chart.title.empty()) {
    top += kTitleFont;
    std::string style = format("style=\"font-size:%.0fpx;font-weight:600\"", kTitleFont);
    canvas.text(left, top, fit(chart.title, kWidth - left - kRight, kTitleFont * 1.08), style);
    top += 14;
  }
  top = draw_legend(canvas, chart, left, top);

  double width = kWidth - left - kRight;
  ChartAxis x_axis(x_range(chart), chart.log_x);
  std::vector<Tick> x_ticks = spaced_x_ticks(x_axis, width);
  for (std::size_t i = 0; i < chart.panels.size(); ++i) {
    const Panel& panel = chart.panels[i];
    Frame frame{.left = left,
                .top = top,
                .width = width,
                .height = i == 0 ? kFirstPanel : kOtherPanel,
                .x = x_axis,
                .y = y_axes[i]};
    draw_frame(canvas, frame, x_ticks, y_ticks[i], i + 1 == chart.panels.size());
    double middle = top + frame.height / 2;
    std::string turned = format("text-anchor=\"middle\" transform=\"rotate(-90 %.1f %.1f)\"", 14 + kFont * 0.8, middle);
    canvas.text(14 + kFont * 0.8, middle, fit(panel.y_label, frame.height, kFont), turned);
    for (const Series& series : panel.series) {
      if (series.is_markers)
        draw_markers(canvas, frame, series);
      else
        draw_line(canvas, frame, series);
    }
    top += frame.height + kPanelGap;
  }
  top += 22 - kPanelGap + kFont + 6;  // below the last panel's tick labels
  canvas.text(left + width / 2, top, chart.x_label, "text-anchor=\"middle\"");
  return canvas.document(kWidth, top + 14, chart.title.empty() ? "mtl-plot" : chart.title, style_sheet());
}

}  // namespace mtl
