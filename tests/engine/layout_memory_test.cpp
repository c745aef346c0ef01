// Memory, traffic and losses in every layout: each rank uses exactly its planned memory, and sends what is planned.
// Losses before and after an update equal a single rank's losses, with dropout. Recomputation changes no bit in losses
// and gradients. Runs the layouts in cli/layouts.txt with ranks as threads.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>

#include "base/files.h"
#include "base/str.h"
#include "engine/meta_model.h"
#include "engine/pipeline.h"
#include "engine/place_durations.h"
#include "engine/rank_plans.h"
#include "layout/schedule_times.h"
#include "optim/optimizer.h"
#include "run/run_plan.h"
#include "tests/comm/thread_group.h"
#include "tests/gpt_of_size.h"
#include "tests/relative_error.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr std::int64_t kSamples = 16, kLength = 16, kVocab = 100;  // samples per step, tokens per sample
constexpr int kSteps = 2;
// Layouts that run in every test with all architectures, and with recomputation: the first ones.
constexpr std::size_t kShortRuns = 24;

/// A Llama has no dropout, as is usual. Backward then copies less (nn/block.cpp).
DropoutOptions layout_dropout(const GptConfig& config) {
  if (config.norm == Norm::rmsnorm && !config.qk_norm) return {};
  return {.hidden = 0.1f, .attention = 0.1f, .seed = 1234};
}

const GptSizes kSizes{.vocab = kVocab, .layers = 5, .hidden = 64, .heads = 8, .positions = kLength};

GptConfig layout_gpt() { return gpt_of_size(kSizes); }

struct Architecture {
  std::string name;
  GptConfig config;
  int max_tensor_parallel;
};
const std::vector<Architecture> kArchitectures = {{"gpt", layout_gpt(), 8},
                                                  {"llama", llama_of_size(kSizes), 2},
                                                  {"qwen", qwen_of_size(kSizes), 2},
                                                  {"neox", neox_of_size(kSizes), 8}};

struct RunLayout {
  GptConfig config;
  std::string text;  // a line from layouts.txt
  RunShape shape;    // rank 0's shape
  ParamTraffic::Overlap overlap;
  bool is_short = false;  // one of the first kShortRuns
};

RunLayout parse_layout(const std::string& line, const GptConfig& config = layout_gpt()) {
  int tensor, sequence, stages, data, shard, overlap, micro_batch, context = 1, offload = 0;
  std::string schedule, exchange = "-", rule = "adam";
  std::istringstream words(line);
  words >> tensor >> sequence >> stages >> schedule >> data >> shard >> overlap >> micro_batch;
  if (words && !words.eof()) words >> context >> exchange >> offload >> rule;
  REQUIRE_MESSAGE(words, "not a layout: ", line);
  RunLayout layout{.config = config,
                   .text = line,
                   .shape = {},
                   .overlap = {.reduce = overlap != 0, .gather = overlap != 0 && shard != 0}};
  RunShape& shape = layout.shape;
  TrainOptions options;
  options.optimizer.name = rule;
  shape.rules = run_rules(options);
  shape.micro_batch = micro_batch;
  shape.seq_length = kLength;
  shape.micro_batches = kSamples / (micro_batch * data);
  shape.padded_vocab = padded_vocab_size(kVocab, 8, tensor);  // at most 128: the last two of 8 parts have padding
  shape.storage.bucket_elements = 20000;                      // multiple buckets
  shape.layout.grid = RankGrid({.tensor = tensor, .context = context, .data = data, .pipeline = stages});
  REQUIRE((exchange == "-" || exchange == "all_gather" || exchange == "p2p"));
  if (exchange == "p2p") shape.layout.context_exchange = ContextExchange::ring;
  shape.layout.sequence_parallel = sequence != 0;
  shape.layout.zero = shard;
  if (offload != 0) shape.storage.optimizer_folder = std::filesystem::temp_directory_path();
  shape.layout.schedule = find_schedule(schedule);
  if (shape.layout.schedule == ScheduleKind::interleaved || shape.layout.schedule == ScheduleKind::zero_bubble_v) {
    shape.layout.chunks = 2;
    shape.layout.split.layer_counts =
        stages == 2 ? std::vector<std::int64_t>{1, 2, 1, 1} : std::vector<std::int64_t>{1, 1, 0, 1, 0, 1, 1, 0};
  }
  if (defers_weights(shape.layout.schedule) && config.num_query_groups % tensor == 0)
    shape.layout.durations = place_durations(config, layout_dropout(config), shape);
  return layout;
}

/// Returns the layouts in layouts.txt whose tensor-parallel size is possible with this model.
std::vector<RunLayout> layouts(const Architecture& model = kArchitectures.front()) {
  std::vector<RunLayout> out;
  std::size_t lines = 0;
  for (const std::string& line : split(read_file("cli/layouts.txt"), '\n')) {
    if (line.empty() || line[0] == '#') continue;
    RunLayout layout = parse_layout(line, model.config);
    layout.is_short = lines++ < kShortRuns;
    if (layout.shape.layout.size(Axis::tensor) <= model.max_tensor_parallel) out.push_back(std::move(layout));
  }
  return out;
}

/// Returns a sample's token at `position`. The token at kLength is the last label.
std::int32_t token(std::int64_t sample, std::int64_t position) {
  return static_cast<std::int32_t>((sample * 31 + position * position * 7 + position * 3) % kVocab);
}

/// Returns the first sample in this rank's micro-batch.
std::int64_t first_sample(const RunShape& shape, std::int64_t micro_batch) {
  const Layout& layout = shape.layout;
  return (micro_batch * layout.size(Axis::data) + layout.coordinate(Axis::data)) * shape.micro_batch;
}

void fill(const BatchBuffers& buffers, const RunShape& shape, int step) {
  for (int m = 0; m < shape.micro_batches; ++m) {
    const Batch& batch = buffers.batch(m);
    std::iota(batch.samples.data<std::int64_t>(), batch.samples.data<std::int64_t>() + shape.micro_batch,
              first_sample(shape, m) + step * kSamples);
    const RowMap rows = batch.rows();
    for (std::int64_t i = 0; i < shape.micro_batch * shape.rows_per_sequence(); ++i) {
      std::int64_t sample = first_sample(shape, m) + rows.sequence(i), position = rows.position(i);
      batch.tokens.data<std::int32_t>()[i] = token(sample, position);
      batch.labels.data<std::int32_t>()[i] = token(sample, position + 1);
      batch.positions.data<std::int32_t>()[i] = static_cast<std::int32_t>(position);
      batch.loss_weights.data<float>()[i] = 1.0f / static_cast<float>(kSamples * kLength);
    }
  }
}

/// Collects results from ranks, which run as threads. doctest's checks work only in the test's own thread.
struct Findings {
  std::mutex mutex;
  std::vector<std::string> differences;
  std::vector<double> losses = std::vector<double>(kSteps * kSamples * kLength, NAN);  // by step, sample and position
  std::map<int, std::vector<float>> gradients;  // by rank: the last step's, reduced and clipped

  template <class T>
  void compare(int rank, const char* what, T real, T planned) {
    if (real == planned) return;
    std::lock_guard lock(mutex);
    differences.push_back(cat("rank ", rank, ": ", what, " ", real, ", planned ", planned));
  }
};

std::string text_of(const std::vector<GroupTraffic>& traffic) {
  std::string out;
  for (const auto& [group, sent] : traffic) {
    if (sent.operations > 0)
      out += format("%s: %.17g bytes in %lld operations; ", group.c_str(), sent.bytes,
                    static_cast<long long>(sent.operations));
  }
  return out;
}

void run_rank(const RunLayout& layout, int rank, const ProcessGroups& groups, Findings& findings) {
  RunShape shape = layout.shape;
  shape.layout.rank = rank;
  MemoryPlan plan = plan_training(layout.config, layout_dropout(layout.config), shape);
  Stage stage = make_stage(layout.config, layout_dropout(layout.config), shape);
  ParamMemory params(
      Device::cpu, kPrecisionFp32, shape.rules, [&](const ParamVisitor& visit) { stage.params(visit); }, shape.layout,
      shape.storage);
  params.initialize(1234);
  Stream stream(Device::cpu, 1);
  Optimizer optimizer(params, {1.0, layout.overlap}, stream, groups);
  Pipeline pipeline(stage, stream, groups, rank_schedule(shape.layout, static_cast<int>(shape.micro_batches)), plan,
                    &optimizer.traffic());
  BatchBuffers buffers(Device::cpu, shape);
  StepState state;
  bool has_losses = shape.layout.stage() == shape.layout.places().loss_stage();
  for (int step = 0; step < kSteps; ++step) {
    state.step = step + 1;
    state.lr = 1e-3;
    stream.reset_counters();
    groups.take_traffic();
    optimizer.set_factors(state);
    optimizer.begin_step();
    fill(buffers, shape, step);
    pipeline.train(buffers);
    optimizer.step(pipeline.scratch(), &state);
    findings.compare(rank, "FLOPs", stream.counters().flops, plan.step.flops);
    findings.compare(rank, "bytes of operands", stream.counters().bytes, plan.step.bytes);
    findings.compare(rank, "traffic", text_of(groups.take_traffic()), text_of(plan.sent));
    for (int m = 0; has_losses && shape.layout.coordinate(Axis::tensor) == 0 && m < shape.micro_batches; ++m) {
      const float* losses = buffers.losses(m).data<float>();
      const RowMap rows = buffers.batch(m).rows();
      for (std::int64_t i = 0; i < shape.micro_batch * shape.rows_per_sequence(); ++i) {
        const std::int64_t sample = step * kSamples + first_sample(shape, m) + rows.sequence(i);
        findings.losses[static_cast<std::size_t>(sample * kLength + rows.position(i))] = losses[i];
      }
    }
  }
  const std::vector<PlanEntry> slots = plan.all(Category::slots);
  for (int chunk = 0; chunk < std::ssize(stage.chunks); ++chunk) {
    const PlanEntry& of_chunk = slots[static_cast<std::size_t>(chunk)];
    findings.compare(rank, "slots", pipeline.slots_of(chunk), of_chunk.count);
    findings.compare(rank, "bytes of a slot", pipeline.slot_peak(chunk), of_chunk.bytes);
  }
  findings.compare(rank, "message buffers", pipeline.inboxes(), plan.entry(Category::messages).count);
  findings.compare(rank, "bytes of scratch", pipeline.scratch_peak(), plan.entry(Category::scratch).bytes);
  findings.compare(rank, "bytes of parameters", params.bytes(kValues) + params.work_bytes(Role::values),
                   plan.bytes(Category::parameters));
  findings.compare(rank, "bytes of gradients", params.bytes(kGradients) + params.work_bytes(Role::gradients),
                   plan.bytes(Category::gradients));
  const bool offloads = !shape.storage.optimizer_folder.empty();
  std::size_t states = 0;
  for (std::size_t row = kFirstState; row < params.table().size(); ++row) states += params.bytes(row);
  findings.compare(rank, "bytes of states", states,
                   plan.bytes(Category::optimizer, offloads ? Space::file : Space::host));
  std::vector<float> gradients;
  for (int param = 0; param < params.size(); ++param) {
    const Tensor grad = params.shards_gradients() ? params.owned(param, kGradients) : params.grad(param);
    gradients.insert(gradients.end(), grad.data<float>(), grad.data<float>() + grad.numel());
  }
  std::lock_guard lock(findings.mutex);
  findings.gradients[rank] = std::move(gradients);
}

/// Every token's loss in two steps, and the last step's gradients.
struct Result {
  std::vector<double> losses;
  std::map<int, std::vector<float>> gradients;
  bool operator==(const Result&) const = default;  // false with any NaN
};

/// Runs two steps on all ranks in a layout. Checks that each rank uses its planned memory.
Result run_layout(const RunLayout& layout) {
  Findings findings;
  run_ranks(layout.shape.layout,
            [&](int rank, const ProcessGroups& groups) { run_rank(layout, rank, groups, findings); });
  for (const std::string& difference : findings.differences) FAIL_CHECK(layout.text, ": ", difference);
  return {findings.losses, findings.gradients};
}

/// Returns the bytes of the largest slot.
std::size_t slot_bytes(const RunLayout& layout) {
  std::size_t largest = 0;
  for (const PlanEntry& slots :
       plan_training(layout.config, layout_dropout(layout.config), layout.shape).all(Category::slots))
    largest = std::max(largest, slots.bytes);
  return largest;
}

/// Every token's losses in two steps on a single rank, by update rule.
std::map<std::string, std::vector<double>> losses_of_one_rank(const Architecture& model) {
  std::map<std::string, std::vector<double>> out;
  for (const auto& rule : known_rules())
    out[rule->name()] = run_layout(parse_layout(cat("1 0 1 1f1b 1 0 0 2 1 - 0 ", rule->name()), model.config)).losses;
  return out;
}

/// Runs a layout, and checks that it has the losses of its update rule.
Result run_with_losses(const RunLayout& layout, const std::map<std::string, std::vector<double>>& by_rule) {
  Result out = run_layout(layout);
  const std::vector<double>& expected = by_rule.at(layout.shape.rules.rules.back()->name());
  double largest = 0;
  for (std::size_t at = 0; at < expected.size(); ++at)
    largest = larger_or_nan(largest, std::abs(out.losses[at] / expected[at] - 1));
  CHECK(largest < 1e-5);
  return out;
}

/// Checks that a rank's profile on meta has the operators of its plan, and sends what the plan does.
void check_profile(const RunLayout& layout, int rank) {
  RunShape shape = layout.shape;
  shape.layout.rank = rank;
  const MemoryPlan plan = plan_training(layout.config, layout_dropout(layout.config), shape);
  const StepRecord step = record_step(layout.config, layout_dropout(layout.config), shape, layout.overlap);
  const std::vector<ProfileEntry>& entries = step.profile.entries();
  Counters work;
  std::map<std::string, Traffic> sent;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].kind == ProfileKind::op) {
      work.flops += step.weights[i] * entries[i].work.flops;
      work.bytes += step.weights[i] * entries[i].work.bytes;
    }
    if (entries[i].started >= 0) CHECK(entries[static_cast<std::size_t>(entries[i].started)].started < 0);
    if (entries[i].kind != ProfileKind::communication || entries[i].started >= 0 || entries[i].name == "receive")
      continue;
    sent[entries[i].detail].bytes += step.weights[i] * entries[i].work.bytes;
    sent[entries[i].detail].operations += std::llround(step.weights[i]);
  }
  CHECK(work.flops == doctest::Approx(plan.step.flops));
  CHECK(work.bytes == doctest::Approx(plan.step.bytes));
  for (const auto& [group, planned] : plan.sent) {
    CAPTURE(group);
    CHECK(sent[group] == planned);
  }
}

/// Returns the bytes that the first of the replicas that own the same elements as this rank reads for the gradient
/// norm, and this rank does not.
double unread_bytes(const RunLayout& layout) {
  RunShape shape = layout.shape;
  const AxisSet same = kReplicaAxes - shape.layout.owners();
  if (shape.layout.index_in(same) == 0) return 0;
  shape.layout.rank = shape.layout.grid.group_of(shape.layout.rank, same).front();
  const MetaModel first(layout.config, {}, shape);
  double bytes = 0;
  for (int param = 0; param < first.params.size(); ++param)
    if (first.params.writes(param)) bytes += static_cast<double>(first.params.owned(param, kGradients).bytes());
  return bytes;
}

/// Checks that plan_ranks() gives each rank the same plan as planning this rank alone, but for the reads of the norm.
void check_rank_plans(RunLayout layout) {
  const std::vector<RankPlan> plans = plan_ranks(layout.config, layout_dropout(layout.config), layout.shape);
  int ranks = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (int rank : plans[i].ranks) {
      CAPTURE(rank);
      layout.shape.layout.rank = rank;
      MemoryPlan alone = plan_training(layout.config, layout_dropout(layout.config), layout.shape);
      alone.step.bytes += unread_bytes(layout);
      CHECK(plans[i].plan == alone);
      ++ranks;
    }
    for (std::size_t j = 0; j < i; ++j) CHECK(plans[i].plan != plans[j].plan);
  }
  CHECK(ranks == layout.shape.layout.grid.world());
}

}  // namespace

TEST_CASE(
    "every layout uses its planned memory, its losses equal those of one rank, and recomputation changes no bit") {
  using Granularity = Recompute::Granularity;
  const Recompute recomputes[] = {{Granularity::selective},
                                  {Granularity::full, Recompute::Method::uniform, 2},
                                  {Granularity::full, Recompute::Method::block, 1}};
  std::size_t next = 0;  // each layout runs with one recomputation per architecture
  for (const Architecture& model : kArchitectures) {
    CAPTURE(model.name);
    const auto expected = losses_of_one_rank(model);
    CHECK(std::abs(expected.at("adam")[0] - std::log(double{kVocab})) < 1);
    std::vector<RunLayout> all = layouts(model);
    CHECK(all.size() >= 25);
    if (&model != &kArchitectures.front())  // the next test runs the rest
      std::erase_if(all, [](const RunLayout& layout) { return !layout.is_short; });
    for (RunLayout& layout : all) {
      CAPTURE(layout.text);
      const Result kept = run_with_losses(layout, expected);
      if (!layout.is_short) continue;
      CHECK(kept == kept);  // no NaN
      const std::size_t kept_bytes = slot_bytes(layout);
      layout.shape.recompute = recomputes[next++ % std::size(recomputes)];
      CAPTURE(static_cast<int>(layout.shape.recompute.granularity));
      CAPTURE(static_cast<int>(layout.shape.recompute.method));
      CHECK(run_layout(layout) == kept);
      if (layout.shape.layout.stages() == 1)
        CHECK(slot_bytes(layout) < kept_bytes);  // with multiple stages, each has too few layers
    }
    ++next;
  }
}

TEST_CASE("a profile on meta has the work and the traffic of the plan, in every layout") {
  for (const RunLayout& layout : layouts()) {
    CAPTURE(layout.text);
    for (int rank : {0, layout.shape.layout.grid.world() - 1}) check_profile(layout, rank);
  }
}

TEST_CASE("schedules with the same stages compute the same bits") {
  for (const char* rest : {"1 0 4 ", "2 1 2 "}) {
    const auto result_of = [&](const char* schedule) {
      const RunLayout layout = parse_layout(cat(rest, schedule, " 1 0 0 2"));
      CAPTURE(layout.text);
      return run_layout(layout);
    };
    const Result expected = result_of("1f1b");
    CHECK(expected == expected);  // no NaN
    for (const char* schedule : {"gpipe", "zb-h1", "zb-h2"}) {
      CAPTURE(schedule);
      CHECK(result_of(schedule) == expected);
    }
  }
}

TEST_CASE("a V, whose stages hold other layers, computes the losses of 1f1b") {
  for (const char* rest : {"1 0 4 % 1 0 0 2", "2 1 2 % 2 0 1 2", "2 1 2 % 2 1 1 1", "1 0 2 % 4 1 0 1"}) {
    CAPTURE(rest);
    const auto losses_of = [&](const std::string& schedule) {
      const std::string line = rest;
      const std::size_t at = line.find('%');
      return run_layout(parse_layout(line.substr(0, at) + schedule + line.substr(at + 1))).losses;
    };
    const std::vector<double> expected = losses_of("1f1b");
    CHECK(expected == expected);  // no NaN
    CHECK(losses_of("zb-v") == expected);
  }
}

TEST_CASE("deferred weight gradients enlarge a slot by at most a quarter") {
  for (const Architecture& model : kArchitectures) {
    CAPTURE(model.name);
    CHECK(slot_bytes(parse_layout("1 0 4 zb-h1 1 0 0 2", model.config)) <
          1.25 * static_cast<double>(slot_bytes(parse_layout("1 0 4 1f1b 1 0 0 2", model.config))));
  }
}

TEST_CASE("a zero-bubble schedule fills waits with weight gradients") {
  const RunLayout layout = parse_layout("1 0 4 zb-h1 1 0 0 2"), plain = parse_layout("1 0 4 1f1b 1 0 0 2");
  const auto total = [&](const RunLayout& of) {
    const std::vector<std::vector<Action>> stages = pipeline_schedule(of.shape.layout, 8);
    return schedule_times(stages, of.shape.layout.places(), layout.shape.layout.durations).total;
  };
  CHECK(total(layout) < 0.95 * total(plain));
}

TEST_CASE("other architectures use their planned memory in the remaining layouts" * doctest::skip()) {
  for (std::size_t m = 1; m < kArchitectures.size(); ++m) {
    const Architecture& model = kArchitectures[m];
    CAPTURE(model.name);
    const auto expected = losses_of_one_rank(model);
    for (const RunLayout& layout : layouts(model)) {
      CAPTURE(layout.text);
      if (!layout.is_short) run_with_losses(layout, expected);
    }
  }
}

TEST_CASE("planning all ranks together equals planning each, and covers every rank") {
  for (const Architecture& model : kArchitectures) {
    CAPTURE(model.name);
    for (RunLayout layout : layouts(model)) {
      CAPTURE(layout.text);
      layout.shape.recompute = {Recompute::Granularity::full, Recompute::Method::block, 1};
      check_rank_plans(layout);
      if (!layout.is_short) continue;
      const std::size_t kinds = plan_ranks(layout.config, layout_dropout(layout.config), layout.shape).size();
      layout.shape.copies_saves = true;
      check_rank_plans(layout);
      // Of replicas that own the same elements, only the first has a copy.
      const bool has_same = layout.shape.layout.size(kReplicaAxes - layout.shape.layout.owners()) > 1;
      CHECK(plan_ranks(layout.config, layout_dropout(layout.config), layout.shape).size() ==
            (has_same ? 2 * kinds : kinds));
    }
  }
}

TEST_CASE("stages whose layers have different windows have plans of their own") {
  GptSizes sizes = kSizes;
  sizes.layers = 8;
  GptConfig config = qwen_of_size(sizes);
  config.sliding_window = 4;
  config.first_window_layer = 4;
  RunLayout layout = parse_layout("1 0 4 gpipe 1 0 0 2", config);
  check_rank_plans(layout);
  CHECK(plan_ranks(config, layout_dropout(config), layout.shape).size() == 4);  // the inner stages differ in FLOPs
}

TEST_CASE("parts of a sequence have plans of their own with windows, and copy saves once") {
  GptConfig config = qwen_of_size(kSizes);
  config.sliding_window = 4;
  for (const char* line : {"1 0 1 1f1b 2 0 0 2 2 all_gather 0 adam", "1 0 1 1f1b 2 1 0 2 2 all_gather 0 adam"}) {
    CAPTURE(line);
    RunLayout layout = parse_layout(line, config);
    for (const bool copies_saves : {false, true}) {
      layout.shape.copies_saves = copies_saves;
      check_rank_plans(layout);
    }
  }
}

TEST_CASE("interleaved chunks use their planned memory, and their losses equal those of one rank") {
  GptSizes sizes = kSizes;
  sizes.layers = 8;
  const Architecture model{"gpt", gpt_of_size(sizes), 8};
  const auto expected = losses_of_one_rank(model);
  struct Interleaved {
    const char* layout;
    int chunks, group;
  };
  // With two stages, both neighbors are the same rank. Groups of 3 leave a last group of 2.
  for (const Interleaved& c : {Interleaved{"1 0 2 1f1b 1 0 0 2", 2, 2},
                               {"1 0 2 1f1b 1 0 0 2", 2, 3},
                               {"1 0 2 1f1b 1 0 0 2", 4, 4},
                               {"1 0 4 1f1b 1 0 0 2", 2, 4},
                               {"1 0 4 1f1b 1 0 0 2", 2, 8},
                               {"2 1 2 1f1b 2 1 1 2", 2, 2}}) {
    RunLayout layout = parse_layout(c.layout, model.config);
    layout.shape.layout.schedule = ScheduleKind::interleaved;
    layout.shape.layout.chunks = c.chunks;
    layout.shape.layout.group = c.group;
    layout.text = cat(c.layout, " in ", c.chunks, " chunks and groups of ", c.group);
    CAPTURE(layout.text);
    run_with_losses(layout, expected);
    check_rank_plans(layout);
  }
}

TEST_CASE("10,240 ranks are planned in a second") {
  const GptConfig config =
      test::gpt_of_size({.vocab = 50257, .layers = 96, .hidden = 12288, .heads = 96, .positions = 2048});  // GPT-3
  RunShape shape;
  shape.micro_batch = 1;
  shape.seq_length = 2048;
  shape.micro_batches = 64;
  shape.padded_vocab = padded_vocab_size(config.vocab_size, 128, 8);
  shape.layout.grid = RankGrid({.tensor = 8, .data = 160, .pipeline = 8});
  shape.layout.sequence_parallel = true;
  shape.layout.zero = 1;
  shape.storage.bucket_elements = 160'000'000;
  std::clock_t began = std::clock();
  std::vector<RankPlan> plans = plan_ranks(config, layout_dropout(config), shape);
#ifdef __SANITIZE_ADDRESS__
  constexpr int kMostSeconds = 5;
#else
  constexpr int kMostSeconds = 1;
#endif
  CHECK(std::clock() - began < kMostSeconds * CLOCKS_PER_SEC);
  std::size_t ranks = 0;
  std::int64_t parameters = 0;  // over all ranks of one replica
  for (const RankPlan& kind : plans) {
    ranks += kind.ranks.size();
    parameters += std::count_if(kind.ranks.begin(), kind.ranks.end(),
                                [&](int rank) { return shape.layout.grid.coordinate(rank, Axis::data) == 0; }) *
                  kind.plan.rank_parameters;
  }
  CHECK(ranks == 10240);
  CHECK(parameters > plans.front().plan.parameters);  // embedding in two stages, norms on all tensor ranks
}
