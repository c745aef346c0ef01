#include "planner/layout_report.h"

#include "base/count_of.h"
#include "base/str.h"
#include "engine/plan_tables.h"
#include "planner/timeline_svg.h"
#include "run/flops.h"
#include "run/run_plan.h"

namespace mtl {

namespace {

/// Returns a table of each stage's time in ms. Consecutive stages with equal numbers share a row.
std::string stages_text(const StepTime& time) {
  std::set<std::string> groups;
  for (const StageTime& stage : time.stages)
    for (const auto& [group, ms] : stage.waits)
      if (ms > 0) groups.insert(group);
  std::string heading = format("  %-8s %10s", "stage", "computes"), rows, last;
  for (const std::string& group : groups) heading += format(" %10s", group.c_str());
  heading += format(" %10s %10s\n", "messages", "idle");
  std::size_t first = 0;
  const auto add_row = [&](std::size_t end) {
    rows += format("  %-8s%s", (end - first > 1 ? cat(first, "-", end - 1) : cat(first)).c_str(), last.c_str());
  };
  for (std::size_t i = 0; i < time.stages.size(); ++i) {
    const StageTime& stage = time.stages[i];
    std::string row = format(" %10.2f", stage.compute);
    for (const std::string& group : groups) {
      const auto wait = stage.waits.find(group);
      row += format(" %10.2f", wait == stage.waits.end() ? 0 : wait->second);
    }
    row += format(" %10.2f %10.2f\n", stage.message_wait, stage.idle);
    if (i > 0 && row != last) {
      add_row(i);
      first = i;
    }
    last = row;
  }
  add_row(time.stages.size());
  return cat("Time of each stage in a step, in ms; waits by what they are for\n", heading, rows);
}

std::string schedule_text(const ParallelOptions& parallel) {
  const bool has_chunks = parallel.virtual_stages.value_or(1) > 1 || parallel.layers_per_virtual_stage;
  std::string out = parallel.schedule.value_or(has_chunks ? "interleaved" : "1f1b");
  if (parallel.virtual_stages) out += cat(" x ", *parallel.virtual_stages);
  if (parallel.layers_per_virtual_stage) out += cat(" by ", *parallel.layers_per_virtual_stage);
  if (parallel.pipeline_split == "balanced") out += " balanced";
  if (parallel.layer_layout) out += " " + *parallel.layer_layout;
  return out;
}

}  // namespace

std::string layout_text(const Candidate& candidate) {
  const ParallelOptions& parallel = candidate.options.parallel;
  std::vector<std::string> out;
  for (const auto& [name, size] : {std::pair("tp", parallel.tensor), std::pair("cp", parallel.context),
                                   std::pair("pp", parallel.pipeline), std::pair("dp", parallel.data())})
    if (size > 1) out.push_back(cat(name, " ", size));
  if (parallel.tensor > 1 && !parallel.sequence_parallel) out.emplace_back("no sequence parallelism");
  if (parallel.context > 1) out.push_back(parallel.cp_comm_type);
  if (const std::int64_t zero = parallel.zero(); zero > 0) out.push_back(cat("ZeRO-", zero));
  if (parallel.replicas() > 1 && !parallel.overlap_grad_reduce) out.emplace_back("not overlapped");
  if (parallel.pipeline > 1) out.push_back(schedule_text(parallel));
  out.push_back(cat("micro-batch ", candidate.options.batch.micro_batch_size));
  return join(out, ", ");
}

std::string savings_text(const Candidate& candidate) {
  const ParallelOptions& parallel = candidate.options.parallel;
  std::vector<std::string> out;
  if (parallel.recompute_granularity) out.push_back(cat("recompute ", *parallel.recompute_granularity));
  if (parallel.cpu_offloading) out.emplace_back("activations on the host");
  if (parallel.optimizer_cpu_offload) out.emplace_back("optimizer on the host");
  if (!parallel.offload_optimizer.empty()) out.emplace_back("optimizer in files");
  if (parallel.cpu_offloading || parallel.optimizer_cpu_offload)
    out.push_back(cat(human_bytes(candidate.host_bytes), " of host memory"));
  return join(out, ", ");
}

std::string whole_layout_text(const Candidate& candidate) {
  const std::string savings = savings_text(candidate);
  return cat(layout_text(candidate), savings.empty() ? "" : ", ", savings);
}

StepShares step_shares(const StepTime& time) {
  StepShares out;
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

double model_flops_utilization(const Candidate& candidate, const PlanRequest& request) {
  const double peak = request.machine.device.tflops(precision_of(request.run.precision).compute, request.run.tf32);
  return flops_per_token_a(request.config, request.run.data.seq_length) * tokens_per_second(candidate) /
         (peak * 1e12 * double(request.run.parallel.world));
}

std::string machine_text(const PlanRequest& request, const std::set<std::string>& unmeasured) {
  const Machine& machine = request.machine;
  std::string out = cat(count_of(request.run.parallel.world, "rank"), " on ", count_of(request.nodes(), "node"), " of ",
                        request.node_size, " ", machine.device.name);
  if (request.device_bytes > 0)
    out += format(" with %.4g GB (%s)", request.device_bytes * 1e-9,
                  human_bytes(static_cast<std::uint64_t>(request.device_bytes)).c_str());
  if (machine.measured != nullptr)
    out += cat("\n  operators: ", machine.origin, "\n");
  else
    out += format(
        "\n  %s shares of peak rates: gemm %.4g %%, attention %.4g %% forward and %.4g %% backward, memory %.4g %% "
        "(%s)\n",
        machine.efficiency_of.c_str(), 100 * machine.efficiency.gemm, 100 * machine.efficiency.attention_forward,
        100 * machine.efficiency.attention_backward, 100 * machine.efficiency.memory, machine.origin.c_str());
  if (!unmeasured.empty())
    out += cat("  not in the profile, timed by their bytes: ",
               join(unmeasured, ", ", [](const std::string& name) { return name; }), "\n");
  return out +
         format("  links in GB/s: %.4g inside a node, %.4g between nodes; latency in us: %.4g, %.4g\n",
                machine.links.inside_gbs, machine.links.between_gbs, machine.links.inside_us,
                machine.links.between_us) +
         (machine.links.disk_gbs > 0 ? format("  disk for a rank: %.4g GB/s\n", machine.links.disk_gbs) : "");
}

void set_machine(Json& out, const PlanRequest& request, const std::set<std::string>& unmeasured) {
  const Machine& machine = request.machine;
  out.set("world_size", request.run.parallel.world);
  out.set("node_size", request.node_size);
  out.set("hardware", machine.device.name);
  out.set("hardware_file", machine.origin);
  out.set("efficiency", machine.efficiency_of);
  out.set("sources", Json::Array(machine.sources.begin(), machine.sources.end()));
  out.set("unmeasured", Json::Array(unmeasured.begin(), unmeasured.end()));
  out.set("device_bytes", request.device_bytes);
  out.set("links", Json::object({{"inside_gbs", machine.links.inside_gbs},
                                 {"between_gbs", machine.links.between_gbs},
                                 {"inside_us", machine.links.inside_us},
                                 {"between_us", machine.links.between_us},
                                 {"host_gbs", machine.links.host_gbs},
                                 {"disk_gbs", machine.links.disk_gbs}}));
}

std::string layout_tables(const Candidate& candidate, const PlanRequest& request) {
  return cat(stages_text(*candidate.time), "\n", describe_rank_memory(plan_run(candidate.options, request.config)));
}

std::string layout_svg(const Candidate& candidate, const PlanRequest& request) {
  const std::string machine = machine_text(request, {});
  return timeline_svg(step_timeline(candidate, request), *candidate.time,
                      cat(whole_layout_text(candidate), format(": a step of %.2f ms", candidate.time->ms)),
                      machine.substr(0, machine.find('\n')));
}

Json layout_json(const Candidate& candidate, const PlanRequest& request) {
  const std::vector<std::string> flags = candidate_flags(candidate);
  Json out = Json::object({{"flags", Json::Array(flags.begin(), flags.end())},
                           {"device_bytes", candidate.bytes},
                           {"host_bytes", candidate.host_bytes}});
  if (candidate.bound_ms > 0) out.set("bound_ms", candidate.bound_ms);
  if (!candidate.time) return out;
  out.set("step_ms", candidate.time->ms);
  out.set("tokens_per_second", tokens_per_second(candidate));
  out.set("mfu_a", model_flops_utilization(candidate, request));
  Json stages = Json::array();
  for (const StageTime& stage : candidate.time->stages) {
    Json waits = Json::object();
    for (const auto& [group, ms] : stage.waits) waits.set(group, ms);
    stages.push(Json::object({{"compute_ms", stage.compute},
                              {"wait_ms", std::move(waits)},
                              {"message_wait_ms", stage.message_wait},
                              {"messages_sent", stage.sent},
                              {"idle_ms", stage.idle}}));
  }
  out.set("stages", std::move(stages));
  return out;
}

}  // namespace mtl
