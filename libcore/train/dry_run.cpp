#include "train/dry_run.h"

#include <cmath>

#include "base/json.h"
#include "device/cuda_device.h"
#include "engine/plan_tables.h"
#include "models/canonical.h"
#include "nn/model_params.h"
#include "optim/precision_presets.h"
#include "run/flops.h"
#include "run/run_plan.h"
#include "train/roofline.h"

namespace mtl {

namespace {

/// Returns by how many bytes recomputation shrinks the largest plan. Negative if the plan grows.
std::int64_t recompute_savings(TrainOptions options, const GptConfig& config, const MemoryPlan& plan) {
  options.parallel.recompute_granularity = options.parallel.checkpoint_method = {};
  options.parallel.recompute_activations = options.parallel.checkpoint_activations = false;
  const std::vector<RankPlan> without = plan_run(options, config);
  const Space where = plan.device == Device::cpu ? Space::host : Space::device;
  return static_cast<std::int64_t>(largest_plan(without).plan.total_bytes(where) - plan.total_bytes(where));
}

std::string plan_line(const char* what, const std::string& value) {
  return format("  %-34s %s\n", what, value.c_str());
}

/// Returns over how many ranks a role's tensors are sharded.
std::int64_t ranks_of(const PrecisionRole& role, const TrainOptions& options) {
  return role.zero_stage <= options.parallel.zero() ? options.parallel.replicas() : 1;
}

double bytes_of_rank(const std::vector<PrecisionRole>& roles, const TrainOptions& options) {
  double bytes = 0;
  for (const PrecisionRole& role : roles) bytes += role.share * double(role.bytes()) / double(ranks_of(role, options));
  return bytes;
}

std::string describe_precision(const TrainOptions& options, const GptConfig& config) {
  const Precision precision = precision_of(options.precision);
  const RuleSet rules = run_rules(options);
  const PrecisionRow row = precision_row(precision, rules);
  const auto cells = [](const std::string& mode, const char* load, const char* mixed, const char* preparation,
                        const char* training, const char* optimizer) {
    return format("  %-20s %-6s %-17s %-19s %-10s %s\n", mode.c_str(), load, mixed, preparation, training, optimizer);
  };
  std::string out = "precision\n" +
                    cells("mode", "load", "mixed precision", "local preparation", "training", "optimizer") +
                    cells(precision_mode(options.precision), row.load.c_str(), row.mixed.c_str(),
                          row.preparation.c_str(), row.training.c_str(), row.optimizer.c_str());
  const std::vector<PrecisionRole> roles = precision_roles(precision, rules, model_params(config));
  for (const PrecisionRole& role : roles) {
    const std::int64_t ranks = ranks_of(role, options);
    out += plan_line(role.role.c_str(), cat(short_name(role.dtype), ", ", role.bytes(), " bytes per parameter",
                                            role.share < 1 ? format(", for %.1f%% of them", 100 * role.share) : "",
                                            ranks > 1 ? cat(", sharded over ", ranks, " ranks") : ""));
  }
  return out + plan_line("bytes per parameter on a rank", cat(std::round(1e3 * bytes_of_rank(roles, options)) / 1e3));
}

Json precision_json(const TrainOptions& options, const GptConfig& config) {
  const Precision precision = precision_of(options.precision);
  const RuleSet rules = run_rules(options);
  const PrecisionRow row = precision_row(precision, rules);
  const std::vector<PrecisionRole> roles = precision_roles(precision, rules, model_params(config));
  Json listed = Json::array();
  for (const PrecisionRole& role : roles) {
    Json one = Json::object({{"role", role.role},
                             {"dtype", short_name(role.dtype)},
                             {"bytes_per_parameter", role.bytes()},
                             {"ranks", ranks_of(role, options)}});
    if (role.share < 1) one.set("share", role.share);
    listed.push(std::move(one));
  }
  return Json::object({{"mode", precision_mode(options.precision)},
                       {"load", row.load},
                       {"mixed_precision", row.mixed},
                       {"local_preparation", row.preparation},
                       {"training", row.training},
                       {"optimizer", row.optimizer},
                       {"roles", std::move(listed)},
                       {"bytes_per_parameter", bytes_of_rank(roles, options)}});
}

}  // namespace

std::string describe_run(const TrainOptions& options, const GptConfig& config) {
  std::vector<RankPlan> plans = plan_run_report(options, config);
  const MemoryPlan& plan = largest_plan(plans).plan;
  std::int64_t samples = options.step_samples(), tokens = samples * options.data.seq_length;
  RunShape shape = run_shape(options, config, 0);
  double flops = megatron_flops(config, shape.padded_vocab, samples, options.data.seq_length);
  std::optional<std::int64_t> savings;
  if (recompute_of(options.parallel) != Recompute{}) savings = recompute_savings(options, config, plan);
  std::int64_t saved_bytes = run_checkpoint_bytes(options, config);
  std::optional<Roofline> roofline;
  if (options.roofline) roofline = predict_step(options, config, *find_hardware(*options.roofline));
  if (options.json) {
    Json out = Json::object({{"version", 1},
                             {"parameters", plan.parameters},
                             {"tokens_per_step", tokens},
                             {"flops_per_step", flops},
                             {"counted_flops_per_step", plan.step.flops},
                             {"checkpoint_bytes", saved_bytes},
                             {"memory_bytes", memory_json(plan)},
                             {"gpu_memory_bytes", gpu_json(plan)},
                             {"file_bytes", file_json(plan)},
                             {"recompute_saves_bytes", savings.value_or(0)},
                             {"precision", precision_json(options, config)}});
    if (const auto stages = plan_stages(options, config)) out.set("pipeline", pipeline_json(*stages));
    out.set("ranks", rank_plans_json(plans));
    if (roofline) out.set("roofline", roofline_json(*roofline));
    return out.dump(2) + "\n";
  }
  auto size = [&](const char* what, std::size_t bytes) {
    return plan_line(what, format("%14s  %s", with_commas(bytes).c_str(), human_bytes(bytes).c_str()));
  };
  std::string out =
      "model\n" + plan_line("parameters", with_commas(plan.parameters)) + describe_precision(options, config);
  out += "a step\n" + plan_line("samples x tokens",
                                cat(samples, " x ", options.data.seq_length, " = ", with_commas(tokens), " tokens"));
  out += plan_line("micro-batches of a rank", cat(options.micro_batches()));
  out += plan_line("FLOPs, Megatron's formula", format("%.4e", flops));
  if (plan.update_flops > 0) out += plan_line("FLOPs of a rank's update", format("%.4e", plan.update_flops));
  if (options.parallel.world > 1) {
    out += cat("\n", describe_rank_plans(plans), "\n");
    if (const auto stages = plan_stages(options, config)) out += cat(describe_pipeline(*stages), "\n");
  } else {
    out += plan_line("FLOPs, counted by the operators", format("%.4e", plan.step.flops));
    auto add_parts = [&](const char* heading, Space where) {
      out += heading;
      for (const MemoryPart& part : memory_parts(plan, {where})) {
        if (part.bytes > 0) out += size(part.name, part.bytes);
      }
    };
    if (plan.device != Device::cpu) {
      add_parts("memory of the GPU in bytes\n", Space::device);
      out += size("CUDA and its libraries, about", kCudaContextBytes + kCudaLibraryBytes);
    }
    add_parts(plan.device == Device::cpu ? "memory in bytes\n" : "pinned memory of the host in bytes\n", Space::host);
    if (plan.total_bytes(Space::file) > 0) add_parts("files in bytes\n", Space::file);
  }
  if (savings) {
    out += plan_line("saved by recomputation", format("%14s  %s", with_commas(*savings).c_str(),
                                                      human_bytes(std::max<std::int64_t>(0, *savings)).c_str()));
  }
  out += "a checkpoint\n" + size("tensors", saved_bytes);
  return roofline ? out + roofline_text(*roofline) : out;
}

}  // namespace mtl
