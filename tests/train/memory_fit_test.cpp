// Memory fit: rejects runs that exceed memory or disks, and suggests changes that fit.
#include "train/memory_fit.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/scratch_file.h"
#include "device/cuda_device.h"
#include "engine/rank_plans.h"
#include "nn/model_params.h"
#include "run/run_plan.h"
#include "tests/error_of.h"
#include "tests/gpt_of_size.h"
#include "tests/scratch_folder.h"
#include "train/disk_fit.h"

using namespace mtl;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TrainOptions tiny_options() {
  TrainOptions options;
  options.architecture.num_layers = 4;
  options.architecture.hidden_size = 64;
  options.architecture.num_attention_heads = 4;
  options.architecture.max_position_embeddings = 128;
  options.data.seq_length = 128;
  options.batch.micro_batch_size = 8;
  options.batch.global_batch_size = 16;
  options.batch.train_iters = 100;
  options.optimizer.schedule.lr = 1e-3;
  options.threads = 1;
  return options;
}

RunStart fresh_start() {
  RunStart start;
  start.config = test::gpt_of_size({.vocab = 512, .layers = 4, .hidden = 64, .heads = 4, .positions = 128});
  return start;
}

std::uint64_t bytes_of(const TrainOptions& options) {
  return largest_plan(plan_run(options, fresh_start().config)).plan.total_bytes();
}

/// Returns the error message, or "" if the run fits.
std::string refusal(const TrainOptions& options, const HostRanks& host, std::vector<MemoryLimit> limits,
                    std::optional<MemoryLimit> gpu = {}) {
  return test::error_of([&] { check_memory(options, fresh_start(), host, {limits, gpu}); }, Exit::usage);
}

}  // namespace

TEST_CASE("memory: a run that fits to the byte is accepted, with one byte less refused") {
  const TrainOptions options = tiny_options();
  const std::uint64_t need = bytes_of(options);
  CHECK(refusal(options, {}, {}) == "");
  CHECK(refusal(options, {}, {{need, "MemAvailable"}}) == "");
  const std::string text = refusal(options, {}, {{100 * need, "MemAvailable"}, {need - 1, "the cgroup"}});
  CAPTURE(text);
  CHECK(test::contains(text, "is available (the cgroup); the largest part is activations, "));
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  CHECK(test::contains(text, "\n  --micro-batch-size 4: "));
  CHECK(test::contains(refusal(options, {}, {{need - 1, "MemAvailable"}, {need - 2, "least"}, {need - 1, "other"}}),
                       "is available (least); "));
}

TEST_CASE("memory: the overhead of a rank reduces the memory available to its plan") {
  const auto limits = subtract_overhead(
      {{1000 * kMiB, "free"}, {1000 * kMiB, "-d", true}, {1000 * kMiB, "-v", true, true}, {kMiB, "little"}}, 3, 2);
  REQUIRE(limits.size() == 4);
  CHECK(limits[0].bytes == (1000 - 3 * 48) * kMiB);
  CHECK(limits[1].bytes == (1000 - 48 - 2 * 8) * kMiB);
  CHECK(limits[2].bytes == (1000 - 48 - 2 * 72) * kMiB);
  CHECK(limits[3].bytes == 0);
  CHECK(limits[0].name == "free: 1000.0 MiB are free, and about 144.0 MiB are for libraries of 3 ranks");
  CHECK(limits[2].name == "-v: 1000.0 MiB are free, and about 192.0 MiB are for libraries and 2 more threads");
  CHECK(limits[3].name == "little: 1.0 MiB are free, and about 144.0 MiB are for libraries of 3 ranks");
}

TEST_CASE("memory: the threads of a rank are those that it starts") {
  using Options = TrainOptions;
  const std::pair<void (*)(Options&), int> cases[] = {
      {[](Options&) {}, 3},  // signals, and the next batches of training and of validation
      {[](Options& o) { o.threads = 4; }, 6},
      {[](Options& o) { o.batch.eval_iters = 0; }, 2},
      {[](Options& o) { o.batch.eval_iters = 1; }, 3},
      {[](Options& o) { o.checkpoint.save = "ck"; }, 4},
      {[](Options& o) { o.checkpoint.save = "ck", o.checkpoint.async_save = true; }, 5},
      {[](Options& o) { o.checkpoint.async_save = true; }, 3},
      {[](Options& o) { o.parallel.offload_optimizer = "DIR"; }, 5},
      {[](Options& o) { o.parallel.world = 2; }, 7},
  };
  for (const auto& [change, threads] : cases) {
    TrainOptions options = tiny_options();
    change(options);
    const auto world = static_cast<int>(options.parallel.world);
    const RankEnvironment launched{.rank = 0, .world = world, .local_rank = 0, .local_size = world, .launcher = ""};
    const MemoryLimit limit{.bytes = 0, .name = "ulimit", .is_per_process = true};
    const auto check = [&] { check_memory_fit(options, fresh_start(), launched, {limit}, {}); };
    CAPTURE(threads);
    CHECK(test::contains(test::error_of(check, Exit::usage), cat("for libraries and ", threads, " more threads)")));
  }
}

TEST_CASE("memory: the copy that --async-save writes counts, and a run that fits without it is suggested") {
  TrainOptions options = tiny_options();
  options.checkpoint.save = "ck";
  const std::uint64_t without = bytes_of(options);
  options.checkpoint.async_save = true;
  const std::uint64_t parameters = plan_run(options, fresh_start().config, 0).parameters;
  CHECK(bytes_of(options) - without == 12 * parameters);  // weights and two moments in fp32
  CHECK(refusal(options, {}, {{without + 12 * parameters, "MemAvailable"}}) == "");
  CHECK(test::contains(refusal(options, {}, {{without + 12 * parameters - 1, "MemAvailable"}}),
                       "\n  without --async-save: "));
  options.checkpoint.no_save_optim = true;
  CHECK(bytes_of(options) - without == 4 * parameters);
}

TEST_CASE("memory: each rank's cgroup is compared with what its own ranks need") {
  TrainOptions options = tiny_options();
  options.parallel.world = 2;
  const std::uint64_t each = bytes_of(options) + 48 * kMiB;  // with its libraries
  const auto refusal_on = [&](int rank, std::uint64_t bytes, const std::vector<std::string>& groups) {
    const RankEnvironment launched{.rank = rank, .world = 2, .local_rank = rank, .local_size = 2, .launcher = "mpirun"};
    const MemoryLimit limit{.bytes = bytes, .name = "the cgroup", .group = "b"};
    return test::error_of([&] { check_memory_fit(options, fresh_start(), launched, {limit}, groups); }, Exit::usage);
  };
  const std::vector<std::string> apart = {"a\nhost\n", "b\nhost\n"}, together = {"b\n", "a\nb\n"};
  CHECK(refusal_on(1, each, apart) == "");
  CHECK(test::contains(refusal_on(1, each - 1, apart), "not enough memory: rank 1 needs "));
  CHECK(refusal_on(0, 2 * each, together) == "");
  CHECK(
      test::contains(refusal_on(0, 2 * each - 1, together), "not enough memory: the run's 2 ranks on this host need "));
  CHECK(refusal_on(1, 2 * each - 1, together) == "");  // rank 0 has refused it
  CHECK(refusal_on(0, each, {}) == "");                // before the ranks know each other
  CHECK(test::contains(refusal_on(0, each - 1, {}), "not enough memory: rank 0 needs "));
  const MemoryLimit own{.bytes = 0, .name = "ulimit", .is_per_process = true};
  const RankEnvironment second{.rank = 1, .world = 2, .local_rank = 1, .local_size = 2, .launcher = "mpirun"};
  const auto check = [&] { check_memory_fit(options, fresh_start(), second, {own}, together); };
  CHECK(test::contains(test::error_of(check, Exit::usage), "not enough memory: rank 1 needs "));
  CHECK(memory_groups({own, {.bytes = 0, .name = "x", .group = "b"}}) == "b\n");
}

TEST_CASE("memory: the suggestions fit, and change no more than they must") {
  TrainOptions options = tiny_options();
  options.batch.micro_batch_size = 2;
  const std::uint64_t two = bytes_of(options);
  options.batch.micro_batch_size = 8;
  const std::string text = refusal(options, {}, {{two, "MemAvailable"}});
  CAPTURE(text);
  CHECK(test::contains(text, cat("\n  --micro-batch-size 2: ", human_bytes(static_cast<double>(two)), " per rank")));
  CHECK_FALSE(test::contains(text, "--micro-batch-size 4"));
}

TEST_CASE("memory: on a GPU, the plan's device memory is compared with the GPU's, its pinned memory with the host's") {
  TrainOptions options = tiny_options();
  options.device = Device::cuda;
  const MemoryPlan plan = largest_plan(plan_run(options, fresh_start().config)).plan;
  const std::uint64_t gpu = plan.total_bytes(Space::device), host = plan.total_bytes(Space::host);
  REQUIRE(gpu + host == plan.total_bytes());
  REQUIRE(host > 0);  // batches
  const MemoryLimit enough{.bytes = gpu, .name = "the GPU", .is_per_process = true};
  const MemoryLimit little{.bytes = gpu - 1, .name = "the GPU", .is_per_process = true};
  CHECK(refusal(options, {}, {{host, "MemAvailable"}}, enough) == "");
  CHECK(test::contains(refusal(options, {}, {{host - 1, "MemAvailable"}}, enough),
                       "(MemAvailable); the largest part is batches"));
  const std::string text = refusal(options, {}, {}, little);
  CAPTURE(text);
  CHECK(test::contains(text, " on a GPU, but only "));
  // The largest part must be in GPU memory, not on the host. It is scratch if CUDA operators are compiled in, else
  // activations.
  const bool is_scratch = test::contains(text, "(the GPU); the largest part is scratch, ");
  CHECK((is_scratch || test::contains(text, "(the GPU); the largest part is activations, ")));
  CHECK(test::contains(text, "\n  --micro-batch-size 4: "));
  CHECK(test::contains(text, "\n  --recompute-granularity selective: "));
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
}

TEST_CASE("memory: where no smaller batch or recomputation helps a GPU, its optimizer's state goes to the host") {
  TrainOptions options = tiny_options();
  options.device = Device::cuda;
  options.batch.micro_batch_size = options.batch.global_batch_size.emplace(1);
  RunStart start;
  start.config = test::gpt_of_size({.vocab = 512, .layers = 24, .hidden = 512, .heads = 8, .positions = 128});
  const MemoryPlan plan = largest_plan(plan_run(options, start.config)).plan;
  const MemoryLimit gpu{
      .bytes = plan.total_bytes(Space::device) - 400 * kMiB, .name = "the GPU", .is_per_process = true};
  const std::string text = test::error_of([&] { check_memory(options, start, {}, {{}, gpu}); }, Exit::usage);
  CAPTURE(text);
  CHECK(test::contains(text, ". These fit:\n  --optimizer-cpu-offload: "));
}

TEST_CASE("memory: a suggestion is a run that mtl-train accepts") {
  TrainOptions options = tiny_options();
  options.device = Device::cuda;
  options.batch.micro_batch_size = 1;
  options.parallel.world = options.parallel.pipeline = 2;
  RunStart start;
  start.config = test::gpt_of_size({.vocab = 512, .layers = 12, .hidden = 64, .heads = 4, .positions = 128});
  TrainOptions offloaded = options;
  offloaded.parallel.cpu_offloading = true;
  const auto advice = [&] {
    const auto plan = [&](const TrainOptions& of) { return largest_plan(plan_run(of, start.config)).plan; };
    const std::uint64_t bytes = plan(offloaded).total_bytes(Space::device);
    REQUIRE(bytes < plan(options).total_bytes(Space::device));
    const MemoryLimit gpu{.bytes = bytes, .name = "the GPU", .is_per_process = true};
    return test::error_of([&] { check_memory(options, start, {.first = 0, .count = 2}, {{}, gpu}); }, Exit::usage);
  };
  CHECK(test::contains(advice(), "\n  --cpu-offloading: "));
  options.parallel.pipeline_split = offloaded.parallel.pipeline_split = "balanced";
  CHECK_FALSE(test::contains(advice(), "\n  --cpu-offloading"));
  CHECK(test::contains(advice(), "\n  --pipeline-model-parallel-size 1 --zero-stage 3 --cpu-offloading: "));
}

TEST_CASE("memory: on the CPU, or instead of the host's memory, the optimizer's state goes to files") {
  TrainOptions options = tiny_options();
  options.batch.micro_batch_size = options.batch.global_batch_size.emplace(1);
  RunStart start;
  start.config = test::gpt_of_size({.vocab = 512, .layers = 24, .hidden = 512, .heads = 8, .positions = 128});
  const auto plan = [&] { return largest_plan(plan_run(options, start.config)).plan; };
  const std::uint64_t in_memory = plan().total_bytes();
  auto advice = [&](const FitLimits& limits) {
    return test::error_of([&] { check_memory(options, start, {}, limits); }, Exit::usage);
  };
  const std::uint64_t moments = 8 * static_cast<std::uint64_t>(parameter_count(start.config));
  const FitLimits little{{{.bytes = in_memory - moments / 2, .name = "MemAvailable"}}, {}};
  CHECK(test::contains(advice(little), cat(". These fit:\n  --offload-optimizer DIR: ")));
  options.parallel.offload_optimizer = "DIR";
  CHECK(advice(little) == "");
  CHECK(plan().total_bytes(Space::file) ==
        plan().buffer_bytes() - plan().total_bytes() + plan().bytes(Category::snapshot));
  CHECK(plan().total_bytes(Space::file) >= moments);
  // The files' addresses count only if address space is limited.
  MemoryLimit per_process{.bytes = plan().total_bytes(), .name = "ulimit", .is_per_process = true};
  CHECK(advice({{per_process}, {}}) == "");
  per_process.counts_reservations = true;
  CHECK(advice({{per_process}, {}}) != "");
  per_process.bytes += plan().total_bytes(Space::file);
  CHECK(advice({{per_process}, {}}) == "");

  options.parallel.offload_optimizer = "";
  options.parallel.optimizer_cpu_offload = true;
  options.device = Device::cuda;
  const MemoryLimit gpu{.bytes = plan().total_bytes(Space::device), .name = "the GPU", .is_per_process = true};
  const MemoryLimit host{.bytes = plan().total_bytes(Space::host) - 1, .name = "MemAvailable"};
  CHECK(test::contains(advice({{host}, gpu}), "\n  --offload-optimizer DIR without --optimizer-cpu-offload: "));
}

TEST_CASE("memory: a part of a GPU is reserved for CUDA and its libraries") {
  const MemoryLimit limit = gpu_limit(80);
  CHECK(limit.bytes == (std::uint64_t{80} << 30) - kCudaContextBytes - kCudaLibraryBytes);
  CHECK(gpu_limit(0.5).bytes == 0);
  const MemoryLimit free = gpu_limit({.free = std::size_t{12} << 30, .total = std::size_t{80} << 30}, "rank 3's GPU");
  CHECK(free.bytes == (std::uint64_t{12} << 30) - kCudaLibraryBytes);
  CHECK(free.name == "12.0 GiB of the 80.0 GiB of rank 3's GPU are free, and about 256.0 MiB are for CUDA's libraries");
}

TEST_CASE("memory: ranks of one host share every limit that is not per process") {
  TrainOptions options = tiny_options();
  options.parallel.world = 2;
  const std::uint64_t each = bytes_of(options);
  const HostRanks both{.first = 0, .count = 2}, alone{.first = 1, .count = 1};
  CHECK(refusal(options, both, {{2 * each, "MemAvailable"}}) == "");
  CHECK(refusal(options, both, {{.bytes = each, .name = "ulimit", .is_per_process = true}}) == "");
  CHECK(refusal(options, alone, {{each, "MemAvailable"}}) == "");
  const std::string text = refusal(options, both, {{2 * each - 1, "MemAvailable"}});
  CAPTURE(text);
  CHECK(test::contains(text, "the run's 2 ranks on this host need "));
  CHECK(test::contains(text, "\n  --use-distributed-optimizer: "));
  CHECK(test::contains(refusal(options, both, {{.bytes = each - 1, .name = "ulimit", .is_per_process = true}}),
                       "the run needs "));
}

TEST_CASE("memory: a smaller model is suggested for a new run, and the lack of any suggestion is reported") {
  const TrainOptions options = tiny_options();
  CHECK(test::contains(refusal(options, {}, {{3 * kMiB, "MemAvailable"}}), "--num-layers "));
  const std::string text = refusal(options, {}, {{1, "MemAvailable"}});
  CHECK(test::contains(text, "No smaller setting was found that fits: "));
  CHECK_FALSE(test::contains(text, "\n"));
}

TEST_CASE("memory: the need of a host's ranks, and the larger one of two hosts") {
  TrainOptions options = tiny_options();
  options.parallel.world = options.parallel.pipeline = 4;
  options.parallel.offload_optimizer = "DIR";
  const std::vector<RankPlan> plans = plan_run(options, fresh_start().config);
  const auto by_rank = plans_by_rank(plans);
  REQUIRE(by_rank.size() == 4);
  const auto host = [&](int rank) -> std::uint64_t { return by_rank[rank]->total_bytes(Space::host); };
  const auto files = [&](int rank) -> std::uint64_t { return by_rank[rank]->total_bytes(Space::file); };
  for (const auto& [first, count] : {std::pair(0, 1), std::pair(1, 2), std::pair(3, 1), std::pair(2, 9)}) {
    const MemoryNeed need = MemoryNeed::of(by_rank, {.first = first, .count = count});
    MemoryNeed expected;
    for (int rank = first; rank < std::min(4, first + count); ++rank) {
      expected.host_bytes += host(rank), expected.host_file_bytes += files(rank);
      expected.rank_bytes = std::max(expected.rank_bytes, host(rank));
      expected.rank_file_bytes = std::max(expected.rank_file_bytes, files(rank));
    }
    CHECK(need.host_bytes == expected.host_bytes);
    CHECK(need.rank_bytes == expected.rank_bytes);
    CHECK(need.host_file_bytes == expected.host_file_bytes);
    CHECK(need.rank_file_bytes == expected.rank_file_bytes);
    CHECK(need.gpu_bytes == 0);
  }
  CHECK(files(0) > 0);
  MemoryNeed need{.rank_bytes = 1 * kMiB, .host_bytes = 9 * kMiB, .gpu_bytes = 3 * kMiB, .host_file_bytes = 5};
  need.enlarge({.rank_bytes = 2 * kMiB, .host_bytes = 8 * kMiB, .gpu_bytes = 4 * kMiB, .rank_file_bytes = kMiB});
  CHECK(need.text() == "4.0 MiB of GPU memory, 2.0 MiB of host memory, 1.0 MiB in files per rank");
  CHECK(need.host_bytes == 9 * kMiB);
  CHECK(need.host_file_bytes == 5);
  CHECK(need.fits({{{9 * kMiB, "host"}}, MemoryLimit{4 * kMiB, "GPU"}}));
  CHECK_FALSE(need.fits({{{9 * kMiB - 1, "host"}}, {}}));
  CHECK_FALSE(need.fits({{{9 * kMiB, "host"}}, MemoryLimit{4 * kMiB - 1, "GPU"}}));
  need.gpu_bytes = need.rank_file_bytes = 0;
  CHECK(need.text() == "2.0 MiB per rank");
  const auto ranks = [](const RankEnvironment& launched) {
    const HostRanks found = HostRanks::of(launched);
    return std::pair(found.first, found.count);
  };
  CHECK(ranks({.rank = 5, .world = 8, .local_rank = 1, .local_size = 4, .launcher = ""}) == std::pair(4, 4));
  CHECK(ranks({.rank = 0, .world = 8, .local_rank = 1, .local_size = 0, .launcher = ""}) == std::pair(0, 1));
}

TEST_CASE("space: the files of --offload-optimizer need their folder, and room beside a checkpoint on one disk") {
  const test::ScratchFolder folder, other;
  constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 60;
  TrainOptions options = tiny_options();
  options.checkpoint.save = folder.path() + "/new/ck";
  const auto save_with = [&](const std::string& state_folder, std::uint64_t state_bytes) {
    options.parallel.offload_optimizer = state_folder;
    return test::error_of([&] { check_save_folder(options, fresh_start().config, 0, state_bytes); }, Exit::io);
  };
  CHECK(save_with(other.path(), 0) == "");
  CHECK(test::contains(save_with(other.path(), kTooMuch), "/new/ck: a checkpoint takes "));
  CHECK(save_with("/proc", kTooMuch) == "");                 // another disk
  CHECK(save_with(other.path() + "/none", kTooMuch) == "");  // its own error comes later
  const auto offload_to = [](const std::string& path, std::uint64_t bytes) {
    return test::error_of([&] { check_offload_folder(path, bytes); }, Exit::io);
  };
  CHECK(offload_to(folder.path(), 1) == "");
  CHECK(test::contains(offload_to(folder.path(), kTooMuch), "the files of this host's ranks take "));
  CHECK(offload_to(folder.path() + "/none", 1) != "");
  CHECK(fs::is_empty(folder.path()));
  for (const std::string& path : {folder.path(), std::string("/dev/shm")}) {
    if (!is_directory(path)) continue;
    CAPTURE(path);
    const std::string warning = check_offload_folder(path, 1);
    CHECK((warning.find("is in memory (tmpfs)") != std::string::npos) == is_in_memory(path));
    CHECK(warning.empty() != is_in_memory(path));
  }
}

TEST_CASE("space: future checkpoints, less those that --keep-last replaces") {
  TrainOptions options = tiny_options();
  const GptConfig config = fresh_start().config;
  auto count = [&](std::int64_t iteration, std::int64_t present) {
    return space_need(options, config, iteration, present).checkpoints;
  };
  CHECK(space_need(options, config, 0, 0).checkpoint_bytes == 12 * static_cast<std::uint64_t>(parameter_count(config)));
  options.checkpoint.no_save_optim = true;
  CHECK(space_need(options, config, 0, 0).checkpoint_bytes == 4 * static_cast<std::uint64_t>(parameter_count(config)));
  options.checkpoint.no_save_optim = false;
  CHECK(count(0, 0) == 1);
  CHECK(count(100, 5) == 0);
  CHECK(count(101, 5) == 0);
  options.checkpoint.save_interval = 0;
  CHECK(count(99, 5) == 1);
  options.checkpoint.save_interval = 1;
  CHECK(count(0, 0) == 100);
  options.checkpoint.save_interval = 30;  // at 30, 60, 90 and 100
  CHECK(count(100, 0) == 0);
  CHECK(count(0, 0) == 4);
  CHECK(count(60, 2) == 2);
  options.checkpoint.save_interval = 25;
  CHECK(count(0, 0) == 4);
  options.checkpoint.keep_last = 2;
  CHECK(count(0, 0) == 3);
  CHECK(count(50, 2) == 1);
  CHECK(count(75, 0) == 1);
  options.checkpoint.keep_best = true;  // one more to keep, and a save at each validation as long as the loss falls
  CHECK(count(0, 0) == 4);
  options.checkpoint.keep_last = 0;
  options.batch.eval_interval = 40;
  CHECK(count(0, 0) == 4 + 2);
  options.batch.eval_interval = 25;
  CHECK(count(0, 0) == 4);
  options.batch.eval_interval = INT64_MAX;
  CHECK(count(0, 0) == 4);
  options.batch.eval_interval = 0;
  CHECK(count(0, 0) == 4);
  options.checkpoint.keep_best = false;
  options.checkpoint.keep_last = 2;
  options.checkpoint.save_interval = 10;
  options.checkpoint.retain_interval = 50;  // with the newest two and that being written: 50, 100
  CHECK(count(0, 0) == 5);
  CHECK(count(50, 3) == 2);
  options.checkpoint.keep_last = 0;
  CHECK(count(0, 0) == 5);
  options.checkpoint.non_persistent_interval = 5;  // besides, one of them
  CHECK(count(0, 0) == 6);
  CHECK(count(90, 4) == 1 + 1);
  options.checkpoint.non_persistent_interval = 20;  // none
  CHECK(count(0, 0) == 5);
  options.checkpoint.retain_interval.reset();
  options.checkpoint.save_interval.reset();  // two while the only other one is written
  CHECK(count(0, 0) == 1 + 2);
}

TEST_CASE("space: a shard that exceeds the limit of file sizes is refused, unless the run saves nothing more") {
  TrainOptions options = tiny_options();
  options.checkpoint.save = "ck";
  const GptConfig config = fresh_start().config;
  const rlim_t bytes = 12 * static_cast<rlim_t>(parameter_count(config));
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const auto refusal_with = [&](rlim_t most, std::int64_t iteration) {
    const rlimit small{.rlim_cur = most, .rlim_max = limit.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::string text = test::error_of([&] { check_shard_size(options, config, iteration, 0); }, Exit::io);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return text;
  };
  CHECK(refusal_with(bytes, 0) == "");
  CHECK(test::contains(refusal_with(bytes - 1, 0), "--save ck: shard_00000.safetensors of a checkpoint takes "));
  CHECK(refusal_with(bytes - 1, 100) == "");
  options.checkpoint.no_save_optim = true;
  CHECK(refusal_with(bytes / 3, 0) == "");
  options.checkpoint.no_save_optim = false;
  options.parallel.world = 2;
  options.parallel.distributed_optimizer = true;
  CHECK(refusal_with(bytes - 1, 0) == "");  // each rank writes half
  options.checkpoint.save = "";
  CHECK(refusal_with(1, 0) == "");
}

TEST_CASE("space: no room for a single checkpoint is an error, for some but not all a warning") {
  const SpaceNeed need{.checkpoint_bytes = 10 * kMiB, .checkpoints = 3};
  CHECK(check_space(need, 30 * kMiB, "--save ck") == "");
  CHECK(test::contains(check_space(need, 30 * kMiB - 1, "--save ck"), "adds 3 checkpoints of 10.0 MiB"));
  CHECK(test::contains(check_space(need, 29 * kMiB, "--save ck"), "enough for 2; "));
  CHECK_THROWS_WITH(check_space(need, 10 * kMiB - 1, "--save ck"),
                    doctest::Contains("--save ck: a checkpoint takes 10.0 MiB, but only 10.0 MiB are free; "));
  CHECK(check_space({.checkpoint_bytes = 10 * kMiB, .checkpoints = 0}, 0, "--save ck") == "");
}
