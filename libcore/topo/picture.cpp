#include <algorithm>

#include "base/json_cursor.h"
#include "base/str.h"
#include "base/utf8.h"
#include "topo/output.h"

namespace mtl {

namespace {

constexpr std::size_t kMostLines = 60, kLongestLabel = 30;
constexpr int kMostStages = 16;
constexpr int kLeftOut = -1;

/// A grid of characters that grows as needed.
class TextCanvas {
 public:
  char32_t at(std::size_t x, std::size_t y) const {
    return y < lines_.size() && x < lines_[y].size() ? lines_[y][x] : U' ';
  }
  void put(std::size_t x, std::size_t y, char32_t c) {
    if (lines_.size() <= y) lines_.resize(y + 1);
    if (lines_[y].size() <= x) lines_[y].resize(x + 1, U' ');
    lines_[y][x] = c;
  }
  void write(std::size_t x, std::size_t y, const std::string& ascii) {
    for (char c : ascii) put(x++, y, byte_of(c));
  }
  void box(std::size_t left, std::size_t top, std::size_t right, std::size_t bottom) {
    for (std::size_t x = left + 1; x < right; ++x) {
      put(x, top, U'─');
      put(x, bottom, U'─');
    }
    for (std::size_t y = top + 1; y < bottom; ++y) {
      put(left, y, U'│');
      put(right, y, U'│');
    }
    put(left, top, U'┌');
    put(right, top, U'┐');
    put(left, bottom, U'└');
    put(right, bottom, U'┘');
  }
  std::string text() const {
    std::string out;
    for (const std::u32string& line : lines_) {
      std::string bytes;
      for (char32_t c : line) append_utf8(bytes, c);
      out += bytes.substr(0, bytes.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
  }

 private:
  std::vector<std::u32string> lines_;
};

/// A drawing's spacing, from "rank 12 ══ tp ══ rank 13" down to "12═13".
struct Style {
  bool words;        // writes "rank" before the numbers
  std::size_t link;  // characters between neighbors
};
constexpr Style kStyles[] = {{true, 10}, {true, 4}, {false, 3}, {false, 1}};

/// A vertical band of the picture: some columns, all rows.
class TextBand : GridPart {
 public:
  TextBand(const TopoReport& of, const std::vector<int>& shown_stages, const std::vector<int>& shown_columns,
           Style style)
      : GridPart(of, shown_stages, shown_columns), style_(style) {
    cell_ = (style_.words ? 5 : 0) + cat(report.world - 1).size();
    place_columns();
    place_rows();
  }

  std::size_t width() const { return xs_.back() + cell_ + 2; }

  std::string draw() {
    for (const NodeBox& box : boxes) {
      canvas_.box(xs_[box.first_column] - 2, ys_[box.first_row] - 1, xs_[box.last_column] + cell_ + 1,
                  ys_[box.last_row] + 1);
    }
    for (std::size_t row = 0; row < stages.size(); ++row) draw_row(row);
    for (std::size_t row = 0; row + 1 < stages.size(); ++row) draw_connectors(row);
    for (const NodeBox& box : boxes) name_node(box);
    name_replicas();
    return canvas_.text();
  }

  static std::size_t label_width(const TopoReport& report) {
    std::size_t width = 0;
    for (int stage = 0; stage < report.stages; ++stage)
      width = std::max({width, report.stage_name(stage).size(), holdings(report, stage).size()});
    return width + 2;
  }

 private:
  static std::string holdings(const TopoReport& report, int stage) {
    std::string text = report.holdings(stage);
    return text.size() <= kLongestLabel ? text : text.substr(0, kLongestLabel - 2) + "..";
  }
  void place_columns() {
    std::size_t x = label_width(report) + 2;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      xs_.push_back(x);
      if (i + 1 == columns.size()) break;
      std::size_t gap = same_replica(i) ? style_.link : 3;
      if (node_ends_after(i)) gap = std::max<std::size_t>(gap, 5);
      x += cell_ + gap;
    }
  }
  void place_rows() {
    std::size_t y = report.layout.grid.size(Axis::data) > 1 ? 2 : 1;
    for (std::size_t row = 0; row < stages.size(); ++row) {
      bool left_out = stages[row]<0, after_left_out = row> 0 && stages[row - 1] < 0;
      bool inside = std::any_of(boxes.begin(), boxes.end(),
                                [&](const NodeBox& box) { return box.first_row < row && row <= box.last_row; });
      if (row > 0) y += left_out || after_left_out ? 3 : inside ? 2 : 4;
      ys_.push_back(y);
    }
  }

  void draw_row(std::size_t row) {
    std::size_t y = ys_[row];
    if (stages[row] < 0) {
      canvas_.write(0, y, cat(".. ", report.stages - static_cast<int>(stages.size()) + 1, " more"));
      return;
    }
    canvas_.write(0, y, report.stage_name(stages[row]));
    canvas_.write(0, y + 1, holdings(report, stages[row]));
    for (std::size_t i = 0; i < columns.size(); ++i) {
      std::string name =
          columns[i] < 0 ? ".." : cat(style_.words ? "rank " : "", report.rank_in_grid(stages[row], columns[i]));
      canvas_.write(xs_[i] + (cell_ - std::min(name.size(), cell_)), y, name);
      if (same_replica(i)) draw_link(i, y);
    }
  }
  void draw_link(std::size_t i, std::size_t y) {
    bool tensor = same_tensor_group(i);
    std::size_t begin = xs_[i] + cell_, end = xs_[i + 1];
    if (end - begin >= 3) ++begin, --end;
    for (std::size_t x = begin; x < end; ++x) {
      bool border = canvas_.at(x, y) == U'│';
      canvas_.put(x, y, tensor ? (border ? U'╪' : U'═') : (border ? U'┼' : U'─'));
    }
    bool crosses = node_ends_after(i);
    if (end - begin >= 8 && !crosses) canvas_.write((begin + end) / 2 - 2, y, tensor ? " tp " : " cp ");
  }
  void draw_connectors(std::size_t row) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] < 0) continue;
      std::size_t x = xs_[i] + cell_ - (style_.words ? 3 : 1);
      for (std::size_t y = ys_[row] + 1; y < ys_[row + 1]; ++y)
        canvas_.put(x, y, canvas_.at(x, y) == U'─' ? U'┼' : U'│');
      bool has_room = ys_[row + 1] - ys_[row] == 4;
      if (style_.words && has_room) canvas_.write(x + 2, ys_[row] + 2, "pp");
    }
  }

  /// Writes the node's name into its box's top border, between connectors if there is room.
  void name_node(const NodeBox& box) {
    std::size_t left = xs_[box.first_column] - 1, right = xs_[box.last_column] + cell_ + 1, y = ys_[box.first_row] - 1;
    std::string name = cat(" ", report.node_name(box.node), " ");
    if (name.size() > right - left) name = name.substr(0, 1) == " " ? name.substr(1) : name;
    if (name.size() > right - left && report.hosts.empty()) name = cat("n", box.node);
    name = name.substr(0, right - left);
    auto is_free = [&](std::size_t x) {
      for (std::size_t i = 0; i < name.size(); ++i) {
        if (canvas_.at(x + i, y) != U'─') return false;
      }
      return true;
    };
    std::size_t x = left;
    while (x + name.size() <= right && !is_free(x)) ++x;
    canvas_.write(x + name.size() <= right ? x : left, y, name);
  }
  void name_replicas() {
    if (report.layout.grid.size(Axis::data) == 1) return;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!begins_replica(i)) continue;
      std::size_t end = i;
      while (same_replica(end)) ++end;
      std::string number = cat(columns[i] / report.columns_of_replica()), name = cat("replica ", number);
      std::size_t room = xs_[end] + cell_ - xs_[i] + 1;
      canvas_.write(xs_[i], 0, name.size() <= room ? name : cat("r", number).size() <= room ? cat("r", number) : "");
    }
  }

  Style style_;
  std::size_t cell_ = 0;
  std::vector<std::size_t> xs_, ys_;
  TextCanvas canvas_;
};

/// Returns the columns of replicas [first, first + count). If only `shown` columns per replica fit, returns that many
/// from replica `first`: its first columns and its last, with a gap between them.
std::vector<int> replica_columns(const TopoReport& report, int first, int count, int shown) {
  int size = report.columns_of_replica();
  if (shown >= size) return column_range(first * size, (first + count) * size);
  std::vector<int> columns = column_range(first * size, first * size + shown - 1);
  columns.push_back(kLeftOut);
  columns.push_back((first + 1) * size - 1);
  return columns;
}

std::string legend(const TopoReport& report) {
  std::vector<std::string> parts;
  if (report.layout.grid.size(Axis::tensor) > 1) parts.emplace_back("═ tensor parallel");
  if (report.layout.grid.size(Axis::context) > 1) parts.emplace_back("─ context parallel");
  if (report.stages > 1) parts.emplace_back("│ pipeline");
  parts.emplace_back("boxes: nodes");
  return join(parts, "   ");
}

}  // namespace

std::string draw_ranks(const TopoReport& report, const TerminalOptions& terminal) {
  const std::size_t room = terminal.width;
  const std::vector<int> stages = shown_stages(report, kMostStages);
  for (const Style& style : kStyles) {
    if (report.columns() > terminal.width) break;
    TextBand band(report, stages, column_range(0, report.columns()), style);
    if (band.width() <= room) return cat(band.draw(), "\n", legend(report), "\n");
  }
  // Too wide for one band: draws as many replicas side by side as fit, or one without its middle columns.
  int replicas = report.layout.grid.size(Axis::data), shown = std::min(report.columns_of_replica(), terminal.width);
  Style style = kStyles[2];
  auto fits = [&](int count) {
    return TextBand(report, stages, replica_columns(report, 0, count, shown), style).width() <= room;
  };
  if (!fits(1)) style = kStyles[3];
  while (shown > 2 && !fits(1)) --shown;
  int count = 1;
  while (shown == report.columns_of_replica() && count < replicas && fits(count + 1)) ++count;
  std::string out;
  std::size_t lines = 0;
  for (int first = 0; first < replicas; first += count) {
    std::vector<int> columns = replica_columns(report, first, std::min(count, replicas - first), shown);
    std::string band = TextBand(report, stages, columns, style).draw();
    lines += std::count(band.begin(), band.end(), '\n') + 1;
    if (first > 0 && lines > kMostLines) {
      out += cat(".. and ", replicas - first, " more replicas\n\n");
      break;
    }
    out += band + "\n";
  }
  return cat(out, legend(report), "\n");
}

}  // namespace mtl
