// Draws a rank layout as an SVG figure.
#include <algorithm>
#include <array>

#include "base/str.h"
#include "chart/label.h"
#include "chart/schedule_colors.h"
#include "chart/svg_canvas.h"
#include "engine/plan_tables.h"
#include "topo/output.h"

namespace mtl {

namespace {

// All lengths are in pixels.
constexpr double kMargin = 24, kCellWidth = 58, kCellHeight = 40;
constexpr double kLinkGap = 22, kReplicaGap = 14, kNodeGap = 34;  // between linked ranks, replicas, and nodes
constexpr double kBoxSide = 10, kBoxTop = 24, kBoxBottom = 10;    // between a node's border and its ranks
constexpr double kInnerGap = 26, kOuterGap = 30;  // between stages: inside a node, and between node borders
constexpr int kBandColumns = 16;
constexpr double kContent = 1040;  // width of schedule and table

std::string fit(const std::string& text, double width, double font) {
  return cut_middle(text, "..", [&](const std::string& cut) { return text_width(cut, font) <= width; });
}

/// Returns how wide the labels left of the grid are.
double label_width(const TopoReport& report) {
  double width = 90;
  for (int stage = 0; stage < report.stages; ++stage) width = std::max(width, text_width(report.holdings(stage), 12));
  return std::min(width, 340.0) + 14;
}

/// Style sheet and arrowhead for pipelines.
const char* const kHead =
    "<style>text{font:13px Helvetica,Arial,'Liberation Sans','DejaVu Sans',sans-serif;fill:#222}"
    ".title{font-size:17px;font-weight:bold}.head{font-weight:bold}.note{font-size:12px;fill:#666}"
    ".node{font-size:11px;fill:#555;stroke:#f6f7f9;stroke-width:4px;paint-order:stroke}"
    ".mid{text-anchor:middle}.small{font-size:10.5px;fill:#666;text-anchor:middle}.end{text-anchor:end}"
    ".on{font-size:12px;text-anchor:middle;fill:#fff}.off{font-size:12px;text-anchor:middle}"
    ".far{fill:#b34700}"
    ".box{fill:#f6f7f9;stroke:#aab0b8;rx:8px}.rank{fill:#fff;stroke:#444;rx:5px}"
    ".wait{fill:#f3f3f3}.axis{stroke:#999}"
    ".tp{stroke:#0072B2;stroke-width:5}.cp{stroke:#CC79A7;stroke-width:3;stroke-dasharray:4 3}"
    ".pp{stroke:#D55E00;stroke-width:1.6;marker-end:url(#arrow)}</style>\n"
    "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
    "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#D55E00\"/></marker></defs>\n";

/// Part of the rank grid: some columns, all stages.
class Band : GridPart {
 public:
  Band(const TopoReport& of, int begin, int end)
      : GridPart(of, column_range(0, of.stages), column_range(begin, end)), label_(label_width(of)) {
    double x = kMargin + label_ + kBoxSide;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      xs_.push_back(x);
      x += kCellWidth + gap_after(i);
    }
  }

  /// Draws the band from y = `top` down. Returns the y below it.
  double draw(SvgCanvas& canvas, double top) {
    bool replicas = report.layout.grid.size(Axis::data) > 1;
    double y = top + (replicas ? 20 : 0) + kBoxTop;
    for (std::size_t row = 0; row < stages.size(); ++row) {
      if (row > 0) y += kCellHeight + (begins_box(row) ? kBoxBottom + kOuterGap + kBoxTop : kInnerGap);
      ys_.push_back(y);
    }
    if (replicas) name_replicas(canvas, top + 12);
    for (const NodeBox& box : boxes) {
      double left = xs_[box.first_column] - kBoxSide, up = ys_[box.first_row] - kBoxTop;
      canvas.box(left, up, xs_[box.last_column] + kCellWidth + kBoxSide - left,
                 ys_[box.last_row] + kCellHeight + kBoxBottom - up, "box");
    }
    for (std::size_t row = 0; row < stages.size(); ++row) draw_row(canvas, row);
    for (const NodeBox& box : boxes) {
      double left = xs_[box.first_column] - kBoxSide, right = xs_[box.last_column] + kCellWidth + kBoxSide;
      canvas.label(left + 6, ys_[box.first_row] - kBoxTop + 15, fit(report.node_name(box.node), right - left - 14, 11),
                   "node");
    }
    return y + kCellHeight + kBoxBottom;
  }

 private:
  bool begins_box(std::size_t row) const {
    return std::any_of(boxes.begin(), boxes.end(), [&](const NodeBox& box) { return box.first_row == row; });
  }
  double gap_after(std::size_t i) const {
    return node_ends_after(i) ? kNodeGap : same_replica(i) ? kLinkGap : kReplicaGap;
  }

  void draw_row(SvgCanvas& canvas, std::size_t row) {
    double y = ys_[row], middle = y + kCellHeight / 2;
    canvas.label(kMargin, middle - 2, report.stage_name(stages[row]), "head");
    canvas.label(kMargin, middle + 15, fit(report.holdings(stages[row]), label_ - 10, 12), "note");
    for (std::size_t i = 0; i < columns.size(); ++i) {
      int rank = report.rank_in_grid(stages[row], columns[i]);
      if (same_replica(i))
        canvas.line(xs_[i] + kCellWidth, middle, xs_[i + 1], middle, same_tensor_group(i) ? "tp" : "cp");
      // Right of the middle, so that the line does not cross the node's name.
      double x = xs_[i] + kCellWidth * 0.9;
      if (row + 1 < stages.size()) canvas.line(x, y + kCellHeight, x, ys_[row + 1] - 1, "pp");
      canvas.box(xs_[i], y, kCellWidth, kCellHeight, "rank");
      canvas.label(xs_[i] + kCellWidth / 2, y + 17, cat(report.world > 100 ? "" : "rank ", rank), "mid");
      canvas.label(xs_[i] + kCellWidth / 2, y + 31, cat("gpu ", report.local_rank(rank)), "small");
    }
  }
  void name_replicas(SvgCanvas& canvas, double y) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (begins_replica(i)) canvas.label(xs_[i], y, cat("replica ", columns[i] / report.columns_of_replica()), "note");
    }
  }

  double label_;
  std::vector<double> xs_, ys_;
};

double draw_legend(SvgCanvas& canvas, const TopoReport& report, double y) {
  double x = kMargin + label_width(report);
  auto entry = [&](const char* style, const char* name) {
    canvas.line(x, y - 4, x + 26, y - 4, style);
    canvas.label(x + 34, y, name, "note");
    x += 34 + text_width(name, 12) + 20;
  };
  if (report.layout.grid.size(Axis::tensor) > 1) entry("tp", "tensor parallel");
  if (report.layout.grid.size(Axis::context) > 1) entry("cp", "context parallel");
  if (report.stages > 1) entry("pp", "pipeline");
  canvas.box(x, y - 12, 22, 15, "box");
  canvas.label(x + 30, y, "node", "note");
  canvas.widen(x + 30 + 40);
  return y;
}

double draw_grid(SvgCanvas& canvas, const TopoReport& report, double top) {
  int replica = report.columns_of_replica();
  int step = replica >= kBandColumns ? kBandColumns : kBandColumns / replica * replica;
  double y = top;
  for (int begin = 0; begin < report.columns();) {
    // A replica wider than a band continues in the next one. The next replica begins a new band.
    int end = replica >= kBandColumns ? std::min(begin + step, (begin / replica + 1) * replica)
                                      : std::min(begin + step, report.columns());
    y = Band(report, begin, end).draw(canvas, y) + 18;
    begin = end;
  }
  return draw_legend(canvas, report, y + 14);
}

double draw_groups(SvgCanvas& canvas, const TopoReport& report, double top) {
  constexpr std::array<double, 5> kColumns = {0, 84, 200, 340, 640};
  std::vector<GroupKind> kinds = shown_kinds(report.kinds);
  if (kinds.empty()) return top;
  double y = top + 40;
  auto row = [&](const std::array<std::string, 5>& texts, const char* style, const char* third) {
    for (std::size_t i = 0; i < texts.size(); ++i)
      canvas.label(kMargin + kColumns[i], y, texts[i], i == 2 ? third : style);
    y += 20;
  };
  row({"kind", "groups", "across nodes", "purpose", "traffic"}, "head", "head");
  for (const GroupKind& kind : kinds) {
    std::string crossing = kind.crossing == 0 ? "none" : cat(kind.crossing, " of ", kind.groups.size());
    row({kind.name, cat(kind.groups.size(), " of ", kind.groups.front().size(), " ranks"), crossing, kind.purpose,
         kind.traffic},
        "note", kind.crossing == 0 ? "note" : "note far");
    canvas.widen(kMargin + kColumns[4] + text_width(kind.traffic, 12));
  }
  return y;
}

double draw_time_axis(SvgCanvas& canvas, const TopoReport& report, double y, double unit) {
  const TopoSchedule& schedule = *report.schedule;
  double left = kMargin + 70, chunks = report.layout.chunks, total = schedule.times.total / chunks;
  int step = 1;
  for (int next : {2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}) {
    if (total / step > 14) step = next;
  }
  canvas.line(left, y, left + schedule.times.total * unit, y, "axis");
  for (int time = 0; time <= total; time += step) {
    double x = left + time * chunks * unit;
    canvas.line(x, y, x, y + 5, "axis");
    canvas.label(x, y + 18, cat(time), "small");
  }
  return y + 36;
}

const Rgb& color_of(ActionKind kind) {
  if (kind == ActionKind::forward) return kForward;
  return kind == ActionKind::weight ? kWeight : kBackward;
}

/// Draws a color swatch for each kind of action in each chunk, and the times of the step. Returns the y below.
double draw_schedule_legend(SvgCanvas& canvas, const TopoReport& report, double left, double y) {
  const int chunks = report.layout.chunks;
  double x = left;
  auto swatch = [&](const std::string& fill) {
    canvas.raw(
        format("<rect x=\"%.1f\" y=\"%.1f\" width=\"16\" height=\"12\" fill=\"%s\"/>\n", x, y - 10, fill.c_str()));
    x += 17;
  };
  auto name = [&](const std::string& text) {
    canvas.label(x + 5, y, text, "note");
    x += 5 + text_width(text, 12) + 16;
  };
  std::string of_chunks = chunks == 1 ? "" : cat(", chunks 0 to ", chunks - 1);
  for (auto [strong, text] :
       {std::pair(&kForward, "forward"), std::pair(&kBackward, "backward"), std::pair(&kWeight, "weight gradients")}) {
    if (strong == &kWeight && !defers_weights(report.layout.schedule)) continue;
    for (int chunk = 0; chunk < chunks; ++chunk) swatch(shade(*strong, chunk, chunks));
    name(text + of_chunks);
  }
  swatch("#e6e6e6");
  name("waiting");
  canvas.widen(std::max(x, left + 600));
  const ScheduleTimes& times = report.schedule->times;
  double total = times.total / chunks, ideal = times.ideal / chunks;
  canvas.label(
      left, y + 22,
      format("Time in forwards of a whole stage: %.4g, of which %.4g are work. The bubble is %.1f%% of the work, "
             "%.1f%% of the time.",
             total, ideal, 100 * times.bubble(), 100 * (1 - ideal / total)),
      "note");
  return y + 30;
}

double draw_schedule_figure(SvgCanvas& canvas, const TopoReport& report, double top) {
  const TopoSchedule& schedule = *report.schedule;
  constexpr double kRow = 30, kBar = 26;
  int chunks = report.layout.chunks;
  double left = kMargin + 70, room = std::max(canvas.width() - kMargin, kContent) - 70;
  double unit = std::clamp(room / schedule.times.total, 2.0, 30.0);
  canvas.label(kMargin, top, report.schedule_title(), "head");
  double y = top + 14;
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage, y += kRow) {
    canvas.label(kMargin, y + 18, cat("stage ", stage), "");
    canvas.box(left, y, schedule.times.total * unit, kBar, "wait");
    for (std::size_t i = 0; i < schedule.stages[stage].size(); ++i) {
      const Action& action = schedule.stages[stage][i];
      const TimeSpan& span = schedule.times.spans[stage][i];
      double x = left + span.start * unit, width = (span.end - span.start) * unit;
      std::string fill = shade(color_of(action.kind), action.chunk, chunks);
      canvas.raw(format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" fill=\"%s\" stroke=\"#fff\"/>\n", x,
                        y, width, kBar, fill.c_str()));
      std::string number = cat(action.micro_batch);
      if (text_width(number, 12) + 2 <= width)
        canvas.label(x + width / 2, y + 17.5, number, is_dark(action.chunk, chunks) ? "on" : "off");
    }
  }
  return draw_schedule_legend(canvas, report, left, draw_time_axis(canvas, report, y + 4, unit) + 4);
}

/// Merges plans with equal memory, even if their work differs.
std::vector<RankPlan> fold_by_memory(const std::vector<RankPlan>& plans) {
  std::vector<RankPlan> out;
  for (const RankPlan& kind : plans) {
    const std::string memory = memory_json(kind.plan).dump() + file_json(kind.plan).dump();
    auto same = std::find_if(out.begin(), out.end(), [&](const RankPlan& other) {
      return memory_json(other.plan).dump() + file_json(other.plan).dump() == memory;
    });
    if (same == out.end()) same = out.insert(out.end(), {{}, kind.plan});
    same->ranks.insert(same->ranks.end(), kind.ranks.begin(), kind.ranks.end());
  }
  for (RankPlan& kind : out) std::sort(kind.ranks.begin(), kind.ranks.end());
  return out;
}

/// Draws a bar per plan, divided by memory category.
double draw_memory(SvgCanvas& canvas, const TopoReport& report, double top) {
  constexpr std::array kColors = {"#0072B2", "#56B4E9", "#009E73", "#E69F00", "#CC79A7",
                                  "#999999", "#D55E00", "#F0E442", "#000000"};
  constexpr double kRow = 26, kBar = 20, kLabel = 150;
  const std::vector<RankPlan>& plans = report.memory->plans;
  const double total_width = plans.front().plan.total_bytes(Space::file) > 0 ? 240 : 110;
  double scale = (kContent - kLabel - total_width) / double(largest_plan(plans).plan.total_bytes());
  canvas.label(kMargin, top, "Memory of each rank", "head");
  double y = top + 12, x = kMargin + kLabel;
  for (const RankPlan& kind : fold_by_memory(plans)) {
    canvas.label(kMargin, y + 15, cat(kind.ranks.size() == 1 ? "rank " : "ranks ", short_rank_list(kind.ranks)), "");
    x = kMargin + kLabel;
    const std::vector<MemoryPart> parts = memory_parts(kind.plan);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {  // the last is the total
      double width = double(parts[i].bytes) * scale;
      canvas.raw(format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" fill=\"%s\"/>\n", x, y, width, kBar,
                        kColors[i]));
      x += width;
    }
    std::string total = human_bytes(double(kind.plan.total_bytes()));
    if (const std::size_t files = kind.plan.total_bytes(Space::file); files > 0)
      total += cat(", and ", human_bytes(double(files)), " in files");
    canvas.label(x + 8, y + 15, total, "");
    y += kRow;
  }
  x = kMargin + kLabel;
  const std::vector<MemoryPart> parts = memory_parts(plans.front().plan);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    canvas.raw(format("<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, y + 6, kColors[i]));
    std::string name = parts[i].heading;
    canvas.label(x + 17, y + 16, name, "note");
    x += 17 + text_width(name, 12) + 18;
  }
  canvas.widen(kMargin + kContent);
  return y + 24;
}

}  // namespace

std::string topo_svg(const TopoReport& report) {
  SvgCanvas canvas;
  std::string title = report.size();
  canvas.label(kMargin, kMargin + 14, title, "title");
  canvas.label(kMargin, kMargin + 34, cat("numbered in the order ", report.order), "note");
  canvas.widen(kMargin + text_width(title, 17));
  double y = draw_grid(canvas, report, kMargin + 54);
  y = draw_groups(canvas, report, y);
  if (report.vocab_size > 0) canvas.label(kMargin, y += 12, report.vocab_summary(), "note");
  if (report.schedule) y = draw_schedule_figure(canvas, report, y + 30);
  if (report.memory && report.memory->unsupported_reason.empty()) y = draw_memory(canvas, report, y + 36);
  return canvas.document(canvas.width() + kMargin, y + kMargin, title, kHead);
}

}  // namespace mtl
