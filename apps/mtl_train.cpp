// mtl-train: pre-trains a GPT from token files. The same command starts a run, resumes it, or reports that it is
// complete. Under mpirun or srun, each process is one rank of a job.
#include <omp.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "base/files.h"
#include "base/hash.h"
#include "cli/train/ranks.h"
#include "cli/train/setup.h"
#include "cli/train/train_flags.h"
#include "comm/agreement.h"
#include "comm/device_agreement.h"
#include "comm/nccl_environment.h"
#include "comm/rank_outcome.h"
#include "comm/text_exchange.h"
#include "device/cuda_device.h"
#include "device/cuda_stream.h"
#include "train/dry_run.h"
#include "train/memory_fit.h"
#include "train/trainer.h"

using namespace mtl;

namespace {

/// Collective, so that no rank allocates memory before all have passed the check. Rank 0 has checked what it could know
/// before the others told it their cgroups.
void check_all_ranks(const TrainOptions& options, const TrainSetup& setup, Ranks& ranks,
                     const std::vector<MemoryLimit>& limits, Communicator& world, Console& console) {
  const std::vector<std::string> groups = gather_texts(world, memory_groups(limits));
  const auto check = [&] {
    check_memory_fit(options, setup.start, ranks.launched(), limits, groups);
    if (world.rank() != 0) check_disks(options, setup.start, ranks.launched(), console);
    return std::string();
  };
  work_on_first_rank(world, check);
  work_on_every_rank(world, [&] { return world.rank() == 0 ? std::string() : check(); });
}

/// Trains from the starting state that rank 0 found. If its checkpoint turns out to be damaged, tries the one before,
/// and so on.
Exit train_from_start(TrainOptions& options, TrainSetup& setup, Ranks& ranks, const RankGroups& groups,
                      const std::vector<MemoryLimit>& limits, SignalRequests& signals, Console& console) {
  Communicator& world = groups.groups.world();
  std::shared_ptr<const SaveDirectory> save = setup.start.save;  // keeps the lock across all attempts
  for (std::vector<std::string> damaged;;) {
    const auto find = [&] {
      return damaged.empty() ? std::move(setup.start) : find_start(options, save, damaged, console);
    };
    setup.start = share_start(find, options, world);
    if (groups.rank != 0 || !damaged.empty()) complete_setup(options, setup);
    if (damaged.empty() && world.size() > 1) check_all_ranks(options, setup, ranks, limits, world, console);
    const StartPoint point = setup.start.point;
    std::optional<LoadError> fault;
    try {
      Trainer trainer(options, std::move(setup.start), setup.tokenizer.get(), groups, signals, console);
      adopt_start(point, options, world, console);
      ReportedProgress reported(ranks.session(), trainer.progress());
      return trainer.run();
    } catch (const LoadError& error) {
      fault = error;
    }
    if (!is_damaged(point, world, console)) throw LoadError(*fault);
    damaged.push_back(point.folder);
  }
}

/// Chooses options.device without communication. Also sets defaults for NCCL's variables, because setenv() is safe only
/// while the process has a single thread.
RankDevice choose_own_device(TrainOptions& options, Flags& flags, const RankEnvironment& launched) {
  RankDevice own = choose_rank_device(options.device_name, options.dry_run, launched, options.parallel.gpus_per_node);
  if (!own.choice.problem.empty()) flags.problem("--device " + options.device_name, own.choice.problem);
  options.device = own.choice.device;
  if (options.device == Device::cuda && launched.world > 1 && !options.dry_run) set_nccl_defaults();
  return own;
}

/// Collective: selects each rank's GPU, then checks the largest plan against the GPU with the least free memory, before
/// any rank allocates. `besides` names what is allocated already, in the message.
void check_gpus(const TrainOptions& options, const RankDevice& own, const TrainSetup& setup, Communicator& world,
                const std::string& besides) {
  const auto memory = [&] {
    cuda::use_device(own.ordinal);
    return cuda_memory();
  };
  const RankMemory least = least_free_memory(memory, world);
  work_on_first_rank(world, [&] {
    check_memory(options, setup.start, {0, world.size()},
                 {.host = {}, .gpu = gpu_limit(least.memory, cat("rank ", least.rank, "'s GPU", besides))});
    return std::string();
  });
}

void warn_of_nccl_variables(Console& console) {
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
  const std::string unused = describe_unused_nccl_variables(environment);
  if (!unused.empty()) console.warn(unused);
}

/// Collective: chooses one device for all ranks, and checks that the run fits on it.
Device choose_common_device(TrainOptions& options, const RankDevice& own, const TrainSetup& setup, Ranks& ranks,
                            const std::vector<MemoryLimit>& limits, MpiSession& session, Console& console) {
  const DeviceChoice choice =
      agree_on_device(options.device_name, own, session.hosts(), *session.control_group(), ::getenv);
  if (ranks.is_rank_zero() && !choice.text.empty()) console.info(choice.text);
  if (ranks.is_rank_zero() && choice.device == Device::cpu) warn_of_nccl_variables(console);
  const bool has_changed = choice.device != options.device;
  options.device = choice.device;
  if (options.tf32 && choice.device != Device::cuda)
    throw UsageError("--tf32", "needs a GPU on every rank, because the CPU multiplies in fp32; leave the flag out");
  if (has_changed && ranks.rank() == 0) check_memory_fit(options, setup.start, ranks.launched(), limits, {});
  if (choice.device == Device::cuda) check_gpus(options, own, setup, *session.control_group(), "");
  return choice.device;
}

/// Collective: throws on all ranks if they differ in program or flags, because they would then make different groups,
/// or train different models.
void check_same_command(const TrainOptions& options, MpiSession& session) {
  const std::string program = read_file("/proc/self/exe");
  check_same(*session.control_group(), session.hosts(),
             {{"program", hash_text(hash_bytes(program.data(), program.size()))}, {"command line", options.settings}});
}

/// Collective: chooses the layout and the device of all ranks.
Ranks::Groups agree_on_groups(TrainOptions& options, const RankDevice& own, const TrainSetup& setup, Ranks& ranks,
                              const std::vector<MemoryLimit>& limits, MpiSession& session, Console& console) {
  check_same_command(options, session);
  const Device device = choose_common_device(options, own, setup, ranks, limits, session, console);
  // Only rank 0 knows the model until the ranks have shared the starting state.
  const std::string layers =
      work_on_first_rank(*session.control_group(), [&] { return cat(setup.start.config.num_layers); });
  return {resolve_layout(options.parallel, parse_int(layers), session.rank()), device};
}

/// Collective: returns true, and says so, if rank 0 finds the file of --kill-switch-path.
bool is_switched_off(const TrainOptions& options, Communicator& world, Console& console) {
  const std::string& path = options.checkpoint.kill_switch_path;
  const std::string found =
      work_on_first_rank(world, [&] { return !path.empty() && file_exists(path) ? path : std::string(); });
  if (!found.empty()) console.info(cat("--kill-switch-path ", found, ": the file exists; remove it to train"));
  return !found.empty();
}

/// Takes `setup`, so that an error unlocks --save, and removes it if it is new, before the job ends.
Exit train(TrainOptions& options, TrainSetup setup, const RankDevice& own, Ranks& ranks,
           std::optional<SignalRequests>& signals, Console& console) {
  const std::string quota = options.threads == 0 ? describe_quota(ranks.launched().local_size) : "";
  options.threads = resolve_threads(options.threads, ranks.launched().local_size);
  omp_set_num_threads(static_cast<int>(options.threads));  // of loops that name no number, as in initialize_param()
  if (options.dry_run) {
    if (!ranks.is_rank_zero()) return Exit::ok;  // only rank 0 knows the model
    print_out(describe_run(options, setup.start.config));
    if (options.gpu_gib && options.device == Device::cuda)
      check_memory(options, setup.start, {0, static_cast<int>(options.parallel.world)},
                   {.host = {}, .gpu = gpu_limit(*options.gpu_gib)});
    return Exit::ok;
  }
  if (ranks.is_rank_zero() && !quota.empty()) console.info(quota);
  const std::vector<MemoryLimit> limits = memory_limits();  // before MPI takes memory
  if (ranks.rank() == 0) {
    check_memory_fit(options, setup.start, ranks.launched(), limits, {});
    check_disks(options, setup.start, ranks.launched(), console);
  }
  std::signal(SIGPIPE, SIG_IGN);  // the run survives when a reader closes the log's pipe
  RankGroups groups;
  groups.rank = ranks.launched().rank;
  const auto agree = [&](MpiSession& session) {
    return agree_on_groups(options, own, setup, ranks, limits, session, console);
  };
  if (ranks.launched().world > 1) signals->begin_connecting();
  groups.groups = ranks.connect(options.parallel.timeout_minutes * 60, agree);
  if (options.device == Device::cuda && groups.groups.world().size() > 1)
    check_gpus(options, own, setup, groups.groups.world(), " (beside the buffers of NCCL's groups)");
  if (MpiSession* session = ranks.session()) {
    groups.hosts = session->hosts();
    session->warn_with([&](const std::string& what) { console.warn(what); });
  }
  if (is_switched_off(options, groups.groups.world(), console)) return Exit::ok;
  return train_from_start(options, setup, ranks, groups, limits, *signals, console);
}

/// Runs before main and before the libraries' constructors, which take milliseconds. Until then, signals end the
/// process.
void block_signals_first(int, char**, char**) { block_request_signals(); }
__attribute__((section(".preinit_array"), used)) void (*const first_function)(int, char**,
                                                                              char**) = block_signals_first;

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): only without memory for the flags
int main(int argc, char** argv) {
  keep_thread_waits_short(argv);
  TrainOptions options;
  options.began = now_seconds();
  options.command_line = join({argv, argv + argc}, " ");
  Flags flags("mtl-train",
              "pre-train a GPT language model; the same command starts, resumes, or reports that the run is complete");
  Ranks ranks("mtl-train");
  std::optional<SignalRequests> signals;
  RankDevice device;
  // Before anything slow happens, such as a --config that waits for its writer, and before any other thread starts
  // (including MPI's).
  const auto begin = [&] {
    signals.emplace();
    const char* ended = "mtl-train: ended by a signal before the first iteration; the same command starts again";
    signals->end_at_once(ranks.is_rank_zero() ? ended : "");
  };
  flags.check([&] {
    if (options.dry_run || flags.wants_dump()) {
      signals.reset();
      unblock_request_signals();
    }
    if (options.dry_run) ranks.ignore_unsupported_launcher();
    resolve_world_size(options, ranks.launched().world);
    device = choose_own_device(options, flags, ranks.launched());
  });
  TrainSetup setup;
  add_train_flags(flags, options, setup.start);
  const auto prepare = [&] {
    options.settings = flags.dump_config();
    prepare_training(options, flags, ranks.rank() == 0, setup);
  };
  const auto work = [&](Console& console) {
    const bool is_alone =
        options.dry_run || ranks.launched().world == 1;  // otherwise reported once the ranks have agreed
    if (is_alone && ranks.is_rank_zero() && !device.choice.text.empty()) console.info(device.choice.text);
    return train(options, std::move(setup), device, ranks, signals, console);
  };
  RunFrame frame;
  frame.begin = begin;
  frame.prepare = prepare;
  return run_ranks(flags, argc, argv, ranks, work, frame);
}
