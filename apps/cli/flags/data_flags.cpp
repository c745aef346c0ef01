#include "cli/flags/data_flags.h"

#include "cli/flags/layout_flags.h"

namespace mtl {

void add_length_flag(Flags& flags, DataOptions& data) {
  flags.add("--seq-length", &data.seq_length, "N", "tokens per sample", within({1, INT32_MAX}));
}

void add_mask_flag(Flags& flags, DataOptions& data) {
  flags.add_switch("--reset-attention-mask", data.reset_attention_mask,
                   "let no token attend to documents before its own");
}

void add_data_flags(Flags& flags, DataOptions& data) {
  DataPathOptions& paths = data.paths;
  flags.add("--data-path", &paths.data_path, "WORDS",
            "prefix of token files, several prefixes, or WEIGHT PREFIX pairs");
  flags.add("--data-args-path", &paths.data_args_path, "FILE", "read the words of --data-path from FILE");
  flags.add("--train-data-path", &paths.train_data_path, "WORDS", "training data, instead of a part of --data-path");
  flags.add("--valid-data-path", &paths.valid_data_path, "WORDS", "validation data, likewise");
  flags.add("--test-data-path", &paths.test_data_path, "WORDS", "test data, likewise");
  flags.add("--per-split-data-args-path", &paths.per_split_data_args_path, "FILE",
            "read the words of the three flags above from a JSON file");
  flags.add("--split", &paths.split, "A,B,C", "weights of training, validation and test",
            only_with("with --mock-data", [&data] { return !data.mock; }));
  add_length_flag(flags, data);
  flags.add("--data-order", &data.order, "ORDER",
            "order of samples: Megatron-LM's, or one that is computed instead of stored",
            one_of({"megatron", "feistel"}));
  flags.add("--dataloader-type", &data.dataloader_type, "TYPE",
            "one pass in the data set's order, or reshuffled epochs", one_of({"single", "cyclic"}));
  flags.add_switch("--no-data-sharding", data.data_sharding,
                   "with cyclic: let data-parallel ranks share one permutation instead of owning a part each",
                   inverted);
}

void add_batch_flags(Flags& flags, BatchOptions& batch) {
  add_batch_size_flags(flags, batch);
  flags.add("--rampup-batch-size", &batch.rampup, "START INCREMENT SAMPLES",
            "grow the batch by INCREMENT from START to --global-batch-size over SAMPLES samples");
  flags.add("--step-batch-size-schedule", &batch.schedule, "STEPS",
            "batch sizes by tokens consumed, such as \"0:768 250B:1536\"");
  flags.add_switch("--decrease-batch-size-if-needed", batch.decrease_if_needed,
                   "round batch sizes down to multiples of micro-batch size x data-parallel size");
  flags.add("--train-iters", &batch.train_iters, "N", "iterations to run", at_least(1));
  flags.add("--train-samples", &batch.train_samples, "N", "samples to train on, instead of --train-iters", at_least(1));
  flags.add("--eval-interval", &batch.eval_interval, "N", "iterations between validations; 0: only at the end",
            at_least(0),
            only_with("with --eval-iters 0", [&batch] { return batch.validates() || batch.eval_interval == 0; }));
  flags.add("--eval-iters", &batch.eval_iters, "N", "global batches per validation; 0: none", at_least(-1));
  flags.check([&flags, &batch] {
    if (batch.eval_iters < 0) flags.problem("--eval-iters -1", "must be at least 0, which turns validation off");
  });
}

void resolve_data_flags(Flags& flags, const DataOptions& data, BatchOptions& batch, std::int64_t data_parallel) {
  if (data.paths.is_per_split() && !data.paths.is_shared() && !data.mock && flags.was_given("--split"))
    flags.problem("--split " + data.paths.split,
                  "divides --data-path, but other flags name the data of each split; leave out --split");
  if (batch.schedule.empty() || batch.global_batch_size) return;
  try {
    batch.global_batch_size = batch.sizes(data_parallel, data.seq_length).largest();
  } catch (const Error&) {  // check_batches reports it
  }
}

}  // namespace mtl
