// mtl-data order: the samples that mtl-train, given the same data and batch flags, would see, in their order.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/data_commands.h"
#include "cli/run_main.h"
#include "data/gpt_dataset.h"
#include "data/sampler.h"
#include "data/split.h"

namespace mtl {
namespace {

struct DataOrderOptions {
  std::vector<std::string> data_path;
  std::string split = "969, 30, 1";
  std::string dataset = "train";
  std::optional<std::int64_t> seq_length;
  std::int64_t seed = 1234;
  std::int64_t micro_batch_size = 1;
  std::optional<std::int64_t> global_batch_size;  // absent: one micro-batch per rank
  std::int64_t data_parallel_size = 1;
  std::optional<std::int64_t> train_iters, train_samples;
  std::int64_t eval_interval = 1000;
  std::int64_t eval_iters = 100;
  std::string dataloader_type = "single";
  bool data_sharding = true;
  bool tokens = false;

  std::int64_t global_batch() const { return global_batch_size.value_or(micro_batch_size * data_parallel_size); }
};

void add_flags(Flags& flags, DataOrderOptions& options) {
  flags.section("Data");
  flags.add("--data-path", &options.data_path, "PREFIX", "token files, without .bin or .idx").required();
  flags.add("--split", &options.split, "A,B,C", "weights of train, valid and test");
  flags.add("--dataset", &options.dataset, "NAME", "which part to print").one_of({"train", "valid", "test"});
  flags.add("--seq-length", &options.seq_length, "N", "tokens in a sample").required();
  flags.add("--seed", &options.seed, "N", "seed of the order");
  flags.add("--dataloader-type", &options.dataloader_type, "TYPE", "one pass in order, or shuffled epochs")
      .one_of({"single", "cyclic"});
  flags.add_off_switch("--no-data-sharding", options.data_sharding,
                       "cyclic: the ranks share one permutation instead of owning a part each");
  flags.section("Length of the run");
  flags.add("--micro-batch-size", &options.micro_batch_size, "N", "samples of a rank in one pass");
  flags.add("--global-batch-size", &options.global_batch_size, "N",
            "samples in an iteration; micro-batch size times data-parallel size when absent");
  flags.add("--data-parallel-size", &options.data_parallel_size, "N", "ranks that share a batch");
  flags.add("--train-iters", &options.train_iters, "N", "iterations of the run");
  flags.add("--train-samples", &options.train_samples, "N", "or its length in samples");
  flags.add("--eval-interval", &options.eval_interval, "N", "iterations between evaluations");
  flags.add("--eval-iters", &options.eval_iters, "N", "iterations of one evaluation");
  flags.section("Output");
  flags.add_switch("--tokens", options.tokens, "print the ids of every sample too");
}

void check_run_length(Flags& flags, const DataOrderOptions& options) {
  if (options.train_iters.has_value() == options.train_samples.has_value()) {
    flags.problem("--train-iters", "give either this or --train-samples");
  }
  if (options.train_iters.value_or(0) < 0)
    flags.problem(cat("--train-iters ", *options.train_iters), "must not be negative");
  if (options.train_samples.value_or(0) < 0) {
    flags.problem(cat("--train-samples ", *options.train_samples), "must not be negative");
  }
  if (options.eval_interval <= 0) flags.problem(cat("--eval-interval ", options.eval_interval), "must be positive");
  if (options.eval_iters < 0) flags.problem(cat("--eval-iters ", options.eval_iters), "must not be negative");
}

void check_batches(Flags& flags, const DataOrderOptions& options) {
  const std::int64_t ranks_batch = options.micro_batch_size * options.data_parallel_size;
  if (options.micro_batch_size <= 0)
    flags.problem(cat("--micro-batch-size ", options.micro_batch_size), "must be positive");
  if (options.data_parallel_size <= 0) {
    flags.problem(cat("--data-parallel-size ", options.data_parallel_size), "must be positive");
  }
  if (options.global_batch() <= 0) {
    flags.problem(cat("--global-batch-size ", options.global_batch()), "must be positive");
  } else if (ranks_batch > 0 && options.global_batch() % ranks_batch != 0) {
    flags.problem(cat("--global-batch-size ", options.global_batch()),
                  cat("is not a multiple of micro-batch size ", options.micro_batch_size, " times data-parallel size ",
                      options.data_parallel_size));
  }
}

void check(Flags& flags, const DataOrderOptions& options) {
  if (options.data_path.size() > 1) {
    flags.problem("--data-path " + join(options.data_path, " "),
                  "weights and blends of several data sets are not supported yet; give one prefix");
  }
  try {
    parse_split(options.split);
  } catch (const Error& error) {
    flags.problem("--split " + options.split, error.what());
  }
  if (options.seq_length.value_or(1) <= 0) flags.problem(cat("--seq-length ", *options.seq_length), "must be positive");
  if (options.seed < 0 || options.seed > std::int64_t{UINT32_MAX}) {
    flags.problem(cat("--seed ", options.seed), "must be from 0 to 4294967295");
  }
  check_run_length(flags, options);
  check_batches(flags, options);
}

/// {"sample":17,"dataset":0,"documents":[4,6],"offsets":[12,3]} and the tokens when asked for.
std::string sample_line(const GptDataset& dataset, std::int64_t index, bool with_tokens) {
  const auto append_list = [](std::string& out, const auto& numbers) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      out += i == 0 ? '[' : ',';
      append_part(out, numbers[i]);
    }
    out += numbers.empty() ? "[]" : "]";
  };
  const SampleSource source = dataset.describe(index);
  std::string out = cat("{\"sample\":", source.sample, ",\"dataset\":0,\"documents\":");
  append_list(out, source.documents);
  out += cat(",\"offsets\":[", source.first_offset, ",", source.last_offset, "]");
  if (with_tokens) {
    out += ",\"tokens\":";
    append_list(out, dataset.read_tokens(index));
  }
  return out + "}\n";
}

/// Prints every iteration's samples, rank after rank.
void print_iterations(const DataOrderOptions& options, const GptDataset& dataset, std::int64_t iterations) {
  std::vector<Sampler> samplers;
  for (std::int64_t rank = 0; rank < options.data_parallel_size; ++rank) {
    samplers.emplace_back(SamplerOptions{
        .kind = options.dataloader_type == "cyclic" ? SamplerKind::cyclic : SamplerKind::single,
        .total = dataset.size(),
        .micro_batch_size = options.micro_batch_size,
        .dp_size = options.data_parallel_size,
        .dp_rank = rank,
        .data_sharding = options.data_sharding,
    });
  }
  const std::int64_t micro_batches = options.global_batch() / (options.micro_batch_size * options.data_parallel_size);
  for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
    for (Sampler& sampler : samplers) {
      for (std::int64_t i = 0; i < micro_batches; ++i) {
        for (const std::int64_t index : sampler.next()) print_out(sample_line(dataset, index, options.tokens));
      }
    }
  }
}

void print_order(const DataOrderOptions& options) {
  const auto which = std::find(kSplitNames.begin(), kSplitNames.end(), options.dataset) - kSplitNames.begin();
  const RunLength run{.train_iters = options.train_iters.value_or(0),
                      .global_batch_size = options.global_batch(),
                      .eval_interval = options.eval_interval,
                      .eval_iters = options.eval_iters,
                      .train_samples = options.train_samples};
  const auto dataset =
      open_split(std::make_shared<IndexedDataset>(options.data_path.front()), options.split, static_cast<Split>(which),
                 run, {.seq_length = options.seq_length.value(), .seed = options.seed});
  // A last, partial batch is never consumed.
  const std::int64_t samples = count_samples(run)[static_cast<std::size_t>(which)];
  if (dataset) print_iterations(options, *dataset, samples / options.global_batch());
}

}  // namespace

int data_order(int argc, const char* const* argv) {
  DataOrderOptions options;
  Flags flags("mtl-data order", "which tokens make each sample, in the order that a training run consumes them");
  add_flags(flags, options);
  flags.check([&] { check(flags, options); });
  return run_main(flags, argc, argv, [&](Console&) {
    print_order(options);
    return Exit::ok;
  });
}

}  // namespace mtl
