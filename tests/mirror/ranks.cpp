// Ranks on emulated GPUs with an emulated NCCL: results have the same bits as with cpu ranks over MPI. Run by mpirun
// with 2 and 4 ranks. rank_faults.cpp has tests of the same program.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "device/copy.h"
#include "device/graph.h"
#include "device/memory.h"
#include "tests/mirror/nccl.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/rank_runs.h"
#include "tests/mirror/scale.h"

using namespace mtl;
using namespace mtl::test;

namespace {

// --grid=TENSORxPIPELINE, with v for zb-v and s for sharded gradients of 2 ranks, or TENSORxPIPELINExCONTEXT
std::string chosen_grid;

/// Returns a seed that differs by round and rank, so that ranks defer their commands in different ways.
std::uint64_t seed_of(int round) { return static_cast<std::uint64_t>(100 * round + session->rank()); }

void make_sequence_parallel(TrainOptions& options) { options.parallel.sequence_parallel = true; }
void make_zero_without_overlap(TrainOptions& options) { options.parallel.distributed_optimizer = true; }
void make_zero(TrainOptions& options) {
  options.parallel.distributed_optimizer = options.parallel.overlap_grad_reduce = true;
  options.parallel.overlap_param_gather = true;
  options.parallel.bucket_elements = 3000;
}
void make_overlap(TrainOptions& options) {
  options.parallel.overlap_grad_reduce = true;
  options.parallel.bucket_elements = 2000;
}
/// Gradients leave their ring after every micro-batch.
void make_zero_2(TrainOptions& options) {
  make_zero(options);
  options.parallel.zero_stage = 2;
}
void make_zero_2_without_overlap(TrainOptions& options) {
  options.parallel.distributed_optimizer = true;
  options.parallel.zero_stage = 2;
}
void make_zero_3(TrainOptions& options) {
  make_zero(options);
  options.parallel.zero_stage = 3;
}
/// The values that a forward gathered last are not those that its backward needs first.
void make_zero_3_gpipe(TrainOptions& options) {
  make_zero_3(options);
  options.parallel.schedule = "gpipe";
}
/// The first update destroys the model. Later steps are repeated, to name non-finite gradients.
bool is_broken(const TrainOptions& options) { return options.optimizer.schedule.lr > 1; }
void make_zero_2_broken(TrainOptions& options) {
  make_zero_2_without_overlap(options);
  options.optimizer.schedule.lr = 1e30;
  options.checks.nonfinite = false;
}
void make_zero_3_broken(TrainOptions& options) {
  make_zero_3(options);
  options.optimizer.schedule.lr = 1e30;
  options.checks.nonfinite = false;
}
void make_bf16_zero(TrainOptions& options) {
  make_zero(options);
  options.precision.bf16 = true;
}
void make_zero_offload(TrainOptions& options) {
  make_zero_without_overlap(options);
  options.precision.bf16 = true;
  options.parallel.optimizer_cpu_offload = true;  // on GPUs; it has no effect on CPUs
}
void make_zero_2_offload(TrainOptions& options) {
  make_zero_offload(options);
  options.parallel.zero_stage = 2;
}
void make_activation_offload(TrainOptions& options) {
  options.architecture.num_layers = 6;
  options.parallel.cpu_offloading = true;
}
/// Two stages send each other both kinds of messages, in groups of three micro-batches and of two.
void make_chunks(TrainOptions& options) {
  options.parallel.virtual_stages = 2;
  options.parallel.group = 3;
}
void make_chunks_zero_2(TrainOptions& options) {
  options.parallel.virtual_stages = 2;
  make_zero_2_without_overlap(options);
}
/// Weight gradients are actions, and graphs, of their own.
void make_zero_bubble(TrainOptions& options) { options.parallel.schedule = "zb-h1"; }
/// Stages send each other both kinds of messages, and copy them between their own chunks. Small steps must fit the
/// memory of large ones.
void make_vee(TrainOptions& options) {
  options.parallel.schedule = "zb-v";
  options.batch.rampup = {"4", "4", "16"};
  options.batch.train_iters.reset();
  options.batch.train_samples = 60;
}
/// The first stage reduces both gradients of the tied embedding, and adds them.
void make_vee_zero(TrainOptions& options) {
  options.parallel.schedule = "zb-v";
  make_zero(options);
}
/// Keys and values travel around the ring.
void make_ring(TrainOptions& options) { options.parallel.cp_comm_type = "p2p"; }
void make_ring_zero(TrainOptions& options) {
  make_ring(options);
  make_bf16_zero(options);
}
/// Loss scales overflow repeatedly. All ranks must drop and repeat the same steps.
void make_fp16(TrainOptions& options) {
  options.precision.fp16 = true;
  options.precision.initial_loss_scale = 1 << 24;
  options.precision.loss_scale_window = 2;
  options.precision.hysteresis = 1;
  options.batch.train_iters = 14;
  options.batch.eval_interval = 100;
}
void make_fp16_zero(TrainOptions& options) {
  make_fp16(options);
  make_zero(options);
}

/// The reduction is a part of its own, and each step is computed twice.
void make_zero_3_repeated(TrainOptions& options) {
  make_zero_3(options);
  options.checks.rerun_mode = "report_determinism_stats";
}
void make_zero_2_repeated(TrainOptions& options) {
  make_zero_2_offload(options);
  options.checks.rerun_mode = "report_determinism_stats";
}
void make_vee_checked(TrainOptions& options) {
  make_vee(options);
  options.checks.rerun_mode = "validate_results";
}

constexpr LayoutCase kLayouts[] = {
    // name, ranks, tensor, pipeline, make
    {"dp", 2, 1, 1, make_overlap},
    {"zero", 2, 1, 1, make_zero},
    {"zero-2", 2, 1, 1, make_zero_2},
    {"zero-3", 2, 1, 1, make_zero_3},
    {"zero-2-no-overlap", 2, 1, 1, make_zero_2_without_overlap},
    {"zero-3-gpipe", 2, 1, 1, make_zero_3_gpipe},
    {"zero-2-broken", 2, 1, 1, make_zero_2_broken},
    {"zero-3-broken", 2, 1, 1, make_zero_3_broken},
    {"zero-bf16", 2, 1, 1, make_bf16_zero},
    {"zero-no-overlap", 2, 1, 1, make_zero_without_overlap},
    {"zero-fp16", 2, 1, 1, make_fp16_zero},
    {"zero-offload", 2, 1, 1, make_zero_offload},
    {"zero-2-offload", 2, 1, 1, make_zero_2_offload},
    {"zero-3-repeated", 2, 1, 1, make_zero_3_repeated},
    {"zero-2-repeated", 2, 1, 1, make_zero_2_repeated},
    {"tp2", 2, 2, 1, make_plain},
    {"tp2-sp", 2, 2, 1, make_sequence_parallel},
    {"pp2", 2, 1, 2, make_plain},
    {"pp2-fp16", 2, 1, 2, make_fp16},
    {"pp2-offload", 2, 1, 2, make_activation_offload},
    {"pp2-chunks", 2, 1, 2, make_chunks},
    {"pp2-zb", 2, 1, 2, make_zero_bubble},
    {"pp2-v", 2, 1, 2, make_vee},
    {"pp2-v-checked", 2, 1, 2, make_vee_checked},
    {"cp2", 2, 1, 1, make_plain, 2},
    {"cp2-p2p", 2, 1, 1, make_ring, 2},
    {"cp2-p2p-dp2-zero-bf16", 4, 1, 1, make_ring_zero, 2},
    {"zero", 4, 1, 1, make_zero},
    {"tp2-zero", 4, 2, 1, make_zero},
    {"tp2-zero-3", 4, 2, 1, make_zero_3},
    {"tp2-sp-pp2", 4, 2, 2, make_sequence_parallel},
    {"pp4", 4, 1, 4, make_plain},
    {"pp2-zero", 4, 1, 2, make_zero},
    {"pp2-zero-2", 4, 1, 2, make_zero_2},
    {"pp2-zero-2-no-overlap", 4, 1, 2, make_zero_2_without_overlap},
    {"pp2-chunks-zero-2", 4, 1, 2, make_chunks_zero_2},
    {"pp2-v-zero", 4, 1, 2, make_vee_zero},
};

/// Runs training on all ranks, in these groups or in new ones. Returns the logged metrics on every rank. If the run is
/// broken, the first rank also returns the lines that name non-finite gradients.
std::vector<std::string> metrics_of(const TrainOptions& options, const ProcessGroups* groups = nullptr) {
  const auto train = [&] { CHECK(run_in(groups != nullptr ? *groups : new_groups(options), options) == Exit::ok); };
  std::vector<std::string> names;
  if (is_broken(options) && session->rank() == 0) {
    for (const std::string& line : split(stderr_of(train), '\n'))
      if (line.starts_with("  rank ")) names.push_back(line);
    CHECK(names.size() == 2 * 4);  // for each rank and each step after the first
  } else {
    train();
  }
  session->barrier();
  std::vector<std::string> out = metrics_in(options.logging.log_jsonl);
  out.insert(out.end(), names.begin(), names.end());
  return out;
}

}  // namespace

TEST_CASE("communication waits for earlier operators, operators for communication, and the host for neither") {
  const std::int64_t part = 1000, size = session->world();
  auto group = session->gpu_group(all_ranks(), "all");
  for (int round : {0, 1, 2, 3}) {
    mirror::Deferral deferral(seed_of(round));
    Stream stream(Device::cuda);
    Buffer memory(Device::cuda, static_cast<std::size_t>(4 * part * (3 * size + 1)));
    const Tensor whole = memory.tensor(DType::f32, {size * part});
    const Tensor sum = memory.tensor(DType::f32, {part}, static_cast<std::size_t>(4 * part * size));
    const Tensor all = memory.tensor(DType::f32, {size * part}, static_cast<std::size_t>(4 * part * (size + 1)));
    std::vector<float> contribution(static_cast<std::size_t>(size * part));
    for (std::int64_t i = 0; i < size * part; ++i) contribution[i] = static_cast<float>(i * (session->rank() + 1));
    for (int repeat = 0; repeat < 3; ++repeat) {
      copy_from_host(stream, whole, contribution);
      group->reduce_scatter(stream, sum, whole).wait(stream);
      scale(stream, sum, 2);
      group->all_gather(stream, all, sum).wait(stream);
      group->all_reduce(stream, all).wait(stream);
      group->broadcast(stream, all, 1).wait(stream);
    }
    const std::vector<float> found = host_copy<float>(stream, all);
    const auto ranks = static_cast<float>(size * (size + 1) / 2);
    for (std::int64_t i = 0; i < size * part; ++i)
      REQUIRE(found[i] == static_cast<float>(2 * size) * ranks * static_cast<float>(i));
  }
}

TEST_CASE("messages in both directions pass each other, and each direction keeps its order") {
  const int size = session->world(), rank = session->rank(), next = (rank + 1) % size,
            previous = (rank + size - 1) % size;
  auto group = session->gpu_group(all_ranks(), "pipeline", MessagePaths::ring);
  for (int round : {0, 1, 2}) {
    mirror::Deferral deferral(seed_of(round));
    Stream stream(Device::cuda);
    Buffer memory(Device::cuda, 4096);
    auto place = [&](std::size_t i) { return memory.tensor(DType::f32, {8}, 64 * i); };
    // Receives start first, and wait for the peer while this rank sends.
    std::vector<Work> works;
    for (std::size_t i = 0; i < 4; ++i) {
      works.push_back(group->receive(stream, place(8 + i), previous, Channel::activations));
      works.push_back(group->receive(stream, place(12 + i), next, Channel::gradients));
    }
    for (std::size_t i = 0; i < 4; ++i) {
      copy_from_host(stream, place(i), std::vector<float>(8, static_cast<float>(100 * rank + static_cast<int>(i))));
      works.push_back(group->send(stream, place(i), next, Channel::activations));
    }
    for (std::size_t i = 0; i < 4; ++i) works.push_back(group->send(stream, place(i), previous, Channel::gradients));
    for (const Work& work : works) work.wait(stream);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto sent_by = [&](int by) { return static_cast<float>(100 * by + static_cast<int>(i)); };
      CHECK(host_copy<float>(stream, place(8 + i))[7] == sent_by(previous));
      CHECK(host_copy<float>(stream, place(12 + i))[0] == sent_by(next));
    }
  }
  Stream stream(Device::cuda);
  Buffer memory(Device::cuda, 64);
  if (size == 4)
    CHECK_THROWS(group->send(stream, memory.tensor(DType::f32, {1}), (rank + 2) % 4, Channel::activations));
  auto chain = session->gpu_group(all_ranks(), "chain", MessagePaths::chain);
  if (rank == size - 1) CHECK_THROWS(chain->send(stream, memory.tensor(DType::f32, {1}), 0, Channel::activations));
}

TEST_CASE("a captured operation runs with each launch of its graph") {
  auto group = session->gpu_group(all_ranks(), "captured");
  Stream stream(Device::cuda);
  Buffer memory(Device::cuda, 64);
  const Tensor sum = memory.tensor(DType::f32, {2});
  copy_from_host(stream, sum, std::vector<float>{1, 2});
  Graph graph;
  graph.capture(stream, [&] {
    scale(stream, sum, 0.5);
    group->all_reduce(stream, sum).wait(stream);
  });
  for (int launch = 0; launch < 3; ++launch) group->supervise(stream, [&] { graph.launch(stream); });
  const auto factor = static_cast<float>(std::pow(0.5 * session->world(), 3));
  CHECK(host_copy<float>(stream, sum) == std::vector<float>{factor, 2 * factor});
}

/// Counts the host's calls during a run with `steps` steps and no validations.
mirror::QueueCounts counts_of(const LayoutCase& layout, const SharedFolder& folder, std::int64_t steps) {
  TrainOptions options = options_of(layout, Device::cuda, folder, cat("steps", steps));
  options.batch.train_iters = steps;
  options.batch.train_samples.reset();
  options.batch.rampup.clear();
  options.batch.eval_iters = 0;
  const mirror::Deferral deferral(seed_of(static_cast<int>(steps)));
  const mirror::QueueCounts before = mirror::queue_counts();
  metrics_of(options);
  const mirror::QueueCounts after = mirror::queue_counts();
  return {.graphs = after.graphs - before.graphs,
          .commands = after.commands - before.commands,
          .waits = after.waits - before.waits,
          .drains = after.drains - before.drains};
}

/// Checks that the host waits three times per step: for the copies from the input and batch buffers used two steps ago,
/// and for the previous step's report. Meanwhile, the device has the current step's commands.
void check_waits(const LayoutCase& layout, const SharedFolder& folder) {
  const mirror::QueueCounts few = counts_of(layout, folder, 4), many = counts_of(layout, folder, 6);
  CHECK(few.waits >= 4 * 2);
  CHECK(many.waits - few.waits == 2 * 3);
  CHECK(many.drains == few.drains);
  // Four micro-batches and the update: each part of a step is a graph, unless it waits for the last update.
  if (layout.make == make_overlap || layout.make == make_zero_2_without_overlap || layout.make == make_zero_3)
    CHECK(many.graphs - few.graphs == 2 * (4 + 1));
  if (layout.make == make_zero_3_gpipe) CHECK(many.graphs - few.graphs == 2 * (4 * 2 + 1));
  if (layout.make == make_zero_2) CHECK(many.graphs - few.graphs == 2 * 3);
}

/// Runs training on the emulated GPUs in several ways. Returns each run's metrics.
std::vector<std::vector<std::string>> metrics_on_gpus(const LayoutCase& layout, const SharedFolder& folder) {
  const std::int64_t operations = mirror::nccl_counts().operations, graphs = mirror::queue_counts().graphs;
  std::vector<std::vector<std::string>> found = {metrics_of(options_of(layout, Device::cuda, folder, "cuda"))};
  CHECK(mirror::nccl_counts().operations > operations + 5);
  const bool has_ring = layout.make == make_ring || layout.make == make_ring_zero;  // messages within parts
  const bool delays_messages = layout.make == make_zero_2 && layout.pipeline > 1;
  CHECK((mirror::queue_counts().graphs > graphs) == (!delays_messages && !has_ring));
  CHECK(mirror::nccl_counts().registered == 0);  // all memory is deregistered
  for (int round : {1, 2}) {
    mirror::Deferral deferral(seed_of(round));
    TrainOptions options = options_of(layout, Device::cuda, folder, cat("deferred", round));
    options.cuda_graphs = round == 1;
    found.push_back(metrics_of(options));
  }
  // Two ranks enqueue what four do.
  const TrainOptions options = options_of(layout, Device::cuda, folder, "");
  if (layout.ranks == 2 && !options.precision.fp16 && !is_broken(options) && !options.takes_digests())
    check_waits(layout, folder);
  return found;
}

// Each process runs the layouts of one grid. The cpu runs come last and in the same groups, because groups on the cpu
// keep buffers that other runs have not planned.
TEST_CASE("layouts: runs have the bits of ranks on the cpu" * doctest::skip()) {
  SharedFolder folder;
  if (session->rank() == 0) write_data(folder / "data");
  session->barrier();
  std::vector<LayoutCase> layouts;
  std::copy_if(std::begin(kLayouts), std::end(kLayouts), std::back_inserter(layouts), [](const LayoutCase& layout) {
    const std::string_view name = layout.name;
    const char* vee = name.starts_with("pp2-v") ? "v" : "";  // its groups are others
    const char* sharded = name.starts_with("zero-2") || name.starts_with("zero-3") ? "s" : "";
    std::string grid = cat(layout.tensor, "x", layout.pipeline, vee, sharded);
    if (layout.context > 1) grid += cat("x", layout.context);
    return layout.ranks == session->world() && grid == chosen_grid;
  });
  REQUIRE(!layouts.empty());
  std::vector<std::vector<std::vector<std::string>>> found;
  for (const LayoutCase& layout : layouts) {
    const std::string name = layout.name;
    CAPTURE(name);
    found.push_back(metrics_on_gpus(layout, folder));
  }
  std::optional<ProcessGroups> groups;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const std::string name = layouts[i].name;
    CAPTURE(name);
    const TrainOptions options = options_of(layouts[i], Device::cpu, folder, "cpu");
    if (!groups) groups = new_groups(options);
    const std::vector<std::string> expected = metrics_of(options, &*groups);
    CHECK(expected.size() >= 5);
    for (const std::vector<std::string>& metrics : found[i]) CHECK(metrics == expected);
  }
}

int main(int argc, char** argv) {
  const RankEnvironment launched = launched_ranks("mtl_mirror_ranks");
  if (launched.world < 2) {
    std::fprintf(stderr, "start it with mpirun -n 2 (or 4)\n");
    return 2;
  }
  cuda::use_device(launched.rank + 1);
  MpiSession job(launched);
  job.set_deadline(60);
  session = &job;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("--grid=")) chosen_grid = argv[i] + 7;
  }
  doctest::Context context(argc, argv);
  if (launched.rank > 0) context.setOption("minimal", true);
  const int result = context.run();
  std::fflush(stdout);
  if (result != 0) job.abort(result);
  return 0;
}
