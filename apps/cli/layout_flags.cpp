#include "cli/layout_flags.h"

namespace mtl {

void add_size_flags(Flags& flags, TrainOptions& options) {
  ArchitectureOptions& model = options.architecture;
  flags.add("--num-layers", &model.num_layers, "N", "transformer blocks");
  flags.add("--hidden-size", &model.hidden_size, "N", "width of the residual stream");
  flags.add("--num-attention-heads", &model.num_attention_heads, "N", "heads; the hidden size must be a multiple");
  flags.add("--ffn-hidden-size", &model.ffn_hidden_size, "N", "width within an MLP; 4 x hidden size when absent");
  flags.add("--max-position-embeddings", &model.max_position_embeddings, "N", "rows of the position table");
  flags.add("--make-vocab-size-divisible-by", &model.make_vocab_size_divisible_by, "N",
            "rows of the token table in memory are a multiple of this times the tensor parallel size");
  flags.add("--hidden-dropout", &options.hidden_dropout, "P", "dropout on what embedding, attention and MLP add");
  flags.add("--attention-dropout", &options.attention_dropout, "P", "dropout on attention probabilities");
}

void add_grid_flags(Flags& flags, ParallelOptions& options) {
  flags.add("--tensor-model-parallel-size", &options.tensor, "N", "ranks that share each layer");
  flags.add("--pipeline-model-parallel-size", &options.pipeline, "N", "stages of consecutive layers");
  flags.add("--context-parallel-size", &options.context, "N", "ranks that share each sequence; mtl-train takes 1");
  flags.add_switch("--use-tp-pp-dp-mapping", options.tp_pp_dp_mapping,
                   "number ranks along the pipeline before data parallelism");
}

void add_stage_flags(Flags& flags, ParallelOptions& options) {
  flags.add("--num-layers-in-first-pipeline-stage,--decoder-first-pipeline-num-layers", &options.first_stage_layers, "N", "layers of the first stage");
  flags.add("--num-layers-in-last-pipeline-stage,--decoder-last-pipeline-num-layers", &options.last_stage_layers, "N", "layers of the last stage");
  flags.add_switch("--account-for-embedding-in-pipeline-split", options.account_for_embedding,
                   "count the embedding as a layer of the first stage");
  flags.add_switch("--account-for-loss-in-pipeline-split", options.account_for_loss,
                   "count the output layer as a layer of the last stage");
}

void add_sharing_flags(Flags& flags, ParallelOptions& options) {
  flags.add_switch("--sequence-parallel", options.sequence_parallel,
                   "tensor-parallel ranks share the rows between their parts of layers, too");
  flags.add_switch("--use-distributed-optimizer", options.distributed_optimizer,
                   "data-parallel ranks share out the optimizer's state");
  flags.add("--ddp-bucket-size", &options.bucket_elements, "N",
            "gradients that are summed together; 40 M, or 1 M x data-parallel ranks if more, when absent");
}

void add_batch_size_flags(Flags& flags, BatchOptions& options) {
  flags.add("--micro-batch-size", &options.micro_batch_size, "N", "samples at a time");
  flags.add("--global-batch-size", &options.global_batch_size, "N",
            "samples of an update; one micro-batch a data-parallel rank when absent");
}

}  // namespace mtl
