#include "run/run_plan.h"

#include "base/enum_index.h"
#include "engine/place_durations.h"
#include "layout/schedule.h"
#include "models/canonical.h"

namespace mtl {

DropoutOptions run_dropout(const TrainOptions& options) {
  const ModelDropout dropout = options.dropout();
  return {.hidden = float(dropout.hidden),
          .attention = float(dropout.attention),
          .seed = static_cast<std::uint32_t>(options.seed)};
}

RuleSet run_rules(const TrainOptions& options) {
  const OptimizerOptions& given = options.optimizer;
  RuleSet out = given.name == "sgd" ? single_rule<Sgd>(given.sgd_momentum)
                                    : single_rule<AdamW>(AdamWOptions{
                                          .beta1 = given.adam_beta1, .beta2 = given.adam_beta2, .eps = given.adam_eps});
  if (given.name == "muon") {
    MuonRuleOptions muon = given.muon;
    muon.splits_qkv = !given.muon_no_split_qkv;
    muon.takes_positions = !given.muon_no_positions;
    muon.scale = *enum_named<MuonScale>(kMuonScales, given.muon_scale_mode);
    const bool in_bf16 = given.muon_fp32_matmul_prec ? *given.muon_fp32_matmul_prec == "medium"
                                                     : precision_of(options.precision).compute == DType::bf16;
    muon.compute = in_bf16 ? DType::bf16 : DType::f32;
    out.rules.push_back(std::make_shared<Muon>(muon));
  }
  out.decouples = given.schedule.decoupled_lr.has_value();
  return out;
}

std::int64_t run_checkpoint_bytes(const TrainOptions& options, const GptConfig& config) {
  const RuleSet rules = options.checkpoint.no_save_optim ? RuleSet{} : run_rules(options);
  return checkpoint_bytes(config, precision_of(options.precision), rules);
}

RunShape run_shape(const TrainOptions& options, const GptConfig& config, int rank) {
  RunShape shape;
  shape.micro_batch = options.batch.micro_batch_size;
  shape.seq_length = options.data.seq_length;
  shape.micro_batches = options.micro_batches();
  shape.padded_vocab =
      padded_vocab_size(config.vocab_size, options.architecture.make_vocab_size_divisible_by, options.parallel.tensor);
  shape.documents = options.data.reset_attention_mask;
  shape.per_token_loss = options.batch.per_token_loss;
  shape.z_loss = static_cast<float>(options.batch.z_loss);
  shape.resets_positions = options.data.reset_position_ids;
  shape.threads = static_cast<int>(options.threads);
  shape.layout = resolve_layout(options.parallel, config.num_layers, rank);
  shape.device = options.device;
  // The smaller the groups, the smaller the rings for sharded gradients and values.
  const ParallelOptions& parallel = options.parallel;
  const std::int64_t usual = std::max<std::int64_t>(40'000'000, 1'000'000 * parallel.data());
  const bool has_host = shape.device == Device::cuda;  // on the CPU, all memory is host memory
  shape.storage = {.bucket_elements = parallel.bucket_elements.value_or(shape.layout.shards_gradients() ? 1 : usual),
                   .optimizer_on_host = has_host && parallel.optimizer_cpu_offload,
                   .optimizer_folder = parallel.offload_optimizer};
  shape.recompute = recompute_of(parallel);
  if (has_host && parallel.cpu_offloading) shape.offloaded_layers = parallel.offloaded_layers.value_or(kAllLayers);
  shape.precision = precision_of(options.precision);
  shape.rules = run_rules(options);
  if (parallel.balances_stages())
    shape.layout.split.layer_counts = balanced_layer_counts(config, run_dropout(options), shape);
  if (defers_weights(shape.layout.schedule))
    shape.layout.durations = place_durations(config, run_dropout(options), shape);
  // See StepRunner::graphs_text().
  const bool delays_messages =
      shape.layout.shards_gradients() && shape.layout.stages() > 1 && parallel.overlap_grad_reduce;
  shape.graphs = options.device == Device::cuda && options.cuda_graphs && !delays_messages &&
                 shape.storage.optimizer_folder.empty() && !shape.layout.has_ring();
  shape.copies_saves = options.checkpoint.saves_behind_steps();
  shape.saves_states = !options.checkpoint.no_save_optim;
  // Two sets of batches: one is loaded while the other is processed. Two more sets for held-out data.
  shape.batch_sets = options.batch.validates() ? 4 : 2;
  return shape;
}

MemoryPlan plan_run(const TrainOptions& options, const GptConfig& config, int rank) {
  return plan_training(config, run_dropout(options), run_shape(options, config, rank));
}

std::optional<PipelinePlan> plan_stages(const TrainOptions& options, const GptConfig& config) {
  return plan_pipeline(config, run_dropout(options), run_shape(options, config, 0));
}

std::vector<RankPlan> plan_run(const TrainOptions& options, const GptConfig& config) {
  return plan_ranks(config, run_dropout(options), run_shape(options, config, 0));
}

std::vector<RankPlan> plan_run_report(const TrainOptions& options, const GptConfig& config) {
  std::vector<RankPlan> plans = plan_run(options, config);
  for (RankPlan& each : plans)
    each.collectives = collectives_of(record_step(
        config, run_dropout(options), run_shape(options, config, each.ranks.front()), run_overlap(options)));
  return plans;
}

ParamTraffic::Overlap run_overlap(const TrainOptions& options) {
  // With ZeRO-3, the update gathers nothing.
  return {.reduce = options.parallel.overlap_grad_reduce,
          .gather = options.parallel.overlap_param_gather && options.parallel.zero() < 3};
}

}  // namespace mtl
