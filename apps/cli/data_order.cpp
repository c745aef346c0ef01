// mtl-data order: prints the samples that mtl-train reads with the same data and batch flags, in order.
#include <algorithm>
#include <string>
#include <vector>

#include "base/enum_index.h"
#include "cli/alone.h"
#include "cli/data_commands.h"
#include "cli/data_flags.h"
#include "data/blended_dataset.h"
#include "data/sampler.h"

namespace mtl {
namespace {

struct DataOrderOptions {
  DataOptions data;
  BatchOptions batch;
  std::string dataset = "train";
  std::int64_t seed = 1234;
  std::int64_t data_parallel_size = 1;
  bool tokens = false;

  Split split() const {
    return static_cast<Split>(std::find(kSplitNames.begin(), kSplitNames.end(), dataset) - kSplitNames.begin());
  }
};

void add_flags(Flags& flags, DataOrderOptions& options) {
  flags.section("Data");
  add_data_flags(flags, options.data);
  flags.add("--dataset", &options.dataset, "NAME", "split to print").one_of({"train", "valid", "test"});
  flags.add("--seed", &options.seed, "N", "random seed for the order").within({0, UINT32_MAX});
  flags.section("Batches and length");
  add_batch_flags(flags, options.batch);
  flags.add("--data-parallel-size", &options.data_parallel_size, "N", "ranks that share a batch").within({1, 1e6});
  const char* no_effect = "has no effect on the order";
  flags.foreign.acknowledge(0, no_effect,
                            "--eod-mask-loss --reset-position-ids --reset-attention-mask --no-mmap-bin-files");
  flags.foreign.acknowledge(1, no_effect, "--num-workers --data-cache-path");
  flags.section("Output");
  flags.add_switch("--tokens", options.tokens, "print the token ids of every sample, too");
}

void check(Flags& flags, DataOrderOptions& options) {
  const auto report = [&](const std::string& flag, const std::string& what) { flags.problem(flag, what); };
  settle_data_flags(flags, options.data, options.batch, options.data_parallel_size);
  check_batches(options.batch, options.data_parallel_size, options.data.seq_length, report);
  if (!flags.was_given("--train-iters") && !flags.was_given("--train-samples"))
    flags.problem("--train-iters", "is required, or --train-samples");
  if (options.data.paths.is_absent()) flags.problem("--data-path", "is required: token files");
  check_data_options(options.data, report);
}

/// Returns {"sample":17,"dataset":0,"documents":[4,6],"offsets":[12,3]} and a newline; `with_tokens` adds "tokens".
std::string sample_line(const BlendedDataset& dataset, std::int64_t index, bool with_tokens) {
  const auto append_list = [](std::string& out, const auto& numbers) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      out += i == 0 ? '[' : ',';
      append_part(out, numbers[i]);
    }
    out += numbers.empty() ? "[]" : "]";
  };
  const SampleSource source = dataset.describe(index);
  std::string out = cat("{\"sample\":", source.sample, ",\"dataset\":", source.dataset, ",\"documents\":");
  append_list(out, source.documents);
  out += cat(",\"offsets\":[", source.first_offset, ",", source.last_offset, "]");
  if (with_tokens) {
    out += ",\"tokens\":";
    append_list(out, dataset.read_tokens(index));
  }
  return out + "}\n";
}

/// Returns a sampler for each data-parallel rank.
std::vector<Sampler> samplers_of(const DataOrderOptions& options, const BlendedDataset& dataset) {
  std::vector<Sampler> samplers;
  for (std::int64_t rank = 0; rank < options.data_parallel_size; ++rank) {
    samplers.emplace_back(SamplerOptions{
        .kind = options.data.sampler_kind(),
        .total = dataset.size(),
        .micro_batch_size = options.batch.micro_batch_size,
        .dp_size = options.data_parallel_size,
        .dp_rank = rank,
        .data_sharding = options.data.data_sharding,
    });
  }
  return samplers;
}

/// Prints every iteration's samples, rank by rank.
void print_order(const DataOrderOptions& options, const SplitSources& sources) {
  const BatchSizes sizes = options.batch.sizes(options.data_parallel_size, options.data.seq_length);
  const std::int64_t updates = options.batch.train_samples ? sizes.count_iterations(*options.batch.train_samples)
                                                           : options.batch.train_iters.value_or(0);
  const std::size_t split = enum_index(options.split());
  const auto counts = count_samples(options.batch.run_length(updates, options.data_parallel_size));
  if (counts[split] == 0) return;
  if (!sources[split]) {
    fail(Exit::usage,
         options.data.paths.is_per_split() ? cat("--", options.dataset, "-data-path is not given")
                                           : cat("--split ", options.data.paths.split),
         ": no data for ", options.dataset);
  }
  DataFiles files;
  const auto dataset =
      open_split(files, *sources[split], counts[split],
                 {.seq_length = options.data.seq_length, .seed = options.seed, .order = options.data.order_kind()});
  if (options.data.sampler_kind() == SamplerKind::single)
    require_samples(*sources[split], options.split(), *dataset, counts[split]);
  std::vector<Sampler> samplers = samplers_of(options, *dataset);
  const bool is_training = options.split() == Split::train;
  const std::int64_t iterations =
      is_training ? updates : counts[split] / options.batch.global_size(options.data_parallel_size);
  for (std::int64_t iteration = 0, consumed = 0; iteration < iterations; ++iteration) {
    const std::int64_t size = is_training ? sizes.running(consumed) : sizes.largest();
    for (Sampler& sampler : samplers) {
      for (std::int64_t i = 0; i < size / (options.batch.micro_batch_size * options.data_parallel_size); ++i) {
        const std::vector<std::int64_t> batch = sampler.next();
        if (batch.empty()) return;
        for (const std::int64_t index : batch) print_out(sample_line(*dataset, index, options.tokens));
      }
    }
    consumed += size;
  }
}

}  // namespace

int data_order(int argc, const char* const* argv) {
  DataOrderOptions options;
  Flags flags("mtl-data order", "print which tokens make each sample, in the order that a training run consumes them");
  add_flags(flags, options);
  flags.check([&] { check(flags, options); });
  SplitSources sources;
  const auto prepare = [&] {
    sources = read_split_sources(options.data.paths,
                                 [&](const std::string& flag, const std::string& what) { flags.problem(flag, what); });
  };
  const auto run = [&](Console&) {
    print_order(options, sources);
    return Exit::ok;
  };
  return run_alone(flags, argc, argv, run, prepare);
}

}  // namespace mtl
