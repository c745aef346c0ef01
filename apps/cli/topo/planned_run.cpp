#include "cli/topo/planned_run.h"

#include <functional>

#include "base/files.h"
#include "base/str.h"
#include "cli/flags/data_flags.h"
#include "cli/flags/layout_flags.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/train/train_flags.h"
#include "models/hf_config.h"

namespace mtl {

void add_device_flags(Flags& flags, PlannedRun& run) {
  PlanDevices& devices = run.devices;
  flags.section("Devices");
  add_world_size_flag(flags, run.options.parallel, "number of ranks", required);
  add_node_size_flag(flags, run.options.parallel, "ranks per node (default: 8)");
  flags.add("--hardware", &devices.hardware, "GPU", "the GPUs' model, or a FILE.json", suggest(machine_names()));
  flags.add("--efficiency", &devices.efficiency, "NAME",
            "shares of the peak rates: those of published kernels, or of mtl's (default: mtl's where they are known)",
            one_of({"published", "mtl"}),
            only_with("with --profile, which has the operators' times", [&devices] { return !devices.profile; }));
  flags.add("--profile", &devices.profile, "FILE",
            "rankN.json of mtl-train --profile on one rank: operators take as long as there");
  flags.add("--device-memory", &devices.device_memory, "SIZE", "memory of one GPU that the run may use, as in 80GB");
  flags.add("--inside-gbs", &devices.inside_gbs, "GB/S", "bandwidth of a GPU's links inside its node, in one direction",
            within(kRateBounds));
  flags.add("--between-gbs", &devices.between_gbs, "GB/S", "bandwidth of a GPU's link to other nodes, in one direction",
            within(kRateBounds));
  flags.add("--inside-us", &devices.inside_us, "US", "latency inside a node, in microseconds", within(kLatencyBounds));
  flags.add("--between-us", &devices.between_us, "US", "latency between nodes, in microseconds",
            within(kLatencyBounds));
  flags.add("--host-gbs", &devices.host_gbs, "GB/S", "bandwidth of a GPU's link to its host's memory, in one direction",
            within(kRateBounds),
            only_with("on the CPU, whose memory is the host's", [&devices] { return !devices.is_on_cpu(); }));
  flags.add("--disk-gbs", &devices.disk_gbs, "GB/S",
            "rate at which a node's disk reads and, at the same time, writes: optimizer states may be in files",
            within(kRateBounds));
}

void add_model_flags(Flags& flags, PlannedRun& run) {
  flags.section("Model");
  flags.add("--load", &run.load, "PATH", "a config.json of transformers, or its folder, that describes the model");
  add_architecture_flags(flags, run.options, [&run] { return run.loaded.has_value(); });
  add_vocab_size_flag(flags, run.options.tokenizer.vocab_size, "tokens in the vocabulary, before padding");
  add_length_flag(flags, run.options.data);
}

void read_planned_run(Flags& flags, PlannedRun& run) {
  if (!run.load.empty()) {
    const std::string path = is_directory(run.load) ? run.load + "/config.json" : run.load;
    if (file_exists(path))
      run.loaded = read_hf_description(path).config;
    else
      flags.notice(cat("--load ", run.load, " is set aside, because it has no config.json that describes the model"));
  }
  run.options.parallel.world = run.options.parallel.plan_world.value_or(1);
  run.options.threads = 1;
  run.options.dry_run = true;
  check_devices(run.devices, run.options, std::bind_front(&Flags::problem, &flags));
}

void resolve_model(Flags& flags, PlannedRun& run) {
  if (flags.problem_count() > 0) return;
  const std::optional<std::int64_t>& tokens = run.options.tokenizer.vocab_size;
  if (!tokens && !run.loaded)
    flags.problem("--vocab-size", "is required, because the size of the vocabulary is part of the model");
  run.config = resolve_config(run.options, run.loaded, tokens.value_or(1), std::bind_front(&Flags::problem, &flags));
}

void accept_training_command(Flags& flags) {
  TrainOptions options;
  const RunStart start;
  Flags training("mtl-train", "");
  add_train_flags(training, options, start);
  flags.set_aside(training, {"precision", "memory", "architecture"},
                  "are set aside, because a plan chooses them, has their defaults or does not depend on them");
}

}  // namespace mtl
