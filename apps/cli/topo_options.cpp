#include "cli/topo_options.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/error.h"

namespace mtl {

namespace {

constexpr std::int64_t kLargestWorld = 1 << 16, kMostChartStages = 1024, kMostBoxes = 100000;

/// The order without an axis that a grid does not have.
std::string order_without(const std::string& order, const char* axis) {
  std::vector<std::string> kept;
  for (const std::string& name : split(order, '-')) {
    if (name != axis) kept.push_back(name);
  }
  return join(kept, "-");
}

/// The sizes from 1 to the world that fit where `fits` says so: "1, 2 or 4".
std::string sizes_that_do(std::int64_t world, const std::function<bool(std::int64_t)>& fits) {
  std::vector<std::string> sizes;
  for (std::int64_t size = 1; size <= world && sizes.size() < 8; ++size) {
    if (fits(size)) sizes.push_back(std::to_string(size));
  }
  if (sizes.size() < 2) return join(sizes, "");
  std::string last = sizes.back();
  sizes.pop_back();
  return cat(join(sizes, ", "), " or ", last);
}

/// The world must be a multiple of the product of these sizes; says what each could be, the others as they are.
void check_product(Flags& flags, std::int64_t world,
                   const std::vector<std::pair<std::string, std::int64_t>>& flag_sizes) {
  std::int64_t product = 1;
  std::vector<std::string> factors;
  for (const auto& [flag, size] : flag_sizes) {
    product *= size;  // of at most three sizes of at most 65536
    factors.push_back(cat(size));
  }
  if (world % product == 0) return;
  std::vector<std::string> remedies;
  if (world > product)
    remedies.push_back(cat("--world-size ", world / product * product, " or ", (world / product + 1) * product));
  else if (product <= kLargestWorld)
    remedies.push_back(cat("--world-size ", product));
  for (const auto& [flag, size] : flag_sizes) {
    std::int64_t others = product / size;
    std::string sizes =
        size == 1 ? "" : sizes_that_do(world, [&](std::int64_t other) { return world % (others * other) == 0; });
    if (!sizes.empty()) remedies.push_back(cat(flag, " ", sizes));
  }
  flags.problem(cat("--world-size ", world),
                cat("is not a multiple of ", product, " = ", join(factors, " x "), " (tensor x pipeline x ",
                    flag_sizes.back().first == "--expert-model-parallel-size" ? "expert" : "context", "); ",
                    remedies.empty() ? "choose smaller sizes" : cat("one of these would do: ", join(remedies, "; "))));
}

bool check_sizes(Flags& flags, const TopoOptions& options) {
  std::size_t before = flags.problem_count();
  auto at_least_one = [&](const char* flag, std::optional<std::int64_t> value) {
    if (value && *value < 1) flags.problem(cat(flag, " ", *value), "must be at least 1");
    if (value && *value > kLargestWorld) flags.problem(cat(flag, " ", *value), cat("is more than ", kLargestWorld));
  };
  if (flags.was_given("--world-size")) at_least_one("--world-size", options.world_size);
  at_least_one("--tensor-model-parallel-size", options.tensor);
  at_least_one("--pipeline-model-parallel-size", options.pipeline);
  at_least_one("--context-parallel-size", options.context);
  at_least_one("--expert-model-parallel-size", options.expert);
  at_least_one("--gpus-per-node", options.gpus_per_node);
  at_least_one("--cores-per-rank", options.cores_per_rank);
  at_least_one("--num-layers", options.num_layers);
  at_least_one("--vocab-size", options.vocab_size);
  at_least_one("--make-vocab-size-divisible-by", options.vocab_multiple);
  at_least_one("--num-layers-per-virtual-pipeline-stage", options.layers_per_virtual_stage);
  at_least_one("--num-virtual-stages-per-pipeline-rank", options.virtual_stages);
  at_least_one("--micro-batches", options.micro_batches);
  at_least_one("--microbatch-group-size-per-virtual-pipeline-stage", options.group);
  return flags.problem_count() == before && options.world_size >= 1;
}

void check_grid(Flags& flags, const TopoOptions& options) {
  check_product(flags, options.world_size,
                {{"--tensor-model-parallel-size", options.tensor},
                 {"--pipeline-model-parallel-size", options.pipeline},
                 {"--context-parallel-size", options.context}});
  if (options.expert > 1) {
    check_product(flags, options.world_size,
                  {{"--tensor-model-parallel-size", options.tensor},
                   {"--pipeline-model-parallel-size", options.pipeline},
                   {"--expert-model-parallel-size", options.expert}});
  }
  if (options.pipeline_before_data && options.rank_order)
    flags.problem("--use-tp-pp-dp-mapping, --rank-order", "say the same thing; give one of them");
  try {  // only which axes have ranks matters here
    auto some = [](std::int64_t size) { return static_cast<int>(std::min<std::int64_t>(size, 2)); };
    std::int64_t replicas =
        std::max<std::int64_t>(options.world_size / options.tensor / options.context / options.pipeline, 1);
    RankGrid(
        {some(options.tensor), some(options.context), some(options.expert), some(replicas), some(options.pipeline)},
        options.order());
  } catch (const Error& error) {
    flags.problem(cat("--rank-order ", options.order()),
                  cat("is no order (", error.what(), "); name each of tp, cp, ep, dp and pp once, the fastest first"));
  }
}

void check_hosts(Flags& flags, const TopoOptions& options) {
  std::vector<std::string> hosts = options.host_names();
  std::int64_t nodes = (options.world_size + options.node_size() - 1) / options.node_size();
  if (options.hosts && static_cast<std::int64_t>(hosts.size()) != nodes) {
    flags.problem(cat("--hosts ", *options.hosts),
                  cat("names ", hosts.size(), " hosts, but ", options.world_size, " ranks with --gpus-per-node ",
                      options.node_size(), " take ", nodes));
  }
  for (const std::string& host : hosts) {
    if (host.empty() || host.find_first_of(" \t\n=") != std::string::npos)
      flags.problem(cat("--hosts ", *options.hosts), cat("'", host, "' is no name of a host"));
  }
}

/// Layers and chunks. True when the pipeline's shape makes sense.
bool check_layers(Flags& flags, const TopoOptions& options) {
  std::size_t before = flags.problem_count();
  if (options.layers_per_virtual_stage && options.virtual_stages) {
    flags.problem("--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank",
                  "say the same thing; give one of them");
  }
  if (!options.num_layers) {
    for (auto [flag, given] :
         {std::pair("--num-layers-per-virtual-pipeline-stage", options.layers_per_virtual_stage.has_value()),
          std::pair("--num-layers-in-first-pipeline-stage", options.first_stage_layers.has_value()),
          std::pair("--num-layers-in-last-pipeline-stage", options.last_stage_layers.has_value()),
          std::pair("--account-for-embedding-in-pipeline-split", options.account_for_embedding),
          std::pair("--account-for-loss-in-pipeline-split", options.account_for_loss)}) {
      if (given) flags.problem(flag, "needs --num-layers");
    }
  } else if (options.layers_per_virtual_stage &&
             *options.num_layers % (options.pipeline * *options.layers_per_virtual_stage) != 0) {
    flags.problem(cat("--num-layers ", *options.num_layers),
                  cat("is not a multiple of --pipeline-model-parallel-size ", options.pipeline,
                      " times --num-layers-per-virtual-pipeline-stage ", *options.layers_per_virtual_stage));
  }
  if (flags.problem_count() != before) return false;
  try {
    if (options.num_layers) split_layers(options.layer_split());
    if (options.chunks() > 1 && options.pipeline == 1) fail(Exit::usage, "interleaving needs at least 2 stages");
  } catch (const Error& error) {
    std::string text = error.what();  // "--num-layers 13: does not ..."
    std::size_t end = starts_with(text, "--") ? text.find(": ") : std::string::npos;
    if (end == std::string::npos)
      flags.problem("--pipeline-model-parallel-size", text);
    else
      flags.problem(text.substr(0, end), text.substr(end + 2));
  }
  return flags.problem_count() == before;
}

void check_schedule(Flags& flags, const TopoOptions& options) {
  if (options.group && !options.wants_schedule())
    flags.problem("--microbatch-group-size-per-virtual-pipeline-stage", "needs --micro-batches");
  if (options.schedule && !options.micro_batches)
    flags.problem(cat("--schedule ", *options.schedule), "needs --micro-batches, how many there are to a step");
  if (!options.micro_batches) return;
  std::size_t before = flags.problem_count();
  bool interleaves = options.schedule_kind() == ScheduleKind::interleaved;
  if (!interleaves && options.chunks() > 1) {
    flags.problem(cat("--schedule ", *options.schedule),
                  "is for one chunk a stage; choose interleaved, or leave out the virtual stages");
  }
  if (!interleaves && options.group)
    flags.problem("--microbatch-group-size-per-virtual-pipeline-stage", "belongs to --schedule interleaved");
  if (options.pipeline > kMostChartStages ||
      options.pipeline * *options.micro_batches * options.chunks() > kMostBoxes) {
    flags.problem(cat("--micro-batches ", *options.micro_batches),
                  cat("makes too large a chart: it has at most ", kMostChartStages, " stages and ", kMostBoxes,
                      " forwards; leave it out"));
  }
  if (flags.problem_count() != before) return;
  try {
    stage_schedule(options.schedule_kind(), options.shape(), 0);
  } catch (const Error& error) {
    flags.problem(cat("--micro-batches ", *options.micro_batches), error.what());
  }
}

}  // namespace

std::string TopoOptions::order() const {
  if (rank_order) return *rank_order;
  return pipeline_before_data ? "tp-cp-ep-pp-dp" : "tp-cp-ep-dp-pp";
}

RankGrid TopoOptions::grid() const {
  GridSizes sizes{static_cast<int>(tensor), static_cast<int>(context), 1, 1, static_cast<int>(pipeline)};
  sizes.data = static_cast<int>(world_size / (tensor * context * pipeline));
  return RankGrid(sizes, order_without(order(), "ep"));
}

RankGrid TopoOptions::expert_grid() const {
  GridSizes sizes{static_cast<int>(tensor), 1, static_cast<int>(expert), 1, static_cast<int>(pipeline)};
  sizes.data = static_cast<int>(world_size / (tensor * expert * pipeline));
  return RankGrid(sizes, order_without(order(), "cp"));
}

std::int64_t TopoOptions::node_size() const { return gpus_per_node.value_or(std::min<std::int64_t>(world_size, 8)); }

std::vector<std::string> TopoOptions::host_names() const {
  return hosts ? split(*hosts, ',') : std::vector<std::string>();
}

std::int64_t TopoOptions::chunks() const {
  if (virtual_stages) return *virtual_stages;
  if (layers_per_virtual_stage) return *num_layers / (pipeline * *layers_per_virtual_stage);
  return 1;
}

SplitOptions TopoOptions::layer_split() const {
  SplitOptions split;
  split.num_layers = *num_layers;
  split.stages = static_cast<int>(pipeline);
  split.chunks = static_cast<int>(chunks());
  split.first_stage_layers = first_stage_layers;
  split.last_stage_layers = last_stage_layers;
  split.account_for_embedding = account_for_embedding;
  split.account_for_loss = account_for_loss;
  return split;
}

ScheduleKind TopoOptions::schedule_kind() const {
  if (!schedule) return chunks() > 1 ? ScheduleKind::interleaved : ScheduleKind::one_forward_one_backward;
  return *schedule == "gpipe"  ? ScheduleKind::gpipe
         : *schedule == "1f1b" ? ScheduleKind::one_forward_one_backward
                               : ScheduleKind::interleaved;
}

PipelineShape TopoOptions::shape() const {
  return {static_cast<int>(pipeline), static_cast<int>(chunks()), static_cast<int>(micro_batches.value_or(1)),
          static_cast<int>(group.value_or(0))};
}

std::string TopoOptions::output_format() const {
  if (format) return *format;
  if (!output || *output == "-") return "text";
  std::string ending = std::filesystem::path(*output).extension().string();
  for (auto [known, name] : {std::pair(".txt", "text"), std::pair(".svg", "svg"), std::pair(".json", "json"),
                             std::pair(".rankfile", "rankfile")}) {
    if (ending == known) return name;
  }
  return "";
}

void add_topo_flags(Flags& flags, TopoOptions& options) {
  flags.section("Ranks");
  flags.add("--world-size", &options.world_size, "N", "number of ranks").required();
  flags.add("--tensor-model-parallel-size", &options.tensor, "N", "ranks that share each layer");
  flags.add("--pipeline-model-parallel-size", &options.pipeline, "N", "ranks that hold consecutive layers");
  flags.add("--context-parallel-size", &options.context, "N", "ranks that share each sequence");
  flags.add("--expert-model-parallel-size", &options.expert, "N", "ranks that share the experts");
  flags.add_switch("--use-tp-pp-dp-mapping", options.pipeline_before_data,
                   "number ranks along the pipeline before data parallelism");
  flags.add("--rank-order", &options.rank_order, "ORDER", "axes, the fastest first; tp-cp-ep-dp-pp unless given");
  flags.add("--gpus-per-node", &options.gpus_per_node, "N", "ranks on a node; 8 unless given");
  flags.add("--hosts", &options.hosts, "LIST", "names of the nodes, separated by commas");
  flags.add("--cores-per-rank", &options.cores_per_rank, "N", "cores that a rankfile gives each rank");

  flags.section("Model");
  flags.add("--num-layers", &options.num_layers, "N", "transformer blocks");
  flags.add("--num-layers-per-virtual-pipeline-stage", &options.layers_per_virtual_stage, "N",
            "layers of a chunk, when each stage holds several");
  flags.add("--num-virtual-stages-per-pipeline-rank", &options.virtual_stages, "N", "chunks of each stage");
  flags.add("--num-layers-in-first-pipeline-stage", &options.first_stage_layers, "N", "layers of the first stage")
      .alias("--decoder-first-pipeline-num-layers");
  flags.add("--num-layers-in-last-pipeline-stage", &options.last_stage_layers, "N", "layers of the last stage")
      .alias("--decoder-last-pipeline-num-layers");
  flags.add_switch("--account-for-embedding-in-pipeline-split", options.account_for_embedding,
                   "count the embedding as a layer of the first stage");
  flags.add_switch("--account-for-loss-in-pipeline-split", options.account_for_loss,
                   "count the output layer as a layer of the last stage");
  flags.add("--vocab-size", &options.vocab_size, "N", "tokens of the vocabulary, before padding");
  flags.add("--make-vocab-size-divisible-by", &options.vocab_multiple, "N",
            "pad the vocabulary to a multiple of this times the tensor parallel size");

  flags.section("Schedule");
  flags.add("--schedule", &options.schedule, "NAME", "draw this one; 1f1b, or interleaved with several chunks a stage")
      .one_of({"1f1b", "gpipe", "interleaved"});
  flags.add("--micro-batches", &options.micro_batches, "N", "micro-batches of a step, of one replica");
  flags.add("--microbatch-group-size-per-virtual-pipeline-stage", &options.group, "N",
            "micro-batches that go through a chunk before the next chunk's turn; as many as stages unless given");

  flags.section("Output");
  flags.add("--format", &options.format, "NAME", "by the name of FILE, or text, unless given")
      .one_of({"text", "svg", "json", "rankfile"});
  flags.add("--output", &options.output, "FILE", "write there; .txt, .svg, .json and .rankfile choose the format")
      .alias("-o");
}

void check_topo(Flags& flags, const TopoOptions& options) {
  if (options.output_format().empty()) {
    flags.problem(cat("--output ", *options.output),
                  "does not tell the format by its end (.txt, .svg, .json or .rankfile); add --format");
  }
  if (!check_sizes(flags, options)) return;
  check_grid(flags, options);
  check_hosts(flags, options);
  if (check_layers(flags, options)) check_schedule(flags, options);
}

}  // namespace mtl
