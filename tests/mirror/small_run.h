// Defines a small run on any device, shared by the tests of complete runs.
#pragma once

#include "base/files.h"
#include "base/json.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/data/finish.h"
#include "train/trainer.h"

namespace mtl::test {

inline constexpr std::int64_t kVocab = 61, kLength = 12;

/// Writes 200 documents with 10 to 20 tokens each. Document `broken` has a token outside the vocabulary.
inline void write_data(const std::string& prefix, int broken = -1) {
  IndexedDatasetWriter writer(prefix, DataType::u16);
  std::uint32_t state = 1;
  for (int document = 0; document < 200; ++document) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 10 + document % 11; ++i) {
      state = state * 1664525 + 1013904223;
      ids.push_back(static_cast<std::int32_t>((state >> 16) % kVocab));
    }
    if (document == broken) ids[0] = kVocab;
    writer.add_sequence(ids);
    writer.end_document();
  }
  test::finish(writer);
}

inline TrainOptions options_on(Device device, const std::string& data, const std::string& save) {
  TrainOptions options;
  options.device = device;
  options.architecture.num_layers = 2;
  options.architecture.hidden_size = 24;
  options.architecture.num_attention_heads = 3;
  options.architecture.max_position_embeddings = kLength;
  options.data.paths.data_path = {data};
  options.data.paths.split = "80,10,10";
  options.data.seq_length = kLength;
  options.batch.micro_batch_size = 2;
  options.batch.global_batch_size = 6;
  options.batch.train_iters = 6;
  options.batch.eval_interval = 3;
  options.batch.eval_iters = 2;
  options.optimizer.schedule.lr = 0.01;
  options.checkpoint.save = save;
  options.logging.log_interval = 1;
  options.logging.peak_tflops = 1;
  options.logging.log_jsonl = save + ".jsonl";
  options.threads = 2;
  options.tuning_cache = "none";
  return options;
}

/// Runs training as the rank described by `ranks`. Calls `prepare` with the run's signal requests first.
inline Exit run(const TrainOptions& options, const std::function<void(SignalRequests&)>& prepare = {},
                const RankGroups& ranks = {}) {
  Console console = quiet_console();
  SignalRequests signals;
  if (prepare) prepare(signals);
  RunStart start =
      share_start([&] { return find_start(options, nullptr, {}, console); }, options, ranks.groups.world());
  std::optional<GptConfig> loaded;
  if (start.source) loaded = start.source->config();
  start.config = resolve_config(options, loaded, kVocab, [](const std::string& flag, const std::string& what) {
    fail(Exit::usage, flag, ": ", what);
  });
  return Trainer(options, std::move(start), nullptr, ranks, signals, console).run();
}

/// Returns a run's logged metrics, except those that depend on time.
inline std::vector<std::string> metrics_in(const std::string& log) {
  std::vector<std::string> out;
  for (const std::string& line : split(read_file(log), '\n')) {
    if (line.empty()) continue;
    const Json record = Json::parse(line);
    std::string text;
    for (const char* name : {"type", "iteration", "consumed_samples", "lm_loss", "loss", "grad_norm", "learning_rate",
                             "num_zeros", "params_norm", "loss_scale", "skipped_iterations", "nan_iterations"}) {
      if (const Json* value = record.find(name)) text += cat(name, " ", value->dump(), " ");
    }
    if (text.find("loss") != std::string::npos) out.push_back(text);
  }
  return out;
}

/// Together, make_llama() and make_neox() use all operators that GPT-2 does not. Backward recomputes only attention in
/// the first, and entire layers in the second.
inline void make_llama(TrainOptions& options) {
  ArchitectureOptions& model = options.architecture;
  model.normalization = "RMSNorm";
  model.position_embedding_type = "rope";
  model.group_query_attention = model.qk_layernorm = model.swiglu = true;
  model.disable_bias_linear = model.untie_embeddings = true;
  model.window_size = "5,0";
  options.parallel.recompute_granularity = "selective";
}
inline void make_neox(TrainOptions& options) {
  ArchitectureOptions& model = options.architecture;
  model.position_embedding_type = "rope";
  model.rotary_percent = 0.25;
  model.parallel_residual = model.no_bias_gelu_fusion = true;
  options.parallel.recompute_granularity = "full";
  options.parallel.recompute_method = "uniform";
  options.parallel.recompute_num_layers = 2;
}

}  // namespace mtl::test
