#include "planner/plan_report.h"

#include <algorithm>
#include <cmath>

#include "base/count_of.h"
#include "base/shell_word.h"
#include "base/str.h"
#include "planner/layout_report.h"
#include "run/fitting_settings.h"

namespace mtl {

namespace {

std::string reasons_text(const std::vector<Difference>& differences, double step_ms) {
  constexpr std::size_t kNamed = 2;
  std::vector<std::string> out;
  for (const Difference& each : differences) {
    if (out.size() == kNamed || each.ms < 0.002 * step_ms) break;
    out.push_back(format("%s %.3g ms longer", each.what.c_str(), each.ms));
  }
  return out.empty() ? "no part differs by more than 0.2 %" : join(out, "; ");
}

std::string counts_text(const LayoutPlans& plans) {
  std::string out = cat("  ", count_of(plans.layouts, "layout"));
  if (plans.layouts == 0) return out + "\n";
  out += cat(", ", with_commas(plans.candidates), " with savings; of these, ", with_commas(plans.bounded),
             " may fit\n  ", with_commas(plans.planned), " planned, ", with_commas(plans.fitting), " fit");
  if (plans.fitting > 0)
    out += cat(", ", with_commas(plans.simulated), " simulated",
               plans.is_complete ? "; the others cannot be faster than the last one listed"
                                 : "; ended before all were looked at, so others may be faster");
  return out + "\n";
}

/// Says with which settings a layout fits that does not.
std::string settings_that_fit(const Candidate& layout, const PlanRequest& request) {
  const auto limit = [](double bytes, bool is_per_process) {
    return MemoryLimit{static_cast<std::uint64_t>(bytes), "", is_per_process};
  };
  FitLimits limits;
  if (layout.options.device == Device::cuda)
    limits.gpu = limit(request.device_bytes, true);
  else
    limits.host.push_back(limit(request.device_bytes, true));
  if (std::isfinite(request.host_bytes)) limits.host.push_back(limit(request.host_bytes, false));
  const HostRanks host = {.count = static_cast<int>(request.ranks_per_node())};
  const std::vector<std::string> settings =
      find_fitting_settings(layout.options, {.config = request.config}, host, limits);
  if (settings.empty()) return "; use more ranks, more memory, or a smaller --seq-length or --model";
  return "; the first of these layouts fits with" + join(settings, "");
}

/// Flags' name for the folder that a user chooses (run/layout_changes.h).
constexpr const char* kFolder = "DIR";

}  // namespace

std::string progress_text(const LayoutPlans& so_far) {
  std::string out =
      cat("planned ", with_commas(so_far.planned), " of at most ", with_commas(so_far.bounded), " layouts");
  if (so_far.best.empty()) return out;
  const Candidate& best = so_far.best[0];
  return cat(out, "; the fastest so far takes ", format("%.2f", best.time->ms), " ms: ", layout_text(best));
}

std::string plan_text(const LayoutPlans& plans, const PlanRequest& request) {
  std::string out = cat("plan for ", machine_text(request, plans.unmeasured), counts_text(plans));
  const auto memory = [](const Candidate& each) { return human_bytes(each.bytes); };
  if (plans.candidates == 0) return out;
  if (plans.best.empty()) {
    out += "no layout fits; those that need the least memory:\n";
    const bool has_host_limit = std::isfinite(request.host_bytes);
    const double ranks = request.ranks_per_node();
    for (const Candidate& each : plans.too_large)
      out +=
          cat("  ", whole_layout_text(each), ": ", memory(each),
              has_host_limit ? cat(", and ", human_bytes(ranks * double(each.host_bytes)), " of each host") : "", "\n");
    return out;
  }
  out += format("%3s %10s %11s %6s %8s %6s %6s %10s  %s\n", "", "step ms", "tokens/s", "MFU", "computes", "waits",
                "idle", "memory", "layout");
  for (std::size_t i = 0; i < plans.best.size(); ++i) {
    const Candidate& each = plans.best[i];
    const StepShares shares = step_shares(*each.time);
    out += format("%2zu. %10.2f %11s %5.1f%% %7.1f%% %5.1f%% %5.1f%% %10s  %s\n", i + 1, each.time->ms,
                  with_commas(static_cast<std::int64_t>(tokens_per_second(each))).c_str(),
                  100 * model_flops_utilization(each, request), 100 * shares.compute, 100 * shares.links,
                  100 * shares.idle, memory(each).c_str(), whole_layout_text(each).c_str());
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
  return cat(out, "flags: ", join(candidate_flags(plans.best[0]), " "), "\n\nThe first layout\n",
             layout_tables(plans.best[0], request));
}

Json plan_json(const LayoutPlans& plans, const PlanRequest& request) {
  const auto candidate_json = [&](const Candidate& each) {
    Json out = layout_json(each, request);
    if (each.time && each.time->ms > plans.best[0].time->ms) {
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
  Json out = Json::object({{"schema", "mtl-plan/1"}});
  set_machine(out, request, plans.unmeasured);
  for (const auto& [name, count] : {std::pair("layouts", plans.layouts), std::pair("candidates", plans.candidates),
                                    std::pair("bounded", plans.bounded), std::pair("planned", plans.planned),
                                    std::pair("fitting", plans.fitting), std::pair("simulated", plans.simulated)})
    out.set(name, count);
  out.set("complete", plans.is_complete);
  out.set("best", std::move(best));
  out.set("too_large", std::move(too_large));
  return out;
}

void require_layout(const LayoutPlans& plans, const PlanRequest& request, const PlanDevices& devices) {
  if (plans.candidates == 0 && !request.fixed.flags.empty())
    fail_at(Exit::failure, join(request.fixed.flags, " "), "no layout of ",
            count_of(request.run.parallel.world, "rank"), " is like this; give fewer of these flags, or other values");
  if (plans.candidates == 0)
    fail_at(Exit::failure, cat("--world-size ", request.run.parallel.world),
            "the ranks cannot be divided: no tensor-parallel and pipeline sizes divide both them and the model's heads "
            "and layers, such that the data-parallel ranks divide --global-batch-size ",
            *request.run.batch.global_batch_size, "; change one of the two");
  if (plans.best.empty())
    fail_at(Exit::failure,
            devices.device_memory ? "--device-memory " + *devices.device_memory : request.machine.device.name,
            "no layout fits in ", format("%.4g", request.device_bytes * 1e-9), " GB",
            devices.host_memory ? cat(" and --host-memory ", *devices.host_memory) : "",
            settings_that_fit(plans.too_large.at(0), request));
}

std::string time_text(const Candidate& layout, const PlanRequest& request) {
  const StepShares shares = step_shares(*layout.time);
  const bool fits = request.device_bytes == 0 || double(layout.bytes) <= request.device_bytes;
  return cat("time of ", machine_text(request, layout.time->unmeasured), "  ", whole_layout_text(layout), "\n",
             format("step %.2f ms, %s tokens/s, MFU %.1f %%; the mean stage computes %.1f %%, waits %.1f %%, is idle "
                    "%.1f %%\n",
                    layout.time->ms, with_commas(static_cast<std::int64_t>(tokens_per_second(layout))).c_str(),
                    100 * model_flops_utilization(layout, request), 100 * shares.compute, 100 * shares.links,
                    100 * shares.idle),
             fits ? "" : "the layout does not fit in a device's memory\n", "\n", layout_tables(layout, request));
}

Json time_json(const Candidate& layout, const PlanRequest& request) {
  Json out = Json::object({{"schema", "mtl-time/1"}});
  set_machine(out, request, layout.time->unmeasured);
  out.set("layout", layout_json(layout, request));
  return out;
}

std::string plan_script(const LayoutPlans& plans, const PlanRequest& request, const std::vector<std::string>& given) {
  const std::int64_t nodes = request.nodes(), world = request.run.parallel.world;
  std::string out = "#!/bin/bash\n";
  const bool is_on_cpu = request.run.device == Device::cpu, is_last_full = world == nodes * request.node_size;
  if (nodes > 1) {
    out += cat("#SBATCH --nodes=", nodes, "\n#SBATCH --ntasks-per-node=", request.node_size, "\n");
    if (!is_on_cpu) out += cat("#SBATCH --gpus-per-node=", request.node_size, "\n");
    if (!is_last_full) out += cat("#SBATCH --ntasks=", world, "\n");
    out += "#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --signal=USR1@300\n";
  }
  out +=
      format("# Planned by mtl-topo: a step of %.1f ms on %s. Add the data and the length of the run as arguments.\n",
             plans.best[0].time->ms, request.machine.device.name.c_str());
  // The job is that of share/slurm/several-nodes.sbatch. By default, srun starts equally many ranks on all nodes.
  out += nodes == 1 ? cat("exec mpirun -n ", world, " mtl-train \\\n")
                    : cat("# It saves before its time ends, and goes back to the queue until the run is complete.\n",
                          "trap : TERM\nsrun --distribution=block", is_last_full ? "" : ",Pack",
                          " --mpi=pmix --kill-on-bad-exit=1 mtl-train \\\n");
  std::vector<std::string> flags = texts_of(given, shell_word);
  for (const std::string& word : candidate_flags(plans.best[0]))
    flags.push_back(word == kFolder ? "\"${OFFLOAD_DIR:?is the folder for optimizer states, on a local disk}\"" : word);
  if (is_on_cpu) flags.insert(flags.end(), {"--device", "cpu", "--threads", cat(request.run.threads)});
  std::string line = " ";
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (starts_with(flags[i], "--") && line.size() > 80) {
      out += line + " \\\n";
      line = " ";
    }
    line += " " + flags[i];
  }
  out += line + " \"$@\"\n";
  if (nodes > 1) out += "code=$?\n[ \"$code\" -ne 75 ] || scontrol requeue \"$SLURM_JOB_ID\"\nexit \"$code\"\n";
  return out;
}

}  // namespace mtl
