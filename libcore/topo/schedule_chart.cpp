#include <algorithm>
#include <cmath>

#include "base/enum_index.h"
#include "base/str.h"
#include "topo/output.h"

namespace mtl {

namespace {

/// How actions are labeled: by the micro-batch alone, with the chunk, or with the kind (in capitals for chunk 1).
enum class Labels { plain, chunks, kinds };

/// A stage's timeline: a forward pass takes one cell, an entire backward pass two. A cell has one character if labels
/// are plain, otherwise two.
class StageLine {
 public:
  StageLine(std::size_t cells, Labels labels, bool color)
      : cell_(labels == Labels::plain ? 1 : 2), labels_(labels), color_(color) {
    const std::size_t cell = cell_;
    texts_.assign(cells, std::string(cell, '.'));
    kinds_.assign(cells, '.');
  }
  void put(const Action& action, const TimeSpan& span) {
    constexpr char kKinds[] = {'f', 'b', 'w'};
    const char kind = kKinds[enum_index(action.kind)];
    std::size_t begin = std::lround(span.start), end = std::lround(span.end);
    std::string text = cat(action.micro_batch % 10);
    if (labels_ == Labels::chunks) text += static_cast<char>('a' + action.chunk % 26);
    if (labels_ == Labels::kinds) text += action.chunk == 0 ? kind : static_cast<char>(kind + 'A' - 'a');
    text.resize((end - begin) * cell_, '\'');
    for (std::size_t i = begin; i < end; ++i) {
      texts_[i] = text.substr((i - begin) * cell_, cell_);
      kinds_[i] = kind;
    }
  }
  /// Returns cells [begin, end), with a color code wherever the kind changes.
  std::string part(std::size_t begin, std::size_t end) const {
    std::string out;
    char kind = ' ';
    for (std::size_t i = begin; i < std::min(end, texts_.size()); ++i) {
      if (color_ && kinds_[i] != kind)
        out += kinds_[i] == 'f'   ? "\033[0;36m"
               : kinds_[i] == 'b' ? "\033[0;32m"
               : kinds_[i] == 'w' ? "\033[0;33m"
                                  : "\033[0;2m";
      kind = kinds_[i];
      out += texts_[i];
    }
    return color_ ? out + "\033[0m" : out;
  }

 private:
  std::size_t cell_;
  Labels labels_;
  bool color_;
  std::vector<std::string> texts_;
  std::string kinds_;
};

std::string describe_times(const TopoReport& report) {
  const TopoSchedule& schedule = *report.schedule;
  const double chunks = report.layout.chunks, total = schedule.times.total, ideal = schedule.times.ideal;
  const char* unit = "in forwards of a whole stage; a backward takes two";
  if (!report.layout.durations.empty())
    unit = "in forwards of an average stage, by the FLOPs of each stage's actions";
  else if (defers_weights(report.layout.schedule))
    unit = "in forwards of a whole stage; a backward takes two, one for weight gradients";
  std::string out = format("  total %.4g, of which %.4g are work, %s\n", total / chunks, ideal / chunks, unit);
  out += format("  the bubble is %.1f%% of the work, %.1f%% of the time\n", 100 * schedule.times.bubble(),
                100 * (1 - ideal / total));
  auto kept = texts_of(schedule.stages, [](const auto& actions) { return cat(max_in_flight(actions)); });
  out += cat("  micro-batches", chunks > 1 ? " x chunks" : "", " kept at once, by stage: ");
  if (kept.size() > 16) kept = {kept[0], kept[1], "..", kept[kept.size() - 2], kept.back()};
  return out + join(kept, " ") + "\n";
}

}  // namespace

std::string draw_schedule(const TopoReport& report, const TerminalOptions& terminal) {
  if (!report.schedule) {
    return report.micro_batches ? cat("Schedule: ", with_commas(*report.micro_batches),
                                      " micro-batches; the time chart would be too large\n")
                                : "";
  }
  const TopoSchedule& schedule = *report.schedule;
  const Labels labels = defers_weights(report.layout.schedule) ? Labels::kinds
                        : report.layout.chunks > 1             ? Labels::chunks
                                                               : Labels::plain;
  const std::size_t cell = labels == Labels::plain ? 1 : 2;
  std::size_t cells = std::lround(schedule.times.total);
  std::vector<StageLine> lines;
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    StageLine& line = lines.emplace_back(cells, labels, terminal.color);
    for (std::size_t i = 0; i < schedule.stages[stage].size(); ++i)
      line.put(schedule.stages[stage][i], schedule.times.spans[stage][i]);
  }
  std::string out = report.schedule_title() + "\n";
  const int digits = std::max<int>(2, static_cast<int>(cat(report.stages - 1).size()));
  const std::size_t label = digits + 9;
  const std::size_t most = (terminal.width - label) / cell, blocks = (cells + most - 1) / most;
  const std::size_t room = (cells + blocks - 1) / blocks;
  for (std::size_t begin = 0; begin < cells; begin += room) {
    if (cells > room)
      out += format("  time %g to %g\n", double(begin) / report.layout.chunks,
                    double(std::min(begin + room, cells)) / report.layout.chunks);
    for (int stage : shown_stages(report, 64)) {
      out += stage < 0 ? std::string("  ..")
                       : format("  stage %-*d ", digits, stage) + lines[stage].part(begin, begin + room);
      out += "\n";
    }
  }
  if (labels == Labels::plain) out += "  3: forward of micro-batch 3; 3': its backward; .: waiting\n";
  if (labels == Labels::chunks)
    out += "  3a: forward of micro-batch 3 through chunk a, the stage's first; 3a'': its backward; .: waiting\n";
  if (labels == Labels::kinds)
    out += cat("  3f: forward of micro-batch 3; 3b: gradients of its inputs; 3w: of the weights; ",
               report.layout.chunks > 1 ? "capitals: in the stage's second chunk; " : "", ".: waiting\n");
  if (schedule.micro_batches > 10) out += "  only the last digit of a micro-batch's number is shown\n";
  return out + describe_times(report);
}

}  // namespace mtl
