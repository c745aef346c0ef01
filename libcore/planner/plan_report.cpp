#include "planner/plan_report.h"

#include <algorithm>

#include "base/count_of.h"
#include "base/str.h"
#include "train/flops.h"

namespace mtl {

namespace {

std::string layout_text(const Candidate& candidate) {
  const ParallelOptions& parallel = candidate.options.parallel;
  std::vector<std::string> out;
  for (const auto& [name, size] : {std::pair("tp", parallel.tensor), std::pair("cp", parallel.context),
                                   std::pair("pp", parallel.pipeline), std::pair("dp", parallel.data())})
    if (size > 1) out.push_back(cat(name, " ", size));
  if (parallel.tensor > 1 && !parallel.layout.sequence_parallel) out.emplace_back("no sequence parallelism");
  if (parallel.zero_stage > 0) out.push_back(cat("ZeRO-", parallel.zero_stage));
  if (parallel.schedule)
    out.push_back(cat(*parallel.schedule, parallel.virtual_stages ? cat(" x ", *parallel.virtual_stages) : "",
                      parallel.pipeline_split == "balanced" ? " balanced" : ""));
  out.push_back(cat("micro-batch ", candidate.options.batch.micro_batch_size));
  return join(out, ", ");
}

std::string savings_text(const Candidate& candidate) {
  const ParallelOptions& parallel = candidate.options.parallel;
  std::vector<std::string> out;
  if (parallel.recompute_granularity) out.push_back(cat("recompute ", *parallel.recompute_granularity));
  if (parallel.cpu_offloading) out.emplace_back("activations on the host");
  if (parallel.optimizer_cpu_offload) out.emplace_back("optimizer on the host");
  if (parallel.cpu_offloading || parallel.optimizer_cpu_offload)
    out.push_back(cat(human_bytes(candidate.host_bytes), " of host memory"));
  return join(out, ", ");
}

/// The share of a step that the mean stage waits for links, and is idle in the schedule.
struct Shares {
  double compute = 0, links = 0, idle = 0;
};

Shares shares_of(const StepTime& time) {
  Shares out;
  for (const StageTime& stage : time.stages) {
    out.compute += stage.compute;
    out.links += stage.waiting();
    out.idle += stage.idle;
  }
  const double all = time.ms * double(time.stages.size());
  return {out.compute / all, out.links / all, out.idle / all};
}

double tokens_per_second(const Candidate& candidate) {
  return double(candidate.options.step_samples() * candidate.options.data.seq_length) / (candidate.time->ms * 1e-3);
}

double mfu(const Candidate& candidate, const PlanRequest& request) {
  const double peak = request.machine.device.tflops(precision_of(request.run.precision).compute, request.run.tf32);
  return flops_per_token_a(request.config, request.run.data.seq_length) * tokens_per_second(candidate) /
         (peak * 1e12 * double(request.run.parallel.world));
}

std::string reasons_text(const std::vector<Difference>& differences, double step_ms) {
  constexpr std::size_t kNamed = 2;
  std::vector<std::string> out;
  for (const Difference& each : differences) {
    if (out.size() == kNamed || each.ms < 0.002 * step_ms) break;
    out.push_back(format("%s %.3g ms longer", each.what.c_str(), each.ms));
  }
  return out.empty() ? "no part differs by more than 0.2 %" : join(out, "; ");
}

std::int64_t nodes_of(const PlanRequest& request) {
  return (request.run.parallel.world + request.node_size - 1) / request.node_size;
}

std::string counts_text(const LayoutPlans& plans) {
  const auto number = [](std::size_t count) { return with_commas(static_cast<std::int64_t>(count)); };
  std::string out = cat("  ", number(plans.layouts), plans.layouts == 1 ? " layout" : " layouts");
  if (plans.layouts == 0) return out + "\n";
  out += cat(", ", number(plans.candidates), " with savings; of these, ", number(plans.bounded), " may fit\n  ",
             number(plans.planned), " planned, ", number(plans.fitting), " fit");
  if (plans.fitting > 0)
    out += cat(", ", number(plans.simulated), " simulated; the others cannot be faster than the last one listed");
  return out + "\n";
}

}  // namespace

std::string plan_text(const LayoutPlans& plans, const PlanRequest& request) {
  const Machine& machine = request.machine;
  std::string out =
      cat("plan for ", count_of(request.run.parallel.world, "rank"), " on ", count_of(nodes_of(request), "node"),
          " of ", request.node_size, " ", machine.device.name, " with ", format("%.4g", request.device_bytes * 1e-9),
          " GB (", human_bytes(static_cast<std::uint64_t>(request.device_bytes)), ")\n");
  if (machine.measured != nullptr)
    out += cat("  operators: ", machine.origin, "\n");
  else
    out += format(
        "  shares of peak rates: gemm %.4g %%, attention %.4g %% forward and %.4g %% backward, memory %.4g %% (%s)\n",
        100 * machine.gemm, 100 * machine.attention_forward, 100 * machine.attention_backward, 100 * machine.memory,
        machine.origin.c_str());
  if (!plans.unmeasured.empty())
    out += cat("  not in the profile, timed by their bytes: ",
               join(plans.unmeasured, ", ", [](const std::string& name) { return name; }), "\n");
  out += format("  links in GB/s: %.4g inside a node, %.4g between nodes; latency in us: %.4g, %.4g\n",
                machine.links.inside_gbs, machine.links.between_gbs, machine.links.inside_us, machine.links.between_us);
  out += counts_text(plans);
  const auto memory = [](const Candidate& each) { return human_bytes(each.bytes); };
  if (plans.candidates == 0) return out;
  if (plans.best.empty()) {
    out += "no layout fits; those that need the least memory:\n";
    for (const Candidate& each : plans.too_large) out += cat("  ", layout_text(each), ": ", memory(each), "\n");
    return out;
  }
  out += format("%3s %10s %11s %6s %8s %6s %6s %10s  %s\n", "", "step ms", "tokens/s", "MFU", "computes", "waits",
                "idle", "memory", "layout");
  for (std::size_t i = 0; i < plans.best.size(); ++i) {
    const Candidate& each = plans.best[i];
    const Shares shares = shares_of(*each.time);
    const std::string savings = savings_text(each);
    out += format("%2zu. %10.2f %11s %5.1f%% %7.1f%% %5.1f%% %5.1f%% %10s  %s\n", i + 1, each.time->ms,
                  with_commas(static_cast<std::int64_t>(tokens_per_second(each))).c_str(), 100 * mfu(each, request),
                  100 * shares.compute, 100 * shares.links, 100 * shares.idle, memory(each).c_str(),
                  cat(layout_text(each), savings.empty() ? "" : ", ", savings).c_str());
  }
  if (plans.best.size() > 1) out += "why not the others\n";
  for (std::size_t i = 1; i < plans.best.size(); ++i) {
    const Candidate& each = plans.best[i];
    out += format("%2zu. %+.1f %%: %s\n", i + 1, 100 * (each.time->ms / plans.best[0].time->ms - 1),
                  reasons_text(differences(each, plans.best[0], request), plans.best[0].time->ms).c_str());
  }
  constexpr std::size_t kNamed = 2;
  for (std::size_t i = 0; i < std::min(kNamed, plans.too_large.size()); ++i)
    out += cat("    ", layout_text(plans.too_large[i]), ": does not fit without savings, needs ",
               memory(plans.too_large[i]), "\n");
  out += cat("flags: ", join(candidate_flags(plans.best[0]), " "), "\n");
  return out;
}

Json plan_json(const LayoutPlans& plans, const PlanRequest& request) {
  const auto candidate_json = [&](const Candidate& each) {
    const std::vector<std::string> flags = candidate_flags(each);
    Json out = Json::object({{"flags", Json::Array(flags.begin(), flags.end())},
                             {"device_bytes", each.bytes},
                             {"host_bytes", each.host_bytes},
                             {"bound_ms", each.bound_ms}});
    if (!each.time) return out;
    out.set("step_ms", each.time->ms);
    out.set("tokens_per_second", tokens_per_second(each));
    out.set("mfu_a", mfu(each, request));
    Json stages = Json::array();
    for (const StageTime& stage : each.time->stages) {
      Json waits = Json::object();
      for (const auto& [group, ms] : stage.waits) waits.set(group, ms);
      stages.push(Json::object({{"compute_ms", stage.compute},
                                {"wait_ms", std::move(waits)},
                                {"message_wait_ms", stage.message_wait},
                                {"idle_ms", stage.idle}}));
    }
    out.set("stages", std::move(stages));
    if (each.time->ms > plans.best[0].time->ms) {
      Json reasons = Json::array();
      for (const Difference& reason : differences(each, plans.best[0], request))
        reasons.push(Json::object({{"what", reason.what}, {"ms", reason.ms}}));
      out.set("slower_because", std::move(reasons));
    }
    return out;
  };
  Json best = Json::array(), too_large = Json::array();
  for (const Candidate& each : plans.best) best.push(candidate_json(each));
  for (const Candidate& each : plans.too_large) too_large.push(candidate_json(each));
  const Machine& machine = request.machine;
  return Json::object({{"schema", "mtl-plan/1"},
                       {"world_size", request.run.parallel.world},
                       {"node_size", request.node_size},
                       {"hardware", machine.device.name},
                       {"hardware_file", machine.origin},
                       {"sources", Json::Array(machine.sources.begin(), machine.sources.end())},
                       {"unmeasured", Json::Array(plans.unmeasured.begin(), plans.unmeasured.end())},
                       {"device_bytes", request.device_bytes},
                       {"links", Json::object({{"inside_gbs", machine.links.inside_gbs},
                                               {"between_gbs", machine.links.between_gbs},
                                               {"inside_us", machine.links.inside_us},
                                               {"between_us", machine.links.between_us}})},
                       {"layouts", plans.layouts},
                       {"candidates", plans.candidates},
                       {"bounded", plans.bounded},
                       {"planned", plans.planned},
                       {"fitting", plans.fitting},
                       {"simulated", plans.simulated},
                       {"best", std::move(best)},
                       {"too_large", std::move(too_large)}});
}

std::string plan_script(const LayoutPlans& plans, const PlanRequest& request, const std::vector<std::string>& given) {
  const std::int64_t nodes = nodes_of(request), world = request.run.parallel.world;
  std::string out = "#!/bin/bash\n";
  if (nodes > 1)
    out += cat("#SBATCH --nodes=", nodes, "\n#SBATCH --ntasks-per-node=", request.node_size,
               "\n#SBATCH --gpus-per-node=", request.node_size, "\n");
  out +=
      format("# Planned by mtl-topo: a step of %.1f ms on %s. Add the data and the length of the run as arguments.\n",
             plans.best[0].time->ms, request.machine.device.name.c_str());
  out += nodes > 1 ? "exec srun mtl-train \\\n" : cat("exec mpirun -n ", world, " mtl-train \\\n");
  std::vector<std::string> flags = given;
  for (const std::string& flag : candidate_flags(plans.best[0])) flags.push_back(flag);
  std::string line = " ";
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (starts_with(flags[i], "--") && line.size() > 80) {
      out += line + " \\\n";
      line = " ";
    }
    line += " " + flags[i];
  }
  return out + line + " \"$@\"\n";
}

}  // namespace mtl
