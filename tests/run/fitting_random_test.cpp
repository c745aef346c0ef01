// Suggestions for random runs that do not fit: as command lines, they are accepted, need what their lines say, and fit.
#include <doctest/doctest.h>

#include <map>
#include <random>

#include "cli/train/train_flags.h"
#include "run/fitting_settings.h"
#include "run/layout_changes.h"
#include "run/run_plan.h"

using namespace mtl;

namespace {

/// The values of flags by their names; of switches, "".
using CommandLine = std::map<std::string, std::string>;

struct ParsedRun {
  TrainOptions options;
  GptConfig config;
  int ranks_per_host = 1;

  MemoryNeed need() const {
    const std::vector<RankPlan> plans = plan_run(options, config);
    const auto by_rank = plans_by_rank(plans);
    MemoryNeed out;
    for (int first = 0; first < static_cast<int>(by_rank.size()); first += ranks_per_host)
      out.enlarge(MemoryNeed::of(by_rank, {.first = first, .count = ranks_per_host}));
    return out;
  }
};

/// Returns the run, or nothing if mtl-train refuses the command line.
std::optional<ParsedRun> parse(const CommandLine& line, Device device) {
  ParsedRun out;
  const RunStart start;
  Flags flags("mtl-train", "");
  flags.check([&] {
    resolve_world_size(out.options, 1);
    out.options.device = device;
  });
  add_train_flags(flags, out.options, start);
  std::vector<const char*> words = {"mtl-train"};
  for (const auto& [flag, value] : line) {
    words.push_back(flag.c_str());
    if (!value.empty()) words.push_back(value.c_str());
  }
  bool is_valid = true;
  const ReportProblem refuse = [&](const std::string&, const std::string&) { is_valid = false; };
  try {
    flags.parse(static_cast<int>(words.size()), words.data());
    out.config = resolve_config(out.options, {}, 500, refuse);
    if (!is_valid || !can_run(out.options, out.config)) return {};
    plan_run(out.options, out.config);
  } catch (const Error&) {
    return {};
  }
  return out;
}

/// The axes in the order in which they are suggested, each with its flags; the first one tells it from the others.
const std::vector<std::vector<std::string>>& axis_flags() {
  static const std::vector<std::vector<std::string>> out = {
      {"--micro-batch-size"},
      {"--use-distributed-optimizer", "--zero-stage"},
      {"--sequence-parallel"},
      {"--pipeline-schedule", "--num-virtual-stages-per-pipeline-rank"},
      {"--pipeline-split", "--num-virtual-stages-per-pipeline-rank"},
      {"--recompute-granularity selective"},
      {"--recompute-granularity full", "--recompute-method uniform"},
      {"--optimizer-cpu-offload"},
      {"--cpu-offloading"},
      {"--offload-optimizer"},
      {"--tensor-model-parallel-size"},
      {"--context-parallel-size"},
      {"--pipeline-model-parallel-size"}};
  return out;
}

std::int64_t number(const CommandLine& line, const std::string& flag) {
  const auto at = line.find(flag);
  return at == line.end() ? 1 : std::stoll(at->second);
}

/// Returns the command lines that differ from `line` in one axis and may need less, by axis.
std::vector<std::vector<CommandLine>> single_changes(const CommandLine& line, const ParsedRun& run) {
  std::vector<std::vector<CommandLine>> out(axis_flags().size());
  std::size_t axis = 0;
  const auto with = [&](std::initializer_list<std::pair<std::string, std::string>> values) {
    CommandLine changed = line;
    changed["--global-batch-size"] = std::to_string(run.options.global_batch_size());
    for (const auto& [flag, value] : values) changed[flag] = value;
    return changed;
  };
  const std::int64_t micro = run.options.batch.micro_batch_size;
  for (std::int64_t size = micro - 1; size > 0; --size)
    if (micro % size == 0) out[axis].push_back(with({{"--micro-batch-size", std::to_string(size)}}));
  ++axis;
  for (std::int64_t stage = run.options.parallel.zero() + 1; stage <= 3; ++stage)
    if (run.options.parallel.replicas() > 1) out[axis].push_back(with({{"--zero-stage", std::to_string(stage)}}));
  ++axis;
  if (run.options.parallel.tensor > 1 && !line.contains("--sequence-parallel"))
    out[axis].push_back(with({{"--sequence-parallel", ""}}));
  ++axis;
  if (run.options.parallel.pipeline > 1) {
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v"}) {
      if (run.options.parallel.schedule_kind(run.config.num_layers) == find_schedule(schedule)) continue;
      CommandLine changed = with({{"--pipeline-schedule", schedule}});
      changed.erase("--num-virtual-stages-per-pipeline-rank");
      out[axis].push_back(changed);
    }
    const bool interleaves = line.contains("--num-virtual-stages-per-pipeline-rank");
    for (int chunks = 2; chunks <= run.config.num_layers; ++chunks) {
      CommandLine changed = with({{"--num-virtual-stages-per-pipeline-rank", std::to_string(chunks)}});
      if (!interleaves) changed["--pipeline-schedule"] = "interleaved";
      out[axis + (interleaves ? 1 : 0)].push_back(changed);
    }
    out[axis + 1].push_back(with({{"--pipeline-split", "balanced"}}));
  }
  axis += 2;
  if (!line.contains("--recompute-granularity")) out[axis].push_back(with({{"--recompute-granularity", "selective"}}));
  if (!line.contains("--cpu-offloading") && !line.contains("--recompute-method"))
    out[axis + 1].push_back(with({{"--recompute-granularity", "full"}, {"--recompute-method", "uniform"}}));
  axis += 2;
  const bool has_gpu = run.options.device == Device::cuda, is_offloaded = line.contains("--optimizer-cpu-offload");
  if (has_gpu && !is_offloaded) out[axis].push_back(with({{"--optimizer-cpu-offload", ""}}));
  ++axis;
  if (has_gpu && !line.contains("--cpu-offloading")) out[axis].push_back(with({{"--cpu-offloading", ""}}));
  ++axis;
  out[axis].push_back(with({{"--offload-optimizer", "DIR"}}));
  out[axis].back().erase("--optimizer-cpu-offload");
  ++axis;
  for (const char* flag :
       {"--tensor-model-parallel-size", "--context-parallel-size", "--pipeline-model-parallel-size"}) {
    for (std::int64_t size = 1; size <= run.options.parallel.world; ++size)
      if (size != number(line, flag)) out[axis].push_back(with({{flag, std::to_string(size)}}));
    ++axis;
  }
  return out;
}

/// Returns the run's command line with a suggestion.
CommandLine changed(CommandLine line, const std::string& suggestion, int& ranks_per_host) {
  const std::vector<std::string> words = split(suggestion, ' ');
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "without" || words[i] == "and") {
      CHECK(line.erase(words[++i]) == 1);
    } else if (words[i] == "on") {  // N ranks[, M per host]
      line["--world-size"] = words[i + 1];
      ranks_per_host = i + 3 < words.size() ? std::stoi(words[i + 3]) : std::stoi(words[i + 1]);
      break;
    } else {
      const bool has_value =
          i + 1 < words.size() && !starts_with(words[i + 1], "--") && words[i + 1] != "without" && words[i + 1] != "on";
      const std::string flag = words[i], value = has_value ? words[++i] : "";
      CHECK((!line.contains(flag) || line[flag] != value));
      line[flag] = value;
      if (flag == "--zero-stage") line.erase("--use-distributed-optimizer");
    }
  }
  return line;
}

}  // namespace

TEST_CASE("fitting settings: what is suggested for random runs is accepted, true, and misses no change of one axis") {
  std::mt19937 random(20261);
  const auto one_of = [&](std::initializer_list<const char*> values) {
    return std::string(*(values.begin() + random() % values.size()));
  };
  const auto maybe = [&](CommandLine& line, int chance, const char* flag, std::initializer_list<const char*> values) {
    if (int(random() % 100) < chance) line[flag] = one_of(values);
  };
  int runs = 0, suggestions = 0, singles = 0;
  std::map<std::string, int> seen;
  while (runs < 40) {
    const Device device = random() % 3 == 0 ? Device::cpu : Device::cuda;
    CommandLine line = {{"--num-layers", one_of({"4", "6", "8"})},
                        {"--hidden-size", one_of({"64", "128"})},
                        {"--num-attention-heads", "4"},
                        {"--max-position-embeddings", "512"},
                        {"--seq-length", one_of({"256", "512"})},
                        {"--vocab-size", "500"},
                        {"--mock-data", ""},
                        {"--tokenizer-type", "NullTokenizer"},
                        {"--train-iters", "4"},
                        {"--lr", "0.1"},
                        {"--dry-run", ""},
                        {"--threads", "1"},
                        {"--world-size", one_of({"1", "2", "4", "4", "8", "8"})},
                        {"--micro-batch-size", one_of({"1", "2", "4", "6"})}};
    maybe(line, 80, "--global-batch-size", {"48", "96"});
    maybe(line, 40, "--tensor-model-parallel-size", {"2", "4"});
    maybe(line, 40, "--pipeline-model-parallel-size", {"2", "4"});
    maybe(line, 20, "--context-parallel-size", {"2"});
    maybe(line, 30, "--sequence-parallel", {""});
    maybe(line, 20, "--zero-stage", {"1", "2", "3"});
    maybe(line, 20, "--use-distributed-optimizer", {""});
    maybe(line, 30, "--pipeline-schedule", {"gpipe", "1f1b", "zb-h1", "zb-v"});
    maybe(line, 15, "--num-virtual-stages-per-pipeline-rank", {"2"});
    maybe(line, 15, "--pipeline-split", {"balanced"});
    maybe(line, 15, "--recompute-granularity", {"selective"});
    maybe(line, 15, "--optimizer-cpu-offload", {""});
    maybe(line, 10, "--cpu-offloading", {""});
    maybe(line, 30, "--bf16", {""});
    const std::optional<ParsedRun> run = parse(line, device);
    if (!run) continue;
    ++runs;
    std::string text;
    for (const auto& [flag, value] : line) text += cat(flag, " ", value, " ");
    const int world = static_cast<int>(run->options.parallel.world);
    const int per_host = random() % 2 == 0 ? world : std::max(1, world / 2);
    ParsedRun own = *run;
    own.ranks_per_host = per_host;
    const MemoryNeed need = own.need();
    FitLimits limits;
    const double part = .2 + .79 * double(random() % 1000) / 1000;
    const auto limit = [&](std::uint64_t bytes, bool is_per_process) {
      return MemoryLimit{static_cast<std::uint64_t>(part * double(bytes)), "limit", is_per_process};
    };
    if (device == Device::cuda) limits.gpu = limit(need.gpu_bytes, true);
    if (device == Device::cpu && random() % 2 == 0) limits.host.push_back(limit(need.rank_bytes, true));
    if (limits.host.empty() && (device == Device::cpu || random() % 3 == 0))
      limits.host.push_back(limit(device == Device::cpu ? need.host_bytes : 5 * need.host_bytes, false));
    CAPTURE(text);
    CAPTURE(part);
    CAPTURE(int(device));
    const std::vector<std::string> lines =
        find_fitting_settings(run->options, {.config = run->config}, {.first = 0, .count = per_host}, limits);
    std::vector<std::string> suggested;
    for (const std::string& each : lines) {
      CAPTURE(each);
      ++suggestions;
      const std::size_t colon = each.find(": ");
      suggested.push_back(each.substr(3, colon - 3));
      int ranks_per_host = per_host;
      std::optional<ParsedRun> as_said = parse(changed(line, suggested.back(), ranks_per_host), device);
      REQUIRE(as_said.has_value());
      as_said->ranks_per_host = ranks_per_host;
      CHECK(as_said->need().text() == each.substr(colon + 2));
      CHECK(as_said->need().fits(limits));
    }
    // The first suggestions change the first axes with which a change alone fits.
    std::size_t first = 0;
    const auto changes = single_changes(line, *run);
    for (std::size_t axis = 0; axis < changes.size() && first < 3; ++axis) {
      const bool fits = std::ranges::any_of(changes[axis], [&](const CommandLine& each) {
        std::optional<ParsedRun> other = parse(each, device);
        if (!other) return false;
        other->ranks_per_host = per_host;
        const std::int64_t parts = 2 * other->options.parallel.context;
        const bool is_in_space =
            parts == 2 || parts == 2 * run->options.parallel.context || other->options.data.seq_length / parts >= 128;
        return is_in_space && other->need().fits(limits);
      });
      if (!fits) continue;
      ++singles;
      CAPTURE(axis);
      CAPTURE(join(lines, ""));
      REQUIRE(first < suggested.size());
      std::string rest = suggested[first++] + " ";
      const auto cut = [&](const std::string& from) {
        const std::size_t at = rest.find(from + " ");
        if (at == std::string::npos) return false;
        std::size_t end = at + from.size() + 1;
        while (end < rest.size() && rest.compare(end, 2, "--") != 0 && rest.compare(end, 3, "wit") != 0)
          end = std::min(rest.size(), rest.find(' ', end) + 1);
        rest.erase(at, end - at);
        return true;
      };
      cut("without --num-virtual-stages-per-pipeline-rank");
      cut("without --optimizer-cpu-offload");
      bool has_axis = false;
      for (const std::string& flag : axis_flags()[axis]) has_axis = cut(flag) || has_axis;
      CHECK(has_axis);
      cut("--global-batch-size");
      CHECK(rest == "");
    }
  }
  CHECK(suggestions > 70);
  CHECK(singles > 30);
}
