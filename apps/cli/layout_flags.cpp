#include "cli/layout_flags.h"

#include <cmath>

namespace mtl {

namespace {

/// A probability acts in steps of 1/steps, the resolution of the random stream (kernels/dropout.h).
void check_steps(Flags& flags, const char* flag, double probability, double steps) {
  const double acts_as = std::round(probability * steps) / steps;
  const std::string where = cat(flag, " ", probability), unit = cat("dropout acts in steps of 1/", steps);
  if (probability > 0 && (acts_as == 0 || acts_as == 1))
    flags.problem(where, cat("would act as ", acts_as, ": ", unit));
  else if (std::abs(acts_as - probability) > 0.05 * probability)
    flags.notice(cat(where, ": acts as ", acts_as * steps, "/", steps, " = ", acts_as, "; ", unit));
}

}  // namespace

void add_size_flags(Flags& flags, TrainOptions& options) {
  ArchitectureOptions& model = options.architecture;
  flags.add("--num-layers", &model.num_layers, "N", "transformer blocks").within({1, kMostLayers});
  flags.add("--hidden-size", &model.hidden_size, "N", "width of the residual stream").within({1, 1 << 24});
  flags.add("--num-attention-heads", &model.num_attention_heads, "N", "heads; the hidden size must be a multiple")
      .within({1, 1 << 20});
  flags.add("--ffn-hidden-size", &model.ffn_hidden_size, "N", "width within an MLP; 4 x hidden size when absent")
      .within({1, 1 << 26});
  flags.add("--max-position-embeddings", &model.max_position_embeddings, "N", "rows of the position table")
      .within({1, INT32_MAX});
  flags
      .add("--make-vocab-size-divisible-by", &model.make_vocab_size_divisible_by, "N",
           "rows of the token table in memory are a multiple of this times the tensor parallel size")
      .within({1, INT32_MAX});
  flags.add("--hidden-dropout", &options.hidden_dropout, "P", "dropout on what embedding, attention and MLP add")
      .at_least(0)
      .below(1);
  flags.add("--attention-dropout", &options.attention_dropout, "P", "dropout on attention probabilities")
      .at_least(0)
      .below(1);
  flags.check([&flags, &options] {
    check_steps(flags, "--hidden-dropout", options.hidden_dropout, 65536);
    check_steps(flags, "--attention-dropout", options.attention_dropout, 256);
  });
}

void add_grid_flags(Flags& flags, ParallelOptions& options) {
  flags.add("--tensor-model-parallel-size", &options.tensor, "N", "ranks that share each layer")
      .within({1, kLargestWorld});
  flags.add("--pipeline-model-parallel-size", &options.pipeline, "N", "stages of consecutive layers")
      .within({1, kLargestWorld});
  flags.add("--context-parallel-size", &options.context, "N", "ranks that share each sequence; mtl-train takes 1")
      .within({1, kLargestWorld});
  flags
      .add_switch("--use-tp-pp-dp-mapping", options.tp_pp_dp_mapping,
                  "number ranks along the pipeline before data parallelism")
      .only_with("on one stage or one data-parallel rank",
                 [&options] { return options.pipeline > 1 && options.data() > 1; });
}

void add_stage_flags(Flags& flags, ParallelOptions& options) {
  flags
      .add("--num-layers-in-first-pipeline-stage,--decoder-first-pipeline-num-layers",
           &options.layout.first_stage_layers, "N", "layers of the first stage")
      .within({1, kMostLayers});
  flags
      .add("--num-layers-in-last-pipeline-stage,--decoder-last-pipeline-num-layers", &options.layout.last_stage_layers,
           "N", "layers of the last stage")
      .within({1, kMostLayers});
  flags
      .add_switch("--account-for-embedding-in-pipeline-split", options.layout.account_for_embedding,
                  "count the embedding as a layer of the first stage")
      .only_with("on one stage", [&options] { return options.pipeline > 1; });
  flags
      .add_switch("--account-for-loss-in-pipeline-split", options.layout.account_for_loss,
                  "count the output layer as a layer of the last stage")
      .only_with("on one stage", [&options] { return options.pipeline > 1; });
}

void add_sharing_flags(Flags& flags, ParallelOptions& options) {
  flags
      .add_switch("--sequence-parallel", options.layout.sequence_parallel,
                  "tensor-parallel ranks share the rows between their parts of layers, too")
      .only_with("on one tensor-parallel rank", [&options] { return options.tensor > 1; });
  flags
      .add_switch("--use-distributed-optimizer", options.distributed_optimizer,
                  "data-parallel ranks share out the optimizer's state")
      .only_with("on one data-parallel rank", [&options] { return options.data() > 1; });
  flags
      .add("--ddp-bucket-size", &options.bucket_elements, "N",
           "sum the gradients of consecutive layers together that have at least N parameters; absent: 40 M, or 1 M x "
           "data-parallel ranks if more")
      .within({1, 1e15})
      .only_with("on one data-parallel rank", [&options] { return options.data() > 1; });
}

void add_batch_size_flags(Flags& flags, BatchOptions& options) {
  flags.add("--micro-batch-size", &options.micro_batch_size, "N", "samples at a time").within(kBatchSizes);
  flags
      .add("--global-batch-size", &options.global_batch_size, "N",
           "samples of an update; one micro-batch a data-parallel rank when absent")
      .within(kBatchSizes);
}

}  // namespace mtl
