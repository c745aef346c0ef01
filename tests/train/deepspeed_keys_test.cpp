// Answers to the keys of DeepSpeed's configurations, in files like public ones, and in damaged and hostile ones.
#include "train/deepspeed_keys.h"

#include <doctest/doctest.h>

#include "base/str.h"
#include "tests/scratch_file.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns the answers to a file's keys as "key: value -> answer", and the other lines as they are.
std::vector<std::string> explain(std::string_view config) {
  const test::ScratchFile file(config);
  std::vector<std::string> out;
  for (const std::string& line : split(explain_deepspeed_config(file.path), '\n')) {
    const std::string text(trim(line));
    const std::size_t gap = text.find("  ");
    if (text.empty() || starts_with(text, file.path + "  ")) continue;
    out.push_back(gap == std::string::npos ? text : cat(text.substr(0, gap), " -> ", trim(text.substr(gap))));
  }
  return out;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("DeepSpeed's keys: ZeRO-2 with fp16 and offloading") {
  const Lines expected = {
      "train_batch_size: 96 -> --global-batch-size 96",
      "train_micro_batch_size_per_gpu: 3 -> --micro-batch-size 3",
      "gradient_accumulation_steps: 4 -> follows: global batch size / (micro-batch size x data-parallel ranks)",
      "gradient_clipping: 0.5 -> --clip-grad 0.5",
      "steps_per_print: 50 -> --log-interval 50",
      "fp16.enabled: true -> --fp16",
      "fp16.loss_scale: 0 -> --loss-scale 0",
      "fp16.initial_scale_power: 12 -> --initial-loss-scale 4096",
      "fp16.loss_scale_window: 500 -> --loss-scale-window 500",
      "fp16.consecutive_hysteresis: false -> no flag: it is off",
      "bf16: {\"enabled\": false, \"immediate_grad_update\": true} -> no flag: it is off",
      "optimizer.type: \"adamw\" -> --optimizer adam",
      "optimizer.params.lr: 3e-05 -> --lr 3e-05",
      "optimizer.params.betas: [0.9, 0.95] -> --adam-beta1 0.9 --adam-beta2 0.95",
      "optimizer.params.bias_correction: false -> not supported: the update is AdamW's, with bias correction",
      "scheduler.type: \"WarmupDecayLR\" -> --lr-decay-style linear",
      "scheduler.params.total_num_steps: 2000.0 -> --lr-decay-iters 2000",
      "scheduler.params.warmup_type: \"log\" -> not supported: the warm-up is linear",
      "zero_optimization.stage: 2 -> --zero-stage 2",
      "zero_optimization.offload_optimizer.device: \"cpu\" -> --optimizer-cpu-offload",
      "zero_optimization.overlap_comm: true -> --overlap-grad-reduce --overlap-param-gather",
      "zero_optimization.reduce_bucket_size: 200000000.0 -> --ddp-bucket-size 200000000",
      "flops_profiler: {\"enabled\": false, \"profile_step\": 1} -> no flag: it is off",
      "activation_checkpointing: null -> no flag: it is off",
      "csv_monitor: {\"enabled\": true} -> --log-jsonl FILE, with a file in output_path",
      "together: --global-batch-size 96 --micro-batch-size 3 --clip-grad 0.5 --log-interval 50 --fp16 --loss-scale 0 "
      "--initial-loss-scale 4096 --loss-scale-window 500 --optimizer adam --lr 3e-05 --adam-beta1 0.9 --adam-beta2 "
      "0.95 "
      "--lr-decay-style linear --lr-decay-iters 2000 --zero-stage 2 --optimizer-cpu-offload --overlap-grad-reduce "
      "--overlap-param-gather --ddp-bucket-size 200000000"};
  CHECK(explain(R"({"train_batch_size": 96, "train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 4,
    "gradient_clipping": 0.5, "steps_per_print": 50,
    "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 500,
             "consecutive_hysteresis": false},
    "bf16": {"enabled": false, "immediate_grad_update": true},
    "optimizer": {"type": "adamw", "params": {"lr": 3e-5, "betas": [0.9, 0.95], "bias_correction": false}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 2e3, "warmup_type": "log"}},
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "overlap_comm": true,
                          "reduce_bucket_size": 2e8},
    "flops_profiler": {"enabled": false, "profile_step": 1}, "activation_checkpointing": null,
    "csv_monitor": {"enabled": true}})") == expected);
}

TEST_CASE("DeepSpeed's keys: ZeRO-3, where the script's own arguments set \"auto\"") {
  const char* left = "; \"auto\" leaves it to the script's own arguments";
  const Lines expected = {
      cat("bf16.enabled: \"auto\" -> set by --bf16", left),
      cat("optimizer.params.betas: \"auto\" -> set by --adam-beta1 VALUE[0] --adam-beta2 VALUE[1]", left),
      "zero_optimization.stage: 3 -> --zero-stage 3",
      "zero_optimization.offload_optimizer.device: \"nvme\" -> --offload-optimizer DIR, with a folder in nvme_path",
      "zero_optimization.offload_param.device: \"cpu\" -> not supported; use more ranks, or --recompute-granularity "
      "full",
      "zero_optimization.stage3_prefetch_bucket_size: \"auto\" -> nothing to choose: memory and traffic are planned "
      "before the run",
      cat("gradient_clipping: \"auto\" -> set by --clip-grad VALUE", left),
      cat("train_batch_size: \"auto\" -> set by --global-batch-size COUNT", left),
      "steps_per_print: Infinity -> --log-interval 0",
      "together: --zero-stage 3 --log-interval 0"};
  CHECK(explain(R"({"bf16": {"enabled": "auto"}, "optimizer": {"params": {"betas": "auto"}},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}, "offload_param": {"device": "cpu"},
                          "stage3_prefetch_bucket_size": "auto"},
    "gradient_clipping": "auto", "train_batch_size": "auto", "steps_per_print": Infinity})") == expected);
}

TEST_CASE("DeepSpeed's keys: unknown ones, and values that a key cannot have") {
  const Lines expected = {"train_batch: 4 -> unknown to mtl-train",
                          "zero_optimization.stag: 2 -> unknown to mtl-train",
                          "zero_optimization.overlap_comm: \"often\" -> unknown to mtl-train",
                          "my_section: {\"lr\": 1, \"enabled\": false} -> unknown to mtl-train",
                          "type=AdamW: 1 -> unknown to mtl-train",
                          ": {\"train_batch_size\": 1} -> unknown to mtl-train",
                          "fp16: true -> unknown to mtl-train",
                          "train_batch_size: 1.5 -> --global-batch-size COUNT",
                          "gradient_clipping: {\"x\": 1} -> --clip-grad VALUE",
                          "fp16.initial_scale_power: 1000 -> --initial-loss-scale 2^COUNT",
                          "optimizer.params.lr: \"1e-4 --fp16; ls $HOME\" -> --lr '1e-4 --fp16; ls $HOME'",
                          "together: --lr '1e-4 --fp16; ls $HOME'"};
  CHECK(explain(R"({"train_batch": 4, "zero_optimization": {"stag": 2, "overlap_comm": "often"},
    "my_section": {"lr": 1, "enabled": false}, "type=AdamW": 1, "": {"train_batch_size": 1}, "fp16": true,
    "train_batch_size": 1.5, "gradient_clipping": {"x": 1}, "fp16": {"initial_scale_power": 1000},
    "optimizer": {"params": {"lr": "1e-4 --fp16; ls $HOME"}}})") == expected);
}

TEST_CASE("DeepSpeed's keys: text cannot act on a terminal, or fill it") {
  const test::ScratchFile file(
      R"({"a\u001b[2J\n    --lr\u009b": "\u001b]0;x\u0007\u007f", "optimizer": {"params": {"lr": "\u001b[31m\n1"}}})");
  CHECK(explain_deepspeed_config(file.path).find(R"(
    a[2J    --lr: "\u001b]0;x\u0007"      unknown to mtl-train
    optimizer.params.lr: "\u001b[31m\n1"  --lr '[31m1'
    together: --lr '[31m1')") != std::string::npos);
  const std::string accents = replace_all(std::string(60, 'e'), "e", "\xC3\xA9");
  CHECK(explain("{\"x" + accents + "\": 1}") == Lines{"x" + accents.substr(0, 70) + "... -> unknown to mtl-train"});
  std::string many = "{\"" + std::string(100000, 'x') + "\": [\"" + std::string(100000, 'y') + "\"]";
  for (int i = 0; i < 5000; ++i) many += cat(", \"k\xC3\xA9y", i, "\": ", i);
  const Lines lines = explain(many + "}");
  CHECK(lines.size() == 201);
  CHECK(lines[0] == std::string(72, 'x') + "... -> unknown to mtl-train");
  CHECK(lines.back() == ".. and 4801 more keys");
}

TEST_CASE("DeepSpeed's keys: a file that cannot be read says why, and what to name") {
  const auto why = [](std::string_view config) {
    const test::ScratchFile file(config);
    const std::string text = explain_deepspeed_config(file.path), begin = "\n    " + file.path + " ",
                      end = "; name a file of JSON, without comments, to see mtl-train's flags for its keys";
    CHECK(starts_with(text, begin));
    CHECK(ends_with(text, end));
    return text.substr(begin.size(), text.size() - begin.size() - end.size());
  };
  CHECK(why("{\"fp16\": {\"enabled\": true},}") == "is not valid JSON: byte 28: a value is missing after ','");
  CHECK(starts_with(why("{\"fp16\": // as before\n 1}"), "is not valid JSON: byte 10: "));
  CHECK(starts_with(why(""), "is not valid JSON: byte 1: "));
  CHECK(why("[]") == "is not a JSON object");
  CHECK(starts_with(why(std::string(100000, '[')), "is not valid JSON: byte 1001: nested deeper than 1000"));
  CHECK(why(std::string((1 << 20) + 1, ' ')) == "has 1048577 bytes; a configuration has at most 1048576");
  const ScratchFolder folder;
  CHECK(explain_deepspeed_config(folder / "none.json").find("none.json: cannot open: No such file") !=
        std::string::npos);
  CHECK(explain_deepspeed_config(folder.path()).find("; name a file of JSON") != std::string::npos);
}

TEST_CASE("DeepSpeed's keys: docs/deepspeed-fsdp.md has exactly the rows of the table") {
  Lines expected;
  for (const DeepSpeedKeys& row : deepspeed_keys())
    expected.push_back(cat(row.section.empty() ? "| " : cat("| `", row.section, "` "), "| `",
                           replace_all(replace_all(row.keys, " ", "`, `"), "=", ": "), "` | ", row.answer, " |"));
  Lines documented;
  bool is_inside = false;
  for (const std::string& line : split(read_file("../docs/deepspeed-fsdp.md"), '\n')) {
    if (is_inside && starts_with(line, "| ")) documented.push_back(line);
    is_inside = starts_with(line, "| section | key |") || (is_inside && starts_with(line, "|"));
  }
  CHECK(documented == expected);
}
