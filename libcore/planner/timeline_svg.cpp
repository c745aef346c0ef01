#include "planner/timeline_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/enum_index.h"
#include "base/str.h"
#include "chart/axis.h"
#include "chart/label.h"
#include "chart/schedule_colors.h"
#include "chart/svg_canvas.h"

namespace mtl {

namespace {

using Kind = StageSpan::Kind;

// All lengths are in pixels.
constexpr double kMargin = 24, kPlot = 1100, kWidestPlot = 2600, kLabels = 172, kShares = 166;
constexpr double kBand = 26, kLane = 7, kLaneGap = 5, kStageGap = 12;  // heights
constexpr double kCut = 34;                                            // between the two parts of a long step
constexpr double kLeastForward = 4, kCutForward = 14;  // a forward's width: below the first, a step is cut
constexpr double kLeastWait = 1.5;                     // narrower waits are shown as a share of their action's box
constexpr double kLeastBox = 1;                        // narrower boxes are joined with others of their kind
constexpr double kLeastLink = 0.8;                     // operations are at least this wide
constexpr double kLeastUse = 0.001;                    // of the step; links that are used less have no lane
constexpr double kNumberFont = 10;
constexpr std::array<double, 3> kShareColumns = {0, 60, 106};
constexpr std::size_t kMostStages = 16;

const char* const kStyle =
    "<style>text{font:13px Helvetica,Arial,'Liberation Sans','DejaVu Sans',sans-serif;fill:#222}"
    ".title{font-size:17px;font-weight:bold}.head{font-weight:bold}.note{font-size:12px;fill:#555}"
    ".small{font-size:10.5px;fill:#555}.on,.off{font-size:10px;text-anchor:middle}.on{fill:#fff}"
    ".band{fill:#ececec}.g{stroke:#d8d8d8}.a{stroke:#777}.cut{fill:none;stroke:#777}"
    ".edge{stroke:#fff;stroke-width:.6}.in{fill:#56B4E9}.between{fill:#CC79A7}.track{fill:#f6f6f6}</style>\n";

/// A part of the step's time and its place in the drawing.
struct Window {
  double begin = 0, end = 0;  // ms
  double left = 0, scale = 1;

  double x(double ms) const { return left + (ms - begin) * scale; }
  double right() const { return x(end); }
};

/// Adds a box to the data of a path.
void add_box(std::string& path, double x, double y, double width, double height) {
  path += format("M%.6g %.6gh%.4gv%.4gh-%.4gz", x, y, width, height, width);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// When the schedule has filled the pipeline, when it begins to drain it, and how long a forward takes.
struct Phases {
  double filled = 0, drains = 0, forward = 0;
};

Phases phases_of(const Timeline& timeline) {
  Phases out{.drains = timeline.ms};
  std::vector<double> forwards;
  for (const Timeline::Stage& stage : timeline.stages) {
    double first_backward = timeline.ms;
    std::vector<double> begins;                                            // of forwards
    for (auto first = stage.spans.begin(); first != stage.spans.end();) {  // an action's, before its waits
      const auto next =
          std::find_if(first, stage.spans.end(), [&](const StageSpan& each) { return each.action != first->action; });
      const double end = std::prev(next)->end;
      if (first->kind == Kind::backward) first_backward = std::min(first_backward, end);
      if (first->kind == Kind::forward) {
        begins.push_back(first->start);
        forwards.push_back(end - first->start);
      }
      first = next;
    }
    out.filled = std::max(out.filled, std::min(first_backward, timeline.ms));
    if (!begins.empty()) out.drains = std::min(out.drains, begins.back());
  }
  out.forward = median(std::move(forwards));
  return out;
}

/// Returns the whole step or, if its forwards would be too narrow, its begin and its end. If these are too long, the
/// whole step in a wider drawing.
std::vector<Window> windows_of(const Timeline& timeline) {
  const double left = kMargin + kLabels, whole = kPlot / timeline.ms;
  const Phases phases = phases_of(timeline);
  if (phases.forward * whole >= kLeastForward) return {{0, timeline.ms, left, whole}};
  const double half = (kPlot - kCut) / 2;
  const double scale =
      std::min({kCutForward / phases.forward, half / phases.filled, half / (timeline.ms - phases.drains)});
  if (!std::isfinite(scale) || scale < 2 * whole)
    return {{0, timeline.ms, left, std::clamp(kLeastForward / phases.forward, whole, kWidestPlot / timeline.ms)}};
  return {{0, half / scale, left, scale}, {timeline.ms - half / scale, timeline.ms, left + half + kCut, scale}};
}

std::string lane_text(const LinkLane& lane) {
  return cat(lane.name, lane.between_nodes ? ", between nodes" : ", in node");
}

class Drawing {
 public:
  Drawing(const Timeline& timeline, const StepTime& time)
      : timeline_(timeline), time_(time), windows_(windows_of(timeline)), right_(windows_.back().right() + 14) {
    for (const Timeline::Stage& stage : timeline.stages)
      for (const StageSpan& span : stage.spans) {
        if (!span.computes()) continue;
        chunks_ = std::max(chunks_, span.chunk + 1);
        kinds_.insert(span.kind);
      }
  }

  std::string document(const std::string& title, const std::string& subtitle) {
    canvas_.label(kMargin, kMargin + 14, title, "title");
    canvas_.label(kMargin, kMargin + 34, subtitle, "note");
    const double top = kMargin + 62;
    const std::array<const char*, 3> shares = {"computes", "waits", "idle"};
    for (std::size_t i = 0; i < shares.size(); ++i)
      canvas_.label(right_ + kShareColumns[i], top - 8, shares[i], "small");
    double y = draw_stages(top);
    draw_axes(top, y);
    y = draw_legend(y + 58);
    return canvas_.document(right_ + kShares, y + kMargin, title, kStyle + patterns());
  }

 private:
  double draw_stages(double y) {
    const std::size_t count = timeline_.stages.size();
    for (std::size_t stage = 0; stage < count; ++stage) {
      if (count > kMostStages + 1 && stage == kMostStages / 2) {
        stage = count - kMostStages / 2;
        canvas_.label(kMargin, y + 14, cat("stages ", kMostStages / 2, " to ", stage - 1, " are not shown"), "note");
        y += 30;
      }
      y = draw_stage(stage, y);
    }
    return y;
  }

  double draw_stage(std::size_t number, double y) {
    const Timeline::Stage& stage = timeline_.stages[number];
    canvas_.label(kMargin, y + 18, cat("stage ", number), "head");
    const StageTime& time = time_.stages[number];
    const std::array<double, 3> parts = {time.compute, time.waiting(), time.idle};
    for (std::size_t i = 0; i < parts.size(); ++i)
      canvas_.label(right_ + kShareColumns[i], y + 18, format("%.1f%%", 100 * parts[i] / time_.ms), "small");
    canvas_.raw(cat("<g id=\"stage", number, "\">\n"));
    for (const Window& window : windows_) {
      canvas_.box(window.left, y, window.right() - window.left, kBand, "band");
      draw_band(stage.spans, window, y);
    }
    canvas_.raw("</g>\n");
    y += kBand + kLaneGap;
    for (const LinkLane& lane : stage.links) {
      double used = 0;
      for (const TimeSpan& span : lane.spans) used += span.end - span.start;
      if (used < kLeastUse * timeline_.ms) continue;
      canvas_.label(kMargin + 8, y + kLane, lane_text(lane), "small");
      for (const Window& window : windows_) draw_lane(lane, window, y);
      y += kLane + kLaneGap;
    }
    return y + kStageGap;
  }

  /// A box that grows while actions are too narrow to be drawn alone.
  struct Box {
    Kind kind = Kind::idle;
    int chunk = 0, micro_batch = 0;
    double start = 0, end = 0;  // ms
    double waits = 0;           // of that, in waits that are not drawn alone
    bool is_alone = true;       // of one action
  };

  void draw_band(const std::vector<StageSpan>& spans, const Window& window, double y) {
    std::map<std::string, std::string> boxes;  // path data by style
    std::string numbers;
    std::optional<Box> open;
    const auto close = [&] {
      if (open) draw_box(*open, window, y, boxes, numbers);
      open.reset();
    };
    for (const StageSpan& span : spans) {
      if (span.end <= window.begin || span.start >= window.end || span.kind == Kind::idle) {
        if (span.kind == Kind::idle && open && (span.end - span.start) * window.scale < kLeastWait) continue;
        close();
        continue;
      }
      if (span.kind == Kind::wait) {
        if ((span.end - span.start) * window.scale >= kLeastWait || !open) {
          close();
          draw_box({.kind = Kind::wait, .start = span.start, .end = span.end}, window, y, boxes, numbers);
        } else {
          open->waits += span.end - span.start;
          open->end = span.end;
        }
        continue;
      }
      const bool goes_on = open && open->kind == span.kind && open->chunk == span.chunk &&
                           ((open->is_alone && open->micro_batch == span.micro_batch) ||
                            (span.end - open->start) * window.scale < kLeastBox);
      if (!goes_on) {
        close();
        open = Box{.kind = span.kind, .chunk = span.chunk, .micro_batch = span.micro_batch, .start = span.start};
      }
      open->is_alone = open->is_alone && open->micro_batch == span.micro_batch;
      open->end = span.end;
    }
    close();
    for (const auto& [style, path] : boxes)
      canvas_.raw(cat("<path class=\"edge\" fill=\"url(#", style, ")\" d=\"", path, "\"/>\n"));
    canvas_.raw(numbers);
  }

  void draw_box(const Box& box, const Window& window, double y, std::map<std::string, std::string>& boxes,
                std::string& numbers) const {
    const double left = window.x(std::max(box.start, window.begin)), right = window.x(std::min(box.end, window.end));
    const double share = box.kind == Kind::wait ? 1 : box.waits / (box.end - box.start), low = kBand * share;
    if (low > 0) add_box(boxes["wait"], left, y + kBand - low, right - left, low);
    if (box.kind == Kind::wait) return;
    add_box(boxes[style_of(box.kind, box.chunk)], left, y, right - left, kBand - low);
    if (!box.is_alone || box.kind == Kind::update) return;
    const std::string number = cat(box.micro_batch);
    if (text_width(number, kNumberFont) + 2 > right - left || low > kBand / 2) return;
    numbers += format("<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>\n", (left + right) / 2,
                      y + (kBand - low) / 2 + 3.5, is_dark(box.chunk, chunks_) ? "on" : "off", number.c_str());
  }

  static std::string style_of(Kind kind, int chunk) {
    constexpr std::array<const char*, 4> kNames = {"forward", "backward", "weight", "update"};
    return cat(kNames.at(enum_index(kind)), kind == Kind::update ? 0 : chunk);
  }

  void draw_lane(const LinkLane& lane, const Window& window, double y) {
    canvas_.box(window.left, y, window.right() - window.left, kLane, "track");
    std::string boxes;
    double left = 0, right = -1;
    const auto close = [&] {
      if (right > left) add_box(boxes, left, y, std::max(right - left, kLeastLink), kLane);
    };
    for (const TimeSpan& span : lane.spans) {
      if (span.end <= window.begin || span.start >= window.end) continue;
      const double begin = window.x(std::max(span.start, window.begin)), end = window.x(std::min(span.end, window.end));
      if (right < left || begin > right + 0.5) {
        close();
        left = begin;
        right = end;
      }
      right = std::max(right, end);
    }
    close();
    if (boxes.empty()) return;
    canvas_.raw(cat("<path class=\"", lane.between_nodes ? "between" : "in", "\" d=\"", boxes, "\"/>\n"));
  }

  void draw_axes(double top, double bottom) {
    for (const Window& window : windows_) {
      const ChartAxis axis({window.begin, window.end}, false);
      for (const Tick& tick : axis.ticks(windows_.size() == 1 ? 11 : 5)) {
        const double x = window.x(tick.value);
        canvas_.line(x, bottom - kStageGap + 2, x, bottom - kStageGap + 8, "a");
        canvas_.text(x, bottom + 10, tick.label, "class=\"small\" text-anchor=\"middle\"");
      }
      canvas_.line(window.left, bottom - kStageGap + 2, window.right(), bottom - kStageGap + 2, "a");
    }
    canvas_.text((kMargin + kLabels + windows_.back().right()) / 2, bottom + 28, "ms",
                 "class=\"note\" text-anchor=\"middle\"");
    if (windows_.size() < 2) return;
    const double x = windows_[0].right() + kCut / 2;
    std::string zigzag = format("M%.1f %.1f", x, top - 4);
    const int teeth = static_cast<int>(std::ceil((bottom - kStageGap - top) / 8));
    for (int i = 0; i < teeth; ++i) zigzag += format("l%d 8", i % 2 == 0 ? 6 : -6);
    canvas_.raw(cat("<path class=\"cut\" d=\"", zigzag, "\"/>\n"));
    canvas_.text(x, top - 8, cat(with_commas(std::llround(windows_[1].begin - windows_[0].end)), " ms left out"),
                 "class=\"small\" text-anchor=\"middle\"");
  }

  double draw_legend(double y) {
    double x = kMargin + kLabels;
    const auto name = [&](const std::string& text) {
      canvas_.label(x + 5, y, text, "note");
      x += text_width(text, 12) + 24;
    };
    const auto swatch = [&](const std::string& attributes, double height) {
      canvas_.raw(format("<rect x=\"%.1f\" y=\"%.1f\" width=\"18\" height=\"%.0f\" %s/>\n", x, y - 4 - height / 2,
                         height, attributes.c_str()));
      x += 19;
    };
    const std::string of_chunks = chunks_ == 1 ? "" : cat(", chunks 0 to ", chunks_ - 1);
    for (const auto& [kind, text] : {std::pair(Kind::forward, "forward"), std::pair(Kind::backward, "backward"),
                                     std::pair(Kind::weight, "weight gradients"), std::pair(Kind::update, "update")}) {
      if (!kinds_.contains(kind)) continue;
      const int last = kind == Kind::update ? 0 : chunks_ - 1;
      for (int chunk : std::set{0, last}) swatch(cat("fill=\"url(#", style_of(kind, chunk), ")\""), 14);
      name(cat(text, last > 0 ? of_chunks : ""));
    }
    swatch("fill=\"url(#wait)\"", 14);
    name("waits for links");
    swatch("class=\"band\"", 14);
    name("idle");
    swatch("class=\"in\"", kLane);
    name("links in the node");
    swatch("class=\"between\"", kLane);
    name("links between nodes");
    y += 20;
    canvas_.label(
        kMargin + kLabels, y,
        "Numbers are micro-batches. A box is as high as the share of its time in which the stage computes. The "
        "lanes below a stage show what is on its links.",
        "note");
    return y;
  }

  /// Fills that differ in color, and by the kind of action also in texture.
  std::string patterns() const {
    std::string out = "<defs>\n";
    const auto add = [&](const std::string& id, const std::string& color, const char* texture) {
      out += cat("<pattern id=\"", id, "\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect width=\"8\" ",
                 "height=\"8\" fill=\"", color, "\"/>", texture, "</pattern>\n");
    };
    const char* const rising =
        "<path d=\"M-2 2l4-4M0 8l8-8M6 10l4-4\" stroke=\"#fff\" stroke-opacity=\".32\" "
        "stroke-width=\"1.6\"/>";
    const char* const dots =
        "<circle cx=\"2\" cy=\"2\" r=\"1.1\" fill=\"#fff\" fill-opacity=\".55\"/>"
        "<circle cx=\"6\" cy=\"6\" r=\"1.1\" fill=\"#fff\" fill-opacity=\".55\"/>";
    const char* const falling =
        "<path d=\"M-2 6l4 4M0 0l8 8M6-2l4 4\" stroke=\"#c00000\" stroke-opacity=\".75\" stroke-width=\"1\"/>";
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      add(style_of(Kind::forward, chunk), shade(kForward, chunk, chunks_), "");
      add(style_of(Kind::backward, chunk), shade(kBackward, chunk, chunks_), rising);
      add(style_of(Kind::weight, chunk), shade(kWeight, chunk, chunks_), dots);
    }
    add(style_of(Kind::update, 0), "#333", "");
    add("wait", "#fdf0ee", falling);
    return out + "</defs>\n";
  }

  const Timeline& timeline_;
  const StepTime& time_;
  std::vector<Window> windows_;
  double right_;  // of the plot
  int chunks_ = 1;
  std::set<Kind> kinds_;
  SvgCanvas canvas_;
};

}  // namespace

std::string timeline_svg(const Timeline& timeline, const StepTime& time, const std::string& title,
                         const std::string& subtitle) {
  return Drawing(timeline, time).document(title, subtitle);
}

}  // namespace mtl
