// mtl-data order: prints the samples that mtl-train reads with the same data and batch flags, in order.
#include <optional>
#include <string>

#include "base/enum_index.h"
#include "base/heartbeat.h"
#include "cli/data/commands.h"
#include "cli/data/print.h"
#include "cli/flags/data_flags.h"
#include "cli/single_process.h"
#include "train/sample_walk.h"

namespace mtl {
namespace {

struct DataOrderOptions {
  DataOptions data;
  BatchOptions batch;
  std::string dataset = "train";
  std::int64_t seed = 1234;
  std::int64_t data_parallel_size = 1;
  bool tokens = false;
};

void add_flags(Flags& flags, DataOrderOptions& options) {
  flags.section("Data");
  add_data_flags(flags, options.data);
  flags.add("--dataset", &options.dataset, "NAME", "split to print", one_of({"train", "valid", "test"}));
  flags.add("--seed", &options.seed, "N", "random seed for the order", within({0, UINT32_MAX}));
  flags.section("Batches and length");
  add_batch_flags(flags, options.batch);
  flags.add("--data-parallel-size", &options.data_parallel_size, "N", "ranks that share a batch", within({1, 1e6}));
  const char* no_effect = "has no effect on the order";
  flags.foreign.acknowledge(0, no_effect,
                            "--eod-mask-loss --reset-position-ids --reset-attention-mask --no-mmap-bin-files");
  flags.foreign.acknowledge(1, no_effect, "--num-workers --data-cache-path");
  flags.section("Output");
  flags.add_switch("--tokens", options.tokens, "print the token ids of every sample, too");
}

void check(Flags& flags, DataOrderOptions& options) {
  const auto report = std::bind_front(&Flags::problem, &flags);
  resolve_data_flags(flags, options.data, options.batch, options.data_parallel_size);
  check_batches(options.batch, options.data_parallel_size, "", options.data.seq_length, report);
  if (!flags.was_given("--train-iters") && !flags.was_given("--train-samples"))
    flags.problem("--train-iters", "is required without --train-samples");
  if (options.data.paths.is_absent()) flags.problem("--data-path", "is required: prefixes of token files");
  check_data_options(options.data, report);
}

/// Returns {"sample":17,"dataset":0,"documents":[4,6],"offsets":[12,3]} and a newline; `with_tokens` adds "tokens".
std::string sample_line(const BlendedDataset& dataset, std::int64_t index, bool with_tokens) {
  const SampleSource source = dataset.describe(index);
  std::string out =
      cat("{\"sample\":", source.sample, ",\"dataset\":", source.dataset, ",\"documents\":[",
          join_numbers(source.documents, ','), "],\"offsets\":[", source.first_offset, ",", source.last_offset, "]");
  if (with_tokens) out += cat(",\"tokens\":[", join_numbers(dataset.read_tokens(index), ','), "]");
  return out + "}\n";
}

}  // namespace

int data_order(int argc, const char* const* argv) {
  DataOrderOptions options;
  Flags flags("mtl-data order", "print which tokens make each sample, in the order that a training run consumes them");
  add_flags(flags, options);
  flags.check([&] { check(flags, options); });
  SplitSources sources;
  const auto prepare = [&] {
    sources = read_split_sources(options.data.paths, std::bind_front(&Flags::problem, &flags));
  };
  const auto run = [&](Console& console) {
    const SampleWalk walk{.data = options.data,
                          .batch = options.batch,
                          .split = *enum_named<Split>(kSplitNames, options.dataset),
                          .seed = options.seed,
                          .data_parallel = options.data_parallel_size};
    std::optional<Heartbeat> ordering(std::in_place, console, "computing the order of the samples");
    for_each_sample(walk, sources, [&](const BlendedDataset& dataset, std::int64_t index) {
      ordering.reset();  // from here on, the output is the sign of life
      print_out(sample_line(dataset, index, options.tokens));
    });
  };
  return run_single_process(flags, argc, argv, run, prepare);
}

}  // namespace mtl
