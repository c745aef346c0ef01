#include "engine/plan_tables.h"

#include <algorithm>

#include "base/str.h"
#include "layout/rank_list.h"

namespace mtl {

namespace {

/// A text table whose rows begin with a list of ranks.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) : rows_{{{}, std::move(heading)}} {}

  /// Adds a row, or adds the ranks to an existing row with equal cells.
  void add(const std::vector<int>& ranks, const std::vector<std::string>& cells) {
    auto same = std::find_if(rows_.begin() + 1, rows_.end(), [&](const Row& row) { return row.cells == cells; });
    if (same == rows_.end()) same = rows_.insert(rows_.end(), {{}, cells});
    same->ranks.insert(same->ranks.end(), ranks.begin(), ranks.end());
  }

  std::string text() {
    std::vector<std::size_t> widths(rows_.front().cells.size(), 0);
    for (Row& row : rows_) {
      std::sort(row.ranks.begin(), row.ranks.end());
      row.cells.insert(row.cells.begin(), row.ranks.empty() ? "ranks" : short_rank_list(row.ranks));
      widths.resize(row.cells.size(), 0);
      for (std::size_t i = 0; i < row.cells.size(); ++i) widths[i] = std::max(widths[i], row.cells[i].size());
    }
    std::string out;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (r == kMostRows && r + 2 < rows_.size()) {  // continue with the last two
        out += "  ..\n";
        r = rows_.size() - 2;
      }
      out += format("  %-*s", static_cast<int>(widths[0]), rows_[r].cells[0].c_str());
      for (std::size_t i = 1; i < widths.size(); ++i)
        out += format("  %*s", static_cast<int>(widths[i]), rows_[r].cells[i].c_str());
      out += "\n";
    }
    return out;
  }

 private:
  static constexpr std::size_t kMostRows = 24;
  struct Row {
    std::vector<int> ranks;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows_;
};

/// Returns the largest unit in which `bytes` is at least 10, or KiB if there is none.
std::pair<double, const char*> choose_unit(std::size_t bytes) {
  if (bytes >= std::size_t{10} << 30) return {1 << 30, "GiB"};
  if (bytes >= std::size_t{10} << 20) return {1 << 20, "MiB"};
  return {1 << 10, "KiB"};
}

std::string describe_memory(const std::vector<RankPlan>& plans, Space where) {
  const MemoryPlan& largest = largest_plan(plans).plan;
  auto [unit, name] = choose_unit(largest.total_bytes(where));
  const Space scarce = largest.scarce_space();
  const double per = unit;
  auto in_unit = [per](std::size_t bytes) { return format("%.2f", double(bytes) / per); };
  std::vector<std::string> heading;
  for (const MemoryPart& part : memory_parts(plans.front().plan, {where})) heading.emplace_back(part.heading);
  Table table(heading);
  auto activations = [&](const MemoryPlan& plan) {
    std::vector<std::string> terms;
    for (const PlanEntry& slots : plan.all(Category::slots))  // of each chunk
      terms.push_back(cat(slots.count, " x ", in_unit(slots.bytes)));
    if (const std::size_t messages = plan.bytes(Category::messages); messages > 0) terms.push_back(in_unit(messages));
    return join(terms, " + ");
  };
  for (const RankPlan& ranks : plans) {
    std::vector<std::string> cells;
    for (const MemoryPart& part : memory_parts(ranks.plan, {where})) {
      bool in_slots = part.name == std::string("activations") && where == scarce;
      cells.push_back(in_slots ? activations(ranks.plan) : in_unit(part.bytes));
    }
    table.add(ranks.ranks, cells);
  }
  const char* whose = largest.device == Device::cpu ? "" : where == Space::device ? "'s GPU" : ", pinned on the host";
  const std::string title = where == Space::file ? "Files of each rank" : cat("Memory of each rank", whose);
  return cat(title, ", in ", name, "\n", table.text());
}

std::string describe_work(const std::vector<RankPlan>& plans) {
  std::vector<std::string> heading = {"parameters", "FLOPs"};
  std::vector<bool> is_used;
  for (std::size_t group = 0; group < plans.front().plan.sent.size(); ++group) {
    bool used = std::any_of(plans.begin(), plans.end(),
                            [&](const RankPlan& ranks) { return ranks.plan.sent[group].sent.bytes > 0; });
    is_used.push_back(used);
    if (used) heading.push_back(cat("sent: ", plans.front().plan.sent[group].group));
  }
  Table table(heading);
  for (const RankPlan& ranks : plans) {
    std::vector<std::string> cells = {with_commas(ranks.plan.rank_parameters), format("%.4e", ranks.plan.step.flops)};
    for (std::size_t group = 0; group < is_used.size(); ++group) {
      if (is_used[group]) cells.push_back(human_bytes(ranks.plan.sent[group].sent.bytes));
    }
    table.add(ranks.ranks, cells);
  }
  return "Work of each rank in a step\n" + table.text();
}

std::string describe_collectives(const std::vector<RankPlan>& plans) {
  struct Row {
    const Collectives* of;
    const std::vector<int>* ranks;
  };
  std::vector<Row> rows;
  for (const GroupTraffic& traffic : plans.front().plan.sent) {
    const auto first = static_cast<std::ptrdiff_t>(rows.size());
    for (const RankPlan& ranks : plans) {
      for (const Collectives& each : ranks.collectives)
        if (each.group == traffic.group) rows.push_back({&each, &ranks.ranks});
    }
    std::stable_sort(rows.begin() + first, rows.end(),
                     [](const Row& a, const Row& b) { return a.of->operation < b.of->operation; });
  }
  if (rows.empty()) return "";
  Table table({"group", "operation", "calls", "sent", "exposed", "hidden by"});
  for (const auto& [of, ranks] : rows)
    table.add(*ranks, {of->group, of->operation, with_commas(of->operations), human_bytes(of->bytes),
                       of->exposed_operations == 0
                           ? "0"
                           : cat(with_commas(of->exposed_operations), ", ", human_bytes(of->exposed_bytes)),
                       of->flops_meanwhile > 0 ? format("%.4e", of->flops_meanwhile) : "0"});
  return cat("\nCollectives of each rank in a step\n", table.text(),
             "  exposed: calls that the rank waits for at once; hidden by: FLOPs between calls and their waits\n");
}

Json parts_json(const std::vector<MemoryPart>& parts) {
  Json out = Json::object();
  for (const MemoryPart& part : parts) out.set(part.name, part.bytes);
  return out;
}

Json collectives_json(const std::vector<Collectives>& all) {
  Json out = Json::array();
  for (const Collectives& each : all)
    out.push(Json::object({{"group", each.group},
                           {"operation", each.operation},
                           {"operations", each.operations},
                           {"sent_bytes", each.bytes},
                           {"exposed_operations", each.exposed_operations},
                           {"exposed_bytes", each.exposed_bytes},
                           {"flops_meanwhile", each.flops_meanwhile}}));
  return out;
}

/// Returns the values of all chunks, or the value of a single one.
Json by_chunk(Json::Array values) { return values.size() == 1 ? values.front() : Json(std::move(values)); }

}  // namespace

Json memory_json(const MemoryPlan& plan) { return parts_json(memory_parts(plan)); }

Json gpu_json(const MemoryPlan& plan) {
  return plan.device == Device::cpu ? Json() : parts_json(memory_parts(plan, {Space::device}));
}

Json file_json(const MemoryPlan& plan) {
  return plan.total_bytes(Space::file) == 0 ? Json() : parts_json(memory_parts(plan, {Space::file}));
}

Json rank_plans_json(const std::vector<RankPlan>& plans) {
  Json out = Json::array();
  for (const RankPlan& kind : plans) {
    Json bytes = Json::object(), operations = Json::object();
    for (const auto& [group, sent] : kind.plan.sent) {
      bytes.set(group, sent.bytes);
      operations.set(group, sent.operations);
    }
    Json::Array slots, slot_bytes;
    for (const PlanEntry& of_chunk : kind.plan.all(Category::slots)) {
      slots.push_back(of_chunk.count);
      slot_bytes.push_back(of_chunk.bytes);
    }
    out.push(Json::object({{"ranks", Json::Array(kind.ranks.begin(), kind.ranks.end())},
                           {"parameters", kind.plan.rank_parameters},
                           {"memory_bytes", memory_json(kind.plan)},
                           {"file_bytes", file_json(kind.plan)},
                           {"slots", by_chunk(slots)},
                           {"slot_bytes", by_chunk(slot_bytes)},
                           {"counted_flops_per_step", kind.plan.step.flops},
                           {"sent_bytes_per_step", std::move(bytes)},
                           {"operations_per_step", std::move(operations)},
                           {"collectives", collectives_json(kind.collectives)}}));
  }
  return out;
}

std::string describe_rank_memory(const std::vector<RankPlan>& plans) {
  const bool on_cpu = plans.front().plan.device == Device::cpu;
  const Space scarce = on_cpu ? Space::host : Space::device;
  const std::size_t most = largest_plan(plans).plan.total_bytes(scarce);
  const bool has_files = plans.front().plan.total_bytes(Space::file) > 0;
  std::vector<int> ranks;
  for (const RankPlan& kind : plans) {
    if (kind.plan.total_bytes(scarce) == most) ranks.insert(ranks.end(), kind.ranks.begin(), kind.ranks.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return cat(describe_memory(plans, scarce), "  the most, ", with_commas(most),
             " bytes: ", ranks.size() == 1 ? "rank " : "ranks ", rank_list(ranks), "\n",
             on_cpu ? "" : "\n" + describe_memory(plans, Space::host),
             has_files ? "\n" + describe_memory(plans, Space::file) : "");
}

std::string describe_rank_plans(const std::vector<RankPlan>& plans) {
  return cat(describe_rank_memory(plans), "\n", describe_work(plans), describe_collectives(plans));
}

}  // namespace mtl
