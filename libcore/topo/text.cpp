#include <algorithm>

#include "base/count_of.h"
#include "base/str.h"
#include "base/utf8.h"
#include "chart/label.h"
#include "engine/plan_tables.h"
#include "topo/output.h"

namespace mtl {

namespace {

constexpr int kMostRankRows = 16, kMostTextParts = 8;  // ranks and vocabulary shards to list one per line
constexpr int kWideEnough = 92;                        // columns needed to show a group kind in one line

std::string describe_groups(const TopoReport& report, const TerminalOptions& terminal) {
  std::string out = "Groups\n";
  for (const GroupKind& kind : shown_kinds(report.kinds)) {
    std::string count =
        cat(kind.groups.size(), kind.groups.size() == 1 ? " group of " : " groups of ", kind.groups.front().size());
    int groups = static_cast<int>(kind.groups.size());
    std::string crossing = kind.crossing == 0        ? "inside nodes"
                           : groups == 1             ? "across nodes"
                           : kind.crossing == groups ? "all across nodes"
                                                     : cat(kind.crossing, " of ", groups, " across nodes");
    std::string line = format("  %-10s %-16s ", kind.name.c_str(), count.c_str());
    if (terminal.width >= kWideEnough)
      line += format("%-20s%s\n", crossing.c_str(), kind.purpose.c_str());
    else
      line += format("%s\n  %-10s %s\n", crossing.c_str(), "", kind.purpose.c_str());
    out += line;
    out += format("  %-10s %s\n", "", kind.traffic.c_str());
    const auto words = texts_of(kind.groups, [](const auto& group) { return cat("{", rank_list(group), "}"); });
    for (const std::string& list : wrap(words, terminal.width - 13, 2)) out += format("  %-10s %s\n", "", list.c_str());
  }
  std::vector<std::string> idle = idle_kinds(report.kinds);
  if (!idle.empty()) out += cat("  ", join(idle, ", "), ": groups of one rank\n");
  return out;
}

std::string rows_text(const TopoReport& report, int tensor_rank) {
  LayerRange rows = report.vocab_rows(tensor_rank);
  std::int64_t padding = std::clamp<std::int64_t>(rows.first + rows.count - report.vocab_size, 0, rows.count);
  std::string out = cat(rows.first, "-", rows.first + rows.count - 1);
  return padding == 0 ? out : cat(out, " (", padding, " padding)");
}

/// Describes each rank in a line, if there are only a few.
std::string describe_ranks(const TopoReport& report) {
  if (report.world > kMostRankRows) return "";
  std::vector<Axis> axes;
  for (Axis axis : kShownAxes) {
    if (report.layout.grid.size(axis) > 1) axes.push_back(axis);
  }
  std::string out = format("Ranks\n  %4s  %-8s %3s", "rank", "node", "gpu");
  for (Axis axis : axes) out += format(" %3s", short_name(axis));
  if (report.layout.expert_grid) out += "  ep";
  out += "  holds\n";
  for (int rank = 0; rank < report.world; ++rank) {
    std::string node = report.hosts.empty() ? cat(report.node_of(rank)) : report.node_name(report.node_of(rank));
    out += format("  %4d  %-8s %3d", rank, node.c_str(), report.local_rank(rank));
    for (Axis axis : axes) out += format(" %3d", report.layout.grid.coordinate(rank, axis));
    if (report.layout.expert_grid) out += format(" %3d", report.layout.expert_grid->coordinate(rank, Axis::expert));
    int stage = report.layout.grid.coordinate(rank, Axis::pipeline);
    out += "  " + report.holdings(stage);
    if (report.holds_vocabulary(stage))
      out += cat("; rows ", rows_text(report, report.layout.grid.coordinate(rank, Axis::tensor)));
    out += "\n";
  }
  return out;
}

std::string describe_stages(const TopoReport& report) {
  if (report.world <= kMostRankRows || report.stages == 1) return "";
  std::string out = "Stages\n";
  for (int stage : shown_stages(report, 64)) {
    if (stage < 0) {
      out += "   ..\n";
      continue;
    }
    std::vector<int> ranks;
    for (int column = 0; column < report.columns(); ++column) ranks.push_back(report.rank_in_grid(stage, column));
    std::sort(ranks.begin(), ranks.end());
    out += format("  %3d  ranks %-20s  %s\n", stage, rank_list(ranks).c_str(), report.holdings(stage).c_str());
  }
  return out;
}

std::string describe_vocabulary(const TopoReport& report) {
  if (report.vocab_size == 0) return "";
  int parts = report.layout.grid.size(Axis::tensor);
  std::string out = report.vocab_summary() + "\n";
  if (report.world <= kMostRankRows || parts == 1) return out;
  for (int part = 0; part < parts; ++part) {
    if (parts > kMostTextParts && part == kMostTextParts / 2) {
      out += "      ..\n";
      part = parts - kMostTextParts / 2;
    }
    out += format("  tp %3d  rows %s\n", part, rows_text(report, part).c_str());
  }
  return out;
}

std::string describe_memory(const TopoReport& report) {
  if (!report.memory) return "";
  const TopoMemory& memory = *report.memory;
  if (!memory.unsupported_reason.empty()) return cat("Memory and work: not given; ", memory.unsupported_reason, "\n");
  return cat("A step of ", count_of(memory.run.global_batch_size(), "sample"), " of ",
             count_of(memory.run.data.seq_length, "token"), ": ", with_commas(memory.run.micro_batches()),
             memory.run.micro_batches() == 1 ? " micro-batch of " : " micro-batches of ",
             memory.run.batch.micro_batch_size, " on each replica, ", count_of(memory.run.threads, "thread"),
             " per rank\n\n", describe_rank_plans(memory.plans),
             memory.pipeline ? "\n" + describe_pipeline(*memory.pipeline) : "");
}

std::string describe_notes(const TopoReport& report) {
  std::string out;
  for (const GroupKind& kind : report.kinds) {
    if (kind.name == "tp" && kind.crossing > 0) {
      out +=
          "Note: tensor parallelism communicates most often, in every layer, and here does so across nodes. Prefer a "
          "tensor-parallel size that divides the GPUs of a node.\n";
    }
  }
  if (report.layout.grid.size(Axis::context) > 1 && report.stages > 1 && !report.layout.expert_grid &&
      !report.order.ends_with("pp"))
    out += "Note: with context parallelism and a pipeline, Megatron-LM accepts only orders that end with pp.\n";
  return out;
}

/// Wraps long lines at blanks and indents the continuation lines. Drawings always fit.
std::string fold(const std::string& text, std::size_t width) {
  std::string out;
  for (std::string line : split(text, '\n')) {
    std::string indent(line.find_first_not_of(' ') == std::string::npos ? 0 : line.find_first_not_of(' ') + 4, ' ');
    while (count_characters(line) > width && line.find('\033') == std::string::npos) {
      std::size_t end = line.rfind(' ', width);
      if (end == std::string::npos || end <= indent.size()) break;
      out += line.substr(0, line.find_last_not_of(' ', end) + 1) + "\n";
      line.replace(0, end + 1, indent);
    }
    out += line + "\n";
  }
  out.pop_back();  // split() adds an empty line after the last newline
  return out;
}

/// Replaces box-drawing characters with ASCII.
std::string to_ascii(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (byte_of(text[i]) < 0x80) {
      out += text[i];
      continue;
    }
    std::string drawing = text.substr(i, 3);
    out += drawing == "─" ? '-' : drawing == "│" ? '|' : drawing == "═" ? '=' : '+';
    i += 2;
  }
  return out;
}

}  // namespace

std::string topo_text(const TopoReport& report, const TerminalOptions& terminal) {
  std::vector<std::string> sections = {
      cat(report.size(), "; order ", report.order, "\n"),
      draw_ranks(report, terminal),
      describe_groups(report, terminal),
      describe_ranks(report),
      describe_stages(report),
      describe_vocabulary(report),
      draw_schedule(report, terminal),
      describe_memory(report),
      describe_notes(report),
  };
  std::erase(sections, "");
  std::string text = fold(join(sections, "\n"), terminal.width);
  return terminal.unicode ? text : to_ascii(text);
}

}  // namespace mtl
